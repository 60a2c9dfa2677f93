package driver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/pool"
)

// run is a history while it is played.
type run struct {
	*world
	t    *testing.T
	plan *plan

	base    context.Context    //nolint:containedctx // ends every call of a history that hangs
	cancel  context.CancelFunc // of base
	cluster string             // that the masters are at first
	known   *versions          // that they were told, if members change
	ending  chan struct{}      // closed at the end of the storm
	once    atomic.Int64       // names that were used once

	watchers sync.WaitGroup // of locks
	open     atomic.Int32   // faults that have begun, and not ended
	stopping sync.Mutex     // held by an act that has stopped a master
	calls    atomic.Int32   // that acquire, and are under way
	strayed  atomic.Int64   // when a master last sent a surplus reply, as a clock.Instant; 0: never

	mu      sync.Mutex // guards the fields below; taken last, as each promise takes it
	clients []*client
	nodes   []*pool.Node // that Lockers share
	handles []*handle
	holds   []*history.Hold
	// resources are those that fenced locks protect, by name.
	resources map[string]*resource
	waiting   map[string]int    // calls that wait, by name
	waited    map[string]int    // calls that have begun to wait, by name
	checked   map[string]int    // how often a promise was looked at
	reached   map[string]int    // how often a rare state was
	versions  map[string]string // lists of members, by version
	removals  []removal         // by master
	wrong     []string
	heard     func(master int, key, before, now string) // is told what masters keep about a cluster, if members change
	timeline  history.Timeline
	broken    int // faults that have begun
}

const (
	mostWrong = 5 // bounds the report about a broken library

	// hangs is when a call that must end does not.
	hangs = time.Minute
)

// newRun returns a history of a plan in a world. Its context must be canceled.
func newRun(t *testing.T, p *plan, w *world) *run {
	r := &run{
		world: w, t: t, plan: p, ending: make(chan struct{}),
		waiting: make(map[string]int), waited: make(map[string]int), checked: make(map[string]int), reached: make(map[string]int),
		resources: make(map[string]*resource), versions: make(map[string]string), removals: make([]removal, len(w.endpoints)),
	}
	r.base, r.cancel = context.WithCancel(context.Background())
	r.follow()
	w.prefix(p)
	return r
}

// play plays it.
func (r *run) play() {
	defer r.cancel()
	if !r.found() {
		return
	}
	for i := range r.plan.clients {
		r.clients = append(r.clients, r.newClient(&r.plan.clients[i]))
	}
	if r.plan.script != nil {
		r.plan.script(&actor{run: r, who: "script", rng: r.plan.rng("script", 0)})
		close(r.ending)
	} else if !r.storm() {
		return
	}
	r.quiet()
	r.end()
	r.judge()
}

// storm lets the actors act beside faults. It reports false if something hangs.
func (r *run) storm() bool {
	var acting sync.WaitGroup
	for i := range r.plan.actors {
		a := &actor{run: r, who: r.plan.actors[i], rng: r.plan.rng("actor", uint64(i))}
		acting.Go(a.storm)
	}
	for i := range r.plan.beside {
		acting.Go(func() { r.plan.beside[i].act(r, r.plan.rng("beside", uint64(i))) })
	}
	acting.Go(r.suffer)
	acting.Go(r.tellsOfLoss)
	if r.plan.late {
		acting.Go(func() {
			r.pause(r.plan.length / 3)
			r.foundOf(r.endpoints[first:])
		})
	}
	time.AfterFunc(r.plan.length, func() { close(r.ending) })
	<-r.ending
	return r.finish(&acting)
}

// finish waits for all that is under way when the storm is over.
func (r *run) finish(acting *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		acting.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(hangs):
		r.fail("a call has not ended %v after the storm", hangs)
		r.cancel()
		<-done
		return false
	}
}

func (r *run) goesOn() bool {
	select {
	case <-r.ending:
		return false
	default:
		return true
	}
}

// pause waits a while, less when the storm ends.
func (r *run) pause(d time.Duration) {
	select {
	case <-r.ending:
	case <-time.After(d):
	}
}

// promise looks at one promise of the documentation (see promises): it is broken unless kept.
func (r *run) promise(name string, kept bool, format string, args ...any) {
	r.mu.Lock()
	r.checked[name]++
	r.mu.Unlock()
	if !kept {
		r.fail("%s: %s", name, fmt.Sprintf(format, args...))
	}
}

// fail records what was found wrong.
func (r *run) fail(format string, args ...any) {
	text := fmt.Sprintf("at %v: ", time.Duration(r.clock.Now())) + fmt.Sprintf(format, args...)
	r.note("FOUND", "%s", text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) < mostWrong {
		r.wrong = append(r.wrong, text)
	}
}

// reachIf notes that a rare state (see rare) was reached, if it was.
func (r *run) reachIf(state string, reached bool) {
	if !reached {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached[state]++
}

// note adds a line to the timeline.
func (r *run) note(who, format string, args ...any) {
	r.timeline.Add(r.clock.Now(), who, format, args...)
}

// since returns how much time has passed since an instant.
func (r *run) since(at clock.Instant) time.Duration { return r.clock.Now().Sub(at) }

// suffer lets the faults of the plan begin and end at their times. When the storm ends, all do.
func (r *run) suffer() {
	var all sync.WaitGroup
	for i := range r.plan.faults {
		f := &r.plan.faults[i]
		if f.what == byActs {
			continue
		}
		all.Go(func() {
			r.pause(f.at)
			if !r.goesOn() {
				return
			}
			who := fmt.Sprint("master ", f.master)
			r.note(who, "%s (%d)", f.what, f.much)
			if f.what == straying {
				r.strayed.Store(int64(r.clock.Now()))
			}
			heal := r.masters[f.master].breaks(f.what, f.much)
			r.open.Add(1)
			r.mu.Lock()
			r.broken++
			r.mu.Unlock()
			r.pause(f.lasts)
			heal()
			r.open.Add(-1)
			r.note(who, "no longer %s", f.what)
		})
	}
	all.Wait()
}

// judge judges all holds together.
func (r *run) judge() {
	r.mu.Lock()
	holds := r.holds
	r.mu.Unlock()
	found := history.All(history.Judge(holds, false))
	for _, v := range found {
		r.fail("exclusion: %v", v)
	}
	for _, h := range holds {
		switch {
		case h.Permits > 0:
			r.promise("permits", true, "")
		case h.Shared:
			r.promise("readers", true, "")
		default:
			r.promise("exclusion", true, "")
		}
		if h.Token != 0 {
			r.promise("tokens", true, "")
		}
		if h.Kept != 0 {
			r.promise("minimum hold", true, "")
		}
	}
}

// report returns what was found wrong, with what happened around it.
func (r *run) report() string {
	return fmt.Sprintf("seed %d: %s\n%s\n%s", r.plan.seed, strings.Join(r.wrong, "\n"), r.plan, r.timeline.String())
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// pick returns one of several.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }
