// Package design plays random histories of the whole protocol: a quorum of nodes, clients that
// acquire, extend and release, and everything that the claims of docs/safety.md allow to happen to
// them. The models of its parts are searched exhaustively in small worlds. Here the parts are put
// together, with real numbers, and time that passes: a million histories take about a minute of one
// processor.
//
// Nothing of the library runs here but the allowance for drift, and no script. What nodes do is
// what spec says that they do (spec.Entry, spec.Semaphore), and so are the decisions about tokens
// and markers (fence.First, spec.Judge). Time is an integer.
//
// # What happens
//
// A history is a plan that a seed and a number make: which clients want the lock when and for how
// long, how wrong each clock is, and what strikes when. There are one to seven nodes and two to
// five clients, and one name: a mutex, a shared lock, or a semaphore. Messages take as long as
// their names say, so that leaving out a part of the plan does not change the rest.
//
//   - Clocks run at rates that drift apart by less than 1 %. Wall clocks of clients are off by any
//     time. Nodes are off by 5 s at most, except for one, whose clock and counter may be minutes
//     ahead or behind.
//   - Connections keep the order of messages. They are cut (what is under way still arrives), lost,
//     held back in either direction, and repeat a request. The next connection kills the one
//     before, and brings the releases that were not answered.
//   - Nodes and clients stop and go on. Clients crash. Nodes die and come back without their data,
//     with all of it, or with what it was before; or lose it on the spot.
//   - In some histories time is not as assumed: nodes lose the key of the lock, and their clocks
//     leap. There only what needs no time is judged, which is tokens and the order of messages.
//
// # What is judged
//
// [Claim] has the list. Judges know true time and look into all nodes; clients do not.
//
// The tests give the protocol mistakes ([Rules]), and require histories to find each.
//
// # What is outside
//
// Waiting: a client that is refused asks again after a pause, and nothing is handed over. New
// clusters: a node that nobody has known waits for T (QuarantineStrict). Adoption, sets of names, a
// minimum hold, intents of writers, fencing of permits, and counters that expire.
package design

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// A Report is what histories came to.
type Report struct {
	Histories uint64 // that were played, up to and with the first failure
	Faults    int64  // that happened in them
	Counts    [numCounters]int64
	Failed    bool
	Failure   uint64 // the number of the first history that broke the claim
}

// Run plays histories of a seed, from number 0, until one of them breaks a claim: the given one, or
// any if that is [Nothing]. It uses all processors. What it reports of a failure does not depend on
// how many there are.
func Run(seed, histories uint64, rules Rules, claim Claim) Report {
	var next, first atomic.Uint64
	first.Store(histories)
	var all sync.WaitGroup
	var mu sync.Mutex // guards report
	var report Report
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			w, p := &world{rules: rules}, newPlanner()
			faults := int64(0)
			for {
				i := next.Add(1) - 1
				if i >= first.Load() {
					break
				}
				w.play(p.make(seed, i))
				faults += w.faults
				if w.breaks(claim) {
					for at := first.Load(); i < at && !first.CompareAndSwap(at, i); at = first.Load() {
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			report.Faults += faults
			for i, count := range w.counts {
				report.Counts[i] += count
			}
		})
	}
	all.Wait()
	report.Histories = histories
	if at := first.Load(); at < histories {
		report.Histories, report.Failed, report.Failure = at+1, true, at
	}
	return report
}

// breaks reports whether the history broke a claim.
func (w *world) breaks(claim Claim) bool {
	if claim == Nothing {
		return w.first != Nothing
	}
	return w.broken[claim]
}

// Tell plays one history, and returns what happened, a line for each event, and which claim was the
// first to be broken.
func Tell(seed, i uint64, rules Rules) (told string, broken Claim) {
	return tell(newPlanner().make(seed, i), rules, Nothing)
}

// tell is Tell for a plan, until it breaks a claim.
func tell(p *plan, rules Rules, until Claim) (told string, broken Claim) {
	var lines history.Timeline
	w := &world{rules: rules, plan: p, log: &lines, until: until}
	text := fmt.Sprintf("%d nodes, %d clients", p.nodes, p.clients)
	switch {
	case p.permits > 0:
		text += fmt.Sprintf(", %d permits", p.permits)
	case p.lawless:
		text += ", with fencing; time is not as assumed"
	case p.fenced:
		text += ", with fencing"
	}
	w.say("", "%s", text)
	for i := range p.items {
		if it := &p.items[i]; it.kind < cuts {
			w.say(it.whom(), "%s", it)
		}
	}
	w.play(p)
	return lines.String(), w.first
}

// Shrink plays a history that breaks a claim with fewer and fewer uses and faults, for as long as
// it still breaks it, and returns what happens in the smallest one, until then. If the claim is
// [Nothing], it is the first that the history breaks.
func Shrink(seed, i uint64, rules Rules, claim Claim) (told string) {
	p := *newPlanner().make(seed, i)
	w := &world{rules: rules}
	if w.play(&p); !w.breaks(claim) {
		return ""
	}
	if claim == Nothing {
		claim = w.first
	}
	p = history.Shrink(p, func(p plan) bool {
		w.play(&p)
		return w.broken[claim]
	}, simplify...)
	told, _ = tell(&p, rules, claim)
	return told
}

