package driver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// plan is what a history is made of. The seed decides all of it; shrinking leaves parts out.
type plan struct {
	seed      uint64
	masters   int
	maxTTL    time.Duration // of the cluster
	wrong     int           // the master whose clock is wrong, or -1
	clock     time.Duration // by which it is ahead
	clients   []clientPlan
	actors    []string
	beside    []besidePlan
	faults    []faultPlan
	length    time.Duration // of the storm
	forgets   bool          // masters lose keys
	forgotten time.Duration // when a majority loses its keys; 0: never
	sleeps    bool          // the machine of a client does
	changes   bool          // operators change members
	operators int           // so many, at once
	lists     bool          // those of the clients differ, and the masters are no cluster at first
	shared    int           // the master in all lists
	rival     bool          // there are two clusters
	late      bool          // the second of them comes when clients count by the first
	prefix    string        // of keys
	lingers   time.Duration // the tracer, after a lock was acquired
	term      time.Duration // the longest hold of the lock of an election; 0: none
	acts      []*act
	script    func(a *actor) // what happens instead of a storm
	scene     string         // the name of that
}

// clientPlan is a Locker.
type clientPlan struct {
	who     string
	list    []int // the masters in its list
	ttl     time.Duration
	drift   bool // it allows for drift
	renewal bool
	ahead   time.Duration // its clock, of the others
	sleeps  bool          // its machine does
	waits   time.Duration // for a node; 0: by default
	nodes   bool          // its Lockers share nodes that it made
	logs    bool          // they have a logger
	notes   bool          // they note histories
	opts    []redlock.Option
}

// faultPlan is one thing that breaks, and heals again.
type faultPlan struct {
	what      string
	master    int
	at, lasts time.Duration
	much      int
}

// besidePlan is something that happens beside the actors.
type besidePlan struct {
	what string
	act  func(r *run, rng *rand.Rand)
}

// byActs stands for what acts do to a master, and no other fault is in the plan then.
const byActs = "is stopped by acts"

// forgetful are faults that lose keys.
var forgetful = []string{"restarts empty", "is flushed", "restarts from a snapshot"}

// newPlan draws the plan of a seed, with faults of these kinds.
func newPlan(seed uint64, faults []string) *plan {
	p := &plan{seed: seed}
	rng := p.rng("plan", 0)
	p.masters = pick(rng, 1, 2, 3, 3, 3, 3, 3, 5)
	p.maxTTL = pick(rng, 500*time.Millisecond, time.Second, 2*time.Second)
	p.changes = rng.IntN(6) == 0 && p.masters >= 3 // a list must have most members, also of one more
	p.length = 500*time.Millisecond + upTo(rng, 1500*time.Millisecond)
	if p.changes { // each waits for the last one, and for MaxTTL
		p.maxTTL, p.length = 500*time.Millisecond, 2*time.Second+upTo(p.rng("changes", 0), 3*time.Second)
	}
	p.drawLists(p.rng("lists", 0))
	p.prefix = pick(p.rng("prefix", 0), "", "", "", "app/")
	p.lingers = pick(rng, 0, 0, 0, 0, 0, 0, 0, upTo(rng, 30*time.Millisecond))
	addOutage := p.drawOutage(p.rng("outage", 0), faults)
	count := 2 + rng.IntN(2)
	if p.lists {
		count = 4
	}
	for i := range count {
		p.clients = append(p.clients, p.drawClient(i, rng))
	}
	actors := 3 + rng.IntN(5)
	if p.changes {
		actors = 2
	}
	for i := range actors {
		p.actors = append(p.actors, fmt.Sprint("actor ", i))
	}
	p.drawClock(p.rng("clock", 0))
	p.drawSleep(p.rng("sleep", 0))
	p.drawFaults(rng, faults)
	addOutage()
	if term := p.rng("term", 0); term.IntN(3) == 0 {
		p.term = 10*time.Millisecond + upTo(term, 150*time.Millisecond)
	}
	p.nearClocks()
	p.drawModes()
	p.drawBeside(rng)
	p.drawActs(rng)
	return p
}

