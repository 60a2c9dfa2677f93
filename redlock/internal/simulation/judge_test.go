package simulation_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// judge records who held and who waited for which lock, and reports what was wrong: besides what is
// wrong with the tenures (see [history.Judge]), a lock that was free for too long while a client
// waited for it, waiters that were overtaken, and locks whose keys others touched.
type judge struct {
	clock *clocktest.Clock
	bound time.Duration // how long a lock may be free in calm times while a client waits
	turns turns
	order bool // judge only the order of tokens: the faults make nodes forget locks

	mu      sync.Mutex // guards the fields below and what they refer to
	had     []*history.Hold
	byValue map[string]*history.Hold
	records map[string]*record
	touched []touch
	calm    clock.Instant // since when nothing is broken and earlier damage has healed
	stormy  bool          // calm does not apply
	longest time.Duration // time that a lock was free in calm times while a client waited
	most    int           // the most that a waiter was overtaken
	slow    time.Duration // the longest wait
	wrong   []string
	cases   []*history.Case // after the sentence
}

// turns are what a judge demands of the order in which clients get a lock.
type turns struct {
	bound int           // how often later callers may overtake a waiter; 0: any number
	wait  time.Duration // how long a wait may take; 0: any length
}

// record is what the judge knows about a name.
type record struct {
	holders int
	free    clock.Instant // since when it has no holder; valid only without one
	waiting []*wait       // oldest first
}

// wait is a call that waits for names.
type wait struct {
	who       string
	names     []string
	since     clock.Instant
	overtaken int    // tenures in calm times by clients that called later
	by        string // the last of these clients
}

// forSet reports whether the wait is for several names.
func (w *wait) forSet() bool { return len(w.names) > 1 }

// touch is a command that replaced or deleted the key of a client that seemed to hold the lock.
type touch struct {
	at     clock.Instant
	node   int
	change fakeredis.Change
	tenure *history.Hold
}

const (
	maxWrong   = 10   // bounds the report about a broken library
	maxTouched = 1000 // bounds the touches that are kept until their tenures have ended

	// neverJudged is a bound on waiting that is never exceeded.
	neverJudged = time.Hour
)

func newJudge(s *simulation, bound time.Duration) *judge {
	return &judge{
		clock: s.Clock, bound: bound, records: make(map[string]*record), byValue: make(map[string]*history.Hold),
	}
}

func (j *judge) recordLocked(name string) *record {
	r := j.records[name]
	if r == nil {
		r = &record{free: j.clock.Now()}
		j.records[name] = r
	}
	return r
}

func (j *judge) wrongLocked(format string, args ...any) {
	if len(j.wrong) < maxWrong {
		j.wrong = append(j.wrong, fmt.Sprintf("at %v: ", time.Duration(j.clock.Now()))+fmt.Sprintf(format, args...))
	}
}

// fail records what a client found wrong.
func (j *judge) fail(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrongLocked(format, args...)
}

// storm records that something is broken from now on, or was until now.
func (j *judge) storm() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stormy = true
}

// calmSince records that nothing is broken from the given instant on.
func (j *judge) calmSince(at clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calm, j.stormy = at, false
}

// waits records a call that waits for names.
func (j *judge) waits(who string, names []string) *wait {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &wait{who: who, names: names, since: j.clock.Now()}
	for _, name := range names {
		r := j.recordLocked(name)
		r.waiting = append(r.waiting, w)
	}
	return w
}