// simplify are the steps of shrinking: without items, smaller, and with simpler items.
var simplify = []history.Step[plan]{
	func(p plan, try func(plan) bool) {
		history.Without(p.items, func(rest []item) bool {
			p.items = rest
			return try(p)
		})
	},
	func(p plan, try func(plan) bool) {
		for _, smaller := range p.smaller() {
			try(smaller)
		}
	},
	func(p plan, try func(plan) bool) {
		for at := range p.items {
			for _, simpler := range p.items[at].simpler() {
				other := p
				other.items = slices.Clone(p.items)
				other.items[at] = simpler
				if try(other) {
					p = other
				}
			}
		}
	},
}

// smaller returns the plan with fewer nodes, with fewer clients, and without noise, where that can
// be.
func (p plan) smaller() (others []plan) {
	used := 0
	for _, it := range p.items {
		used = max(used, int(it.client)+1)
	}
	if used < p.clients {
		other := p
		other.clients = used
		others = append(others, other)
	}
	for nodes := range p.nodes {
		other := p
		other.nodes = nodes
		other.items = slices.DeleteFunc(slices.Clone(p.items), func(i item) bool { return int(i.node) >= nodes })
		if nodes > 0 {
			others = append(others, other)
		}
	}
	if p.noise != 0 {
		p.noise = 0
		others = append(others, p)
	}
	return others
}

// simpler returns what may do instead of an item.
func (i item) simpler() (others []item) {
	add := func(change func(*item)) {
		other := i
		if change(&other); other != i {
			others = append(others, other)
		}
	}
	if i.kind == uses {
		add(func(o *item) { o.tries = 1 })
		add(func(o *item) { o.renews = false })
		add(func(o *item) { o.other = o.ttl })
		add(func(o *item) { o.reads = false })
		add(func(o *item) { o.hold = o.ttl * millisecond })
	}
	for n := range maxNodes {
		if rest := i.mask &^ (1 << n); rest != 0 {
			add(func(o *item) { o.mask = rest })
		}
	}
	return others
}

func clientName(client int8) string { return "client " + string(rune('A'+client)) }
func nodeName(node int8) string     { return fmt.Sprintf("node %d", node+1) }

// say adds a line to the timeline.
func (w *world) say(who, format string, args ...any) {
	if w.log != nil {
		w.log.Add(clock.Instant(w.now*int64(time.Microsecond)), who, format, args...)
	}
}

// sayClient adds what a client does.
func (w *world) sayClient(c *client, what string) {
	if w.log == nil {
		return
	}
	text := fmt.Sprintf("%s, as %d", what, c.value)
	if c.phase == held && w.believing(c) {
		text += fmt.Sprintf(", until %.6f", seconds(c.believes))
		if c.token > 0 {
			text += fmt.Sprintf(", with token %d", c.token)
		}
		if c.slot > 0 {
			text += fmt.Sprintf(", slot %d of %d", c.slot, c.permits)
		}
	}
	w.say(clientName(c.id), "%s", text)
}

// sayExecuted adds what a node did with a request.
func (w *world) sayExecuted(e *event) {
	if w.log == nil {
		return
	}
	m := &e.message
	text := fmt.Sprintf("%v of %s", m.op, clientName(e.client))
	if m.value != 0 {
		text += fmt.Sprintf(", as %d", m.value)
	}
	if m.reads {
		text += ", to read"
	}
	if m.again {
		text += ", again"
	}
	switch m.op {
	case acquire, take, extend, raise:
		text += [...]string{spec.Refused: ": no", spec.Extended: ": yes", spec.Healed: ": set again"}[m.answer]
		if m.slot > 0 {
			text += fmt.Sprintf(", slot %d", m.slot)
		}
		if m.op != raise && m.answer != spec.Refused {
			text += fmt.Sprintf(", for %d ms", m.ttl)
		}
		if m.fence > 0 && w.plan.fenced {
			text += fmt.Sprintf(", fence %d", m.fence)
		}
	case hello, look, swap, mend, release:
	}
	w.say(nodeName(e.node), "%s (marker %v)", text, w.nodes[e.node].marker.state)
}

// whom returns what an item hits.
func (i *item) whom() string {
	if kinds[i.kind].hits == aNode {
		return nodeName(i.node)
	}
	return clientName(i.client)
}

// String says what an item is.
func (i *item) String() string {
	k := &kinds[i.kind]
	var text strings.Builder
	text.WriteString(k.name)
	if k.hits == connections {
		text.WriteString(", of nodes")
		for n := range int8(maxNodes) {
			if i.mask>>n&1 == 1 {
				text.WriteString(fmt.Sprintf(" %d", n+1))
			}
		}
	}
	if i.kind == uses {
		text.WriteString(fmt.Sprintf(" from %.6f, with %d ms, for %.6f s, in %d attempts", seconds(i.at), i.ttl, seconds(i.hold), i.tries))
		if i.reads {
			text.WriteString(", to read")
		}
		if i.renews {
			text.WriteString(fmt.Sprintf(", and extends it, with %d ms every second time", i.other))
		}
	}
	switch k.unit {
	case nothing:
	case microseconds:
		text.WriteString(fmt.Sprintf(": %.6f s", seconds(i.span)))
	case number:
		text.WriteString(fmt.Sprintf(": %d", i.span))
	}
	return text.String()
}

func seconds(t int64) float64 { return float64(t) / million }