// rng returns random numbers for one part of the plan, which do not change if others are left out.
func (p *plan) rng(part string, i uint64) *rand.Rand {
	for _, c := range part {
		i = i*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(p.seed, i))
}

func (p *plan) drawClient(i int, rng *rand.Rand) clientPlan {
	c := clientPlan{
		who: fmt.Sprint("client ", i), list: p.drawList(rng), ttl: pick(rng, p.maxTTL/4, p.maxTTL/2, p.maxTTL),
		drift: rng.IntN(2) == 0, renewal: rng.IntN(3) > 0,
	}
	longest := p.maxTTL << (p.rng("longer TTLs", uint64(i)).IntN(4) / 3)
	c.opts = []redlock.Option{redlock.WithMaxTTL(longest), redlock.WithTTL(c.ttl), redlock.WithOwner(c.who)}
	if !p.unsettled() { // whose tokens go by clocks
		c.ahead = pick(rng, 0, upTo(rng, 50*time.Millisecond))
		if p.rng("far ahead", uint64(i)).IntN(12) == 0 {
			c.ahead += time.Hour
		}
	}
	if !c.drift {
		c.opts = append(c.opts, redlock.WithDrift(0, 0))
	}
	if !c.renewal {
		c.opts = append(c.opts, redlock.WithoutRenewal())
	}
	rare := p.rng("rare options", uint64(i))
	if c.nodes = rare.IntN(6) == 0 && !p.unsettled(); rare.IntN(6) == 0 {
		c.waits = pick(rare, 10*time.Millisecond, 80*time.Millisecond, 700*time.Millisecond)
		c.opts = append(c.opts, redlock.WithNodeTimeout(c.waits))
	}
	if c.notes = p.rng("history", uint64(i)).IntN(3) == 0; c.notes {
		c.opts = append(c.opts, redlock.WithHistory())
	}
	if p.prefix != "" {
		c.opts = append(c.opts, redlock.WithKeyPrefix(p.prefix))
	}
	if p.lingers > 0 {
		c.opts = append(c.opts, redlock.WithTracer(lingering(p.lingers)))
	}
	if rng.IntN(3) == 0 {
		c.opts = append(c.opts, redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond))
	}
	return c
}

// office returns the options of the lock of an election.
func (p *plan) office() (opts []redlock.LockOption) {
	if p.term > 0 {
		opts = append(opts, redlock.WithMaxHold(p.term))
	}
	return opts
}

// lingering is a tracer that keeps who acquired a lock waiting for so long.
type lingering time.Duration

// Start implements redlock.Tracer.
func (d lingering) Start(ctx context.Context, op redlock.Operation) (context.Context, func(error)) {
	return ctx, func(err error) {
		if op.Kind == redlock.OperationAcquire && err == nil {
			time.Sleep(time.Duration(d))
		}
	}
}

// allowance returns what the client subtracts from a TTL by default, to allow for drift.
func (c *clientPlan) allowance(ttl time.Duration) time.Duration {
	if !c.drift {
		return 0
	}
	return ttl/100 + 2*time.Millisecond
}

// drawList draws the masters that a client lists: usually all, or most of them.
func (p *plan) drawList(rng *rand.Rand) []int {
	if p.lists {
		return p.listOfShared(rng)
	}
	list := rng.Perm(p.masters)
	if rng.IntN(4) == 0 && !p.changes {
		list = list[:len(list)/2+1+rng.IntN(len(list)-len(list)/2)]
	}
	return list
}