// leaves records that the call has returned, with or without the lock.
func (j *judge) leaves(w *wait) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turnLocked(w)
	for _, name := range w.names {
		r := j.recordLocked(name)
		j.lookLocked(r, w)
		i := slices.Index(r.waiting, w)
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// turnLocked judges a wait at its end.
func (j *judge) turnLocked(w *wait) {
	j.most = max(j.most, w.overtaken)
	if j.turns.bound > 0 && w.overtaken > j.turns.bound {
		j.wrongLocked("%q: a waiter since %v was overtaken %d times, last by %s; at most %d allowed",
			w.names, time.Duration(w.since), w.overtaken, w.by, j.turns.bound)
	}
	if j.stormy {
		return
	}
	waited := j.clock.Now().Sub(max(w.since, j.calm))
	j.slow = max(j.slow, waited)
	if j.turns.wait > 0 && waited > j.turns.wait {
		j.wrongLocked("%q: a wait took %v, at most %v allowed", w.names, waited, j.turns.wait)
	}
}

// lookLocked judges how long w has waited for a lock that is free. A sum over canceled calls would
// mean nothing: each may have given up just as it got the vote.
func (j *judge) lookLocked(r *record, w *wait) {
	if r.holders > 0 || j.stormy || w.forSet() { // another name of a set may be taken
		return
	}
	idle := j.clock.Now().Sub(max(r.free, w.since, j.calm))
	j.longest = max(j.longest, idle)
	if idle > j.bound {
		j.wrongLocked("%q was free for %v while somebody waited, %v were allowed", w.names[0], idle, j.bound)
	}
}

// watch records whether a quorum holds a name: one that a set holds while it waits for the rest is
// not free.
func (j *judge) watch(name string, holds bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.recordLocked(name); holds && r.holders == 0 && slices.ContainsFunc(r.waiting, (*wait).forSet) {
		r.free = j.clock.Now()
	}
}

// got records that a client holds a lock from now on, acquired by a call that began at since.
func (j *judge) got(who string, since clock.Instant, lock *redlock.Lock) *history.Hold {
	return j.held(&history.Hold{
		Who: who, Names: lock.Names(), Value: lock.Value(), Token: lock.Fence(), Since: since,
	})
}

func (j *judge) held(t *history.Hold) *history.Hold {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.From, t.To = j.clock.Now(), history.Held
	j.had, j.byValue[t.Value] = append(j.had, t), t
	for _, name := range t.Names {
		r := j.recordLocked(name)
		if len(r.waiting) > 0 {
			j.lookLocked(r, r.waiting[0])
		}
		j.overtakesLocked(t, r)
		r.holders++
	}
	return t
}

// overtakesLocked counts a tenure against the waiters for the name that called before its holder.
// It counts in calm times only.
func (j *judge) overtakesLocked(t *history.Hold, r *record) {
	if j.stormy || j.clock.Now() < j.calm {
		return
	}
	for _, w := range r.waiting {
		if w.since < t.Since {
			w.overtaken++
			w.by = t.Who
		}
	}
}

// over records that a tenure ended at an instant, which is not in the future. If it had ended
// before, the earlier end counts.
func (j *judge) over(t *history.Hold, at clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.To != history.Held {
		t.To = min(t.To, at)
		return
	}
	t.To = at
	for _, name := range t.Names {
		r := j.recordLocked(name)
		if r.holders--; r.holders == 0 {
			r.free = at
		}
	}
}

// released records how the release of a lock ended.
func (j *judge) released(t *history.Hold, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Returned, t.Confirmed = j.clock.Now(), err == nil
}

// watchKeys has the judge look at what becomes of the keys of a node.
func (s *simulation) watchKeys(i int, server *fakeredis.Node) {
	server.OnChange(func(change fakeredis.Change) {
		s.followsVersions(i, change)
		if s.kind.forgetful != nil {
			s.judge.touches(i, change)
		}
	})
}

// touches records that a command replaced or deleted a key.
func (j *judge) touches(node int, c fakeredis.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.byValue[c.Old]
	if t == nil || t.To != history.Held || len(j.touched) >= maxTouched {
		return
	}
	j.touched = append(j.touched, touch{j.clock.Now(), node, c, t})
}

// sentence judges everything after the last lock has ended, and returns how often a lock was held.
func (j *judge) sentence() (tenures int, wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.had {
		if t.To == history.Held {
			j.wrongLocked("%q: %s still has it", t.Names, t.Who)
		}
		tenures += len(t.Names)
	}
	for name, r := range j.records {
		if len(r.waiting) > 0 {
			j.wrongLocked("%q: %d still wait", name, len(r.waiting))
		}
	}
	j.cases = history.Judge(j.had, j.order)
	for _, v := range history.All(j.cases) {
		j.wrongLocked("%v", v)
	}
	// Only the holder touches the key of a valid lock. The holder's own release does not count: its
	// tenure ends before the release is sent.
	for _, t := range j.touched {
		if t.at < t.tenure.To {
			j.wrongLocked("%q of %s, which held it until %v, became %q on node %d at %v",
				t.change.Key, t.tenure.Who, time.Duration(t.tenure.To), t.change.New, t.node, time.Duration(t.at))
		}
	}
	return tenures, j.wrong
}

// tenures returns how often a lock was held.
func (j *judge) tenures() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.had {
		n += len(t.Names)
	}
	return n
}