func (p *plan) drawFaults(rng *rand.Rand, kinds []string) {
	count := pick(rng, 0, 4, 12, 24)
	one := rng.IntN(p.masters) // the only master that may lose its keys
	alone := p.masters >= 3 && p.rng("faults of one master", 0).IntN(2) == 0
	forgets := p.masters >= 3 && !p.lists && (!p.changes || alone) // see docs/safety.md#limits
	for range count {
		f := faultPlan{what: kinds[rng.IntN(len(kinds))], master: rng.IntN(p.masters), much: 1 + rng.IntN(20)}
		if slices.Contains(forgetful, f.what) {
			if !forgets {
				continue
			}
			f.master, p.forgets = one, true
		}
		if alone {
			f.master = one
		}
		f.at, f.lasts = upTo(rng, p.length), upTo(rng, 40*time.Millisecond)
		if rng.IntN(2) == 0 {
			f.lasts = upTo(rng, p.length/2)
		}
		p.faults = append(p.faults, f)
	}
	if count == 0 && alone && !p.unsettled() {
		p.faults = append(p.faults, faultPlan{what: byActs, master: one})
	}
	if count > 0 && rng.IntN(8) == 0 { // for longer than Close waits
		p.length = 2 * time.Second
		p.faults = append(p.faults, faultPlan{what: "stopped", master: rng.IntN(p.masters), at: upTo(rng, p.length/4), lasts: p.length})
	}
}

// drawClock may give one master a wrong clock.
func (p *plan) drawClock(rng *rand.Rand) {
	if p.wrong = -1; rng.IntN(4) == 0 && !p.lists {
		p.wrong = rng.IntN(p.masters)
		p.clock = pick(rng, time.Duration(-1), 1) * pick(rng, time.Second, 15*time.Second, time.Hour, 10000*time.Hour)
	}
}

// tokensByClocks reports whether tokens go by clocks, one of which is wrong: where members change
// twice between two locks, nothing else is known (docs/safety.md, S15). Then they are not judged,
// and there are no elections and queues, which go by them.
func (p *plan) tokensByClocks() bool { return p.changes && p.wrong >= 0 }

// nearClocks sets back the clocks of clients that are far ahead, if masters forget. By such a
// clock counter is ten seconds ahead, and once it is lost, the masters' clocks do not make up for
// it: MaxTTL is shorter here (docs/fencing.md).
func (p *plan) nearClocks() {
	for i := range p.clients {
		if p.forgets {
			p.clients[i].ahead %= time.Hour
		}
	}
}

// drawModes gives clients options that make no difference to them: which members they discover
// where they list all, and how they treat masters that forget where none does.
func (p *plan) drawModes() {
	for i := range p.clients {
		c, rng := &p.clients[i], p.rng("modes", uint64(i))
		if rng.IntN(4) == 0 && !p.unsettled() && !c.nodes && len(c.list) == p.masters {
			c.opts = append(c.opts, redlock.WithoutDiscovery())
		}
		if rng.IntN(4) == 0 && !p.unsettled() && !p.forgets { // the driver's promises are not those of QuarantineOff
			c.opts = append(c.opts, redlock.WithQuarantine(redlock.QuarantineStrict))
		}
		c.logs = rng.IntN(2) == 0
	}
}

// ordered returns a token if its order is promised, and otherwise none. The clocks of masters make
// up for lost counters if they are within ten seconds of each other (docs/fencing.md). The only
// counter goes back if a master takes one SET of a script and refuses the next, as none does.
func (r *run) ordered(token int64) int64 {
	apart := r.plan.forgets && r.plan.wrong >= 0 && r.plan.clock.Abs() > 10*time.Second
	alone := r.plan.masters == 1 && r.plan.suffers("a script fails midway")
	if apart || alone || r.plan.tokensByClocks() {
		return 0
	}
	return token
}

// drawSleep may have the machine of one client sleep now and then.
func (p *plan) drawSleep(rng *rand.Rand) {
	if p.sleeps = rng.IntN(6) == 0; p.sleeps {
		p.clients[rng.IntN(len(p.clients))].sleeps = true
	}
}

func (p *plan) drawBeside(rng *rand.Rand) {
	for _, b := range besides {
		if rng.IntN(3) == 0 && !p.lists && (b.what != electing && b.what != queueing || !p.tokensByClocks()) {
			p.beside = append(p.beside, b)
		}
	}
	if p.changes || p.lists && !p.rival && rng.IntN(2) == 0 {
		p.operators = 1 + p.rng("operators", 0).IntN(3)
		p.beside = append(p.beside, slices.Repeat([]besidePlan{{"an operator changes members", changes}}, p.operators)...)
	}
}

// calm reports whether nothing breaks or sleeps, nobody writes into masters, and the members stay.
func (p *plan) calm() bool {
	return len(p.faults) == 0 && !p.unsettled() && !p.spoiled() && !p.sleeps
}

// steady reports whether a majority of the masters is well all the time: then calls succeed, and
// locks last, as if all were. A client whose list lacks masters may need the one that breaks.
func (p *plan) steady() bool {
	if p.unsettled() || p.sleeps || len(p.faults) == 0 {
		return !p.unsettled() && !p.sleeps
	}
	others := slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.master != p.faults[0].master })
	return !others && !p.partial() && p.masters >= 3
}

// onlyBreaks reports whether nothing breaks but, at most, one master.
func (p *plan) onlyBreaks(master int) bool {
	return !slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.master != master })
}

// whole reports whether nothing breaks a master.
func (p *plan) whole(master int) bool {
	return !slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.master == master })
}

// hasSnapshotOf reports whether a master may have again what it deleted.
func (p *plan) hasSnapshotOf(master int) bool {
	return slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.master == master && f.what == "restarts from a snapshot" })
}

// keepsReleases reports whether a master may fail to run a release. Until it is asked again, it has
// what it granted to an attempt, and a waiting call may meet its own.
func (p *plan) keepsReleases() bool {
	return slices.ContainsFunc(p.faults, func(f faultPlan) bool {
		return strings.HasPrefix(f.what, "a script fails") || f.what == "refuses writes"
	})
}

// partial reports whether a client does not list all masters. Where those forgot that it lists, it
// makes a new cluster of them, which the others are not of.
func (p *plan) partial() bool {
	return slices.ContainsFunc(p.clients, func(c clientPlan) bool { return len(c.list) < p.masters })
}

// suffers reports whether something is among the faults, at any master.
func (p *plan) suffers(what string) bool {
	return slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.what == what })
}

// cutsChanges reports whether a member may restart while another one is ill and members change. If
// that one was not told of a removal, and the first one forgets it, only the removed master knows
// the list of members: too few are left (docs/operations.md).
func (p *plan) cutsChanges() bool {
	return p.changes && p.suffers("killed") && slices.ContainsFunc(p.faults, func(f faultPlan) bool { return f.master != p.faults[0].master })
}

// quarantines returns how many quarantines a master may go through, one after another: one for each
// time that it forgot, and one more where a client saw nothing of that.
func (p *plan) quarantines() (n time.Duration) {
	for _, f := range p.faults {
		if slices.Contains(forgetful, f.what) && n < 2 {
			n++
		}
	}
	return n + 1
}

// has reports whether something happens beside the actors.
func (p *plan) has(what string) bool {
	return slices.ContainsFunc(p.beside, func(b besidePlan) bool { return b.what == what })
}

// spoiled reports whether others write beside the locks.
func (p *plan) spoiled() bool { return p.has(spoiling) }

// drawActs gives each kind of act a weight, which may be 0: so some histories are full of what is
// rare in others.
func (p *plan) drawActs(rng *rand.Rand) {
	for _, a := range acts {
		weight := a.weight * pick(rng, 0, 1, 1, 1, 4)
		p.acts = append(p.acts, slices.Repeat([]*act{a}, weight)...)
	}
	if len(p.acts) == 0 {
		p.acts = acts
	}
}

// String tells the plan.
func (p *plan) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d masters, MaxTTL %v, storm of %v", p.masters, p.maxTTL, p.length)
	if p.wrong >= 0 {
		fmt.Fprintf(&text, ", the clock of master %d is ahead by %v", p.wrong, p.clock)
	}
	for _, c := range p.clients {
		fmt.Fprintf(&text, "\n%s: masters %v, TTL %v, renewal %t, drift %t", c.who, c.list, c.ttl, c.renewal, c.drift)
	}
	kinds := make(map[string]bool)
	for _, a := range p.acts {
		kinds[a.name] = true
	}
	fmt.Fprintf(&text, "\n%d actors: %s", len(p.actors), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	for _, b := range p.beside {
		fmt.Fprintf(&text, "\nbeside them: %s", b.what)
	}
	return text.String()
}
