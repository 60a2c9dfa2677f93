package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/redlock"
)

// judge records who held and who waited for which lock, and reports what was wrong: two holders at
// once, tokens out of order, a lock that was free for too long while a client waited for it.
type judge struct {
	clock *clocktest.Clock
	bound time.Duration // how long a lock may be free in calm times while a client waits

	mu      sync.Mutex // guards the fields below and what they refer to
	records map[string]*record
	holds   map[string]*tenure // by the lock's value
	touched []touch
	calm    clock.Instant // since when nothing is broken and earlier damage has healed
	stormy  bool          // calm does not apply
	longest time.Duration // time that a lock was free in calm times while a client waited
	forced  forced
	turns   turns
	order   bool // judge only the order of tokens: the faults make nodes forget locks
	wrong   []string
	judged  []judged // after the sentence

	note func(who, format string, args ...any) // for the timeline; nil for none
}

// record is what the judge knows about a name.
type record struct {
	had     []*tenure
	holders int
	free    clock.Instant // since when it has no holder; valid only without one
	waiting []*wait       // oldest first
	wrong   bool          // holders overlapped, or tokens were out of order
}

// wait is a call of Lock or LockAll.
type wait struct {
	names     []string
	since     clock.Instant
	overtaken int    // tenures in calm times by clients that called later
	by        string // the last of these clients
}

// forSet reports whether the wait is for several names.
func (w *wait) forSet() bool { return len(w.names) > 1 }

// tenure is the time during which a lock was held.
type tenure struct {
	names    []string
	who      string
	value    string
	fence    int64
	since    clock.Instant // start of the call
	from, to clock.Instant
	shared   bool          // readers may have it together
	forced   bool          // a client other than the holder ended it
	kept     clock.Instant // end of its minimum hold; 0 for none

	taken     clock.Instant // if forced: when a node first gave it up
	returned  clock.Instant // when Unlock did; 0 if it was not called
	confirmed bool          // by Unlock
}

// maxWrong bounds the report about a broken library.
const maxWrong = 10

func newJudge(clk *clocktest.Clock, bound time.Duration) *judge {
	return &judge{
		clock: clk, bound: bound, records: make(map[string]*record), holds: make(map[string]*tenure),
		forced: forced{at: make(map[string]clock.Instant), past: make(map[string]string), readers: make(map[string][]clock.Instant)},
	}
}

func (j *judge) record(name string) *record {
	r := j.records[name]
	if r == nil {
		r = &record{free: j.clock.Now()}
		j.records[name] = r
	}
	return r
}

func (j *judge) notes(who, format string, args ...any) {
	if j.note != nil {
		j.note(who, format, args...)
	}
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

// waits records a call of Lock or LockAll.
func (j *judge) waits(names ...string) *wait {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &wait{names: names, since: j.clock.Now()}
	for _, name := range names {
		r := j.record(name)
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
		r := j.record(name)
		j.lookLocked(r, w)
		i := slices.Index(r.waiting, w)
		r.waiting = slices.Delete(r.waiting, i, i+1)
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

// got records that a client holds a lock from now on, acquired by a call that began at since.
func (j *judge) got(who string, since clock.Instant, lock *redlock.Lock) *tenure {
	t := j.held(who, lock.Value(), since, lock.Names(), lock.Fence())
	t.shared = lock.Shared()
	j.keeps(t, redlock.TakenUntil(lock))
	return t
}

func (j *judge) held(who, value string, since clock.Instant, names []string, fence int64) *tenure {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := &tenure{names: names, who: who, value: value, fence: fence, since: since, from: j.clock.Now(), to: -1}
	j.holds[value] = t
	j.notes(who, "has %s, token %d", strings.Join(names, ", "), fence)
	for _, name := range names {
		r := j.record(name)
		if len(r.waiting) > 0 {
			j.lookLocked(r, r.waiting[0])
		}
		j.overtakesLocked(t, r)
		r.had = append(r.had, t)
		r.holders++
	}
	return t
}

// over records that a tenure ended at an instant, which is not in the future. If it had ended
// before, the earlier end counts.
func (j *judge) over(t *tenure, at clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.to >= 0 {
		t.to = min(t.to, at)
		return
	}
	t.to = at
	j.notes(t.who, "had %s until %v", strings.Join(t.names, ", "), time.Duration(at))
	for _, name := range t.names {
		r := j.record(name)
		if r.holders--; r.holders == 0 {
			r.free = at
		}
	}
}

// released records how the release of a lock ended.
func (j *judge) released(t *tenure, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.returned, t.confirmed = j.clock.Now(), err == nil
	j.notes(t.who, "released %s: %v", strings.Join(t.names, ", "), err)
}

// sentence judges everything after the last lock has ended, and returns how often a lock was held.
func (j *judge) sentence() (tenures int, wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, r := range j.records {
		tenures += len(r.had)
		if len(r.waiting) > 0 {
			j.wrongLocked("%q: %d still wait", name, len(r.waiting))
		}
		j.judgeLocked(name, r)
		j.judged = append(j.judged, judged{name, j.modelOf(r), historyOf(name, r.had), r.wrong})
	}
	j.judgeTouchedLocked()
	return tenures, j.wrong
}

// judgeLocked checks that tenures do not overlap and that tokens grow.
func (j *judge) judgeLocked(name string, r *record) {
	j.voidLocked(name, r)
	slices.SortStableFunc(r.had, func(a, b *tenure) int { return int(a.from - b.from) })
	j.judgeMinHoldsLocked(name, r)
	var latest [2]*tenure // of all tenures so far, and of writers, the one with the latest end
	for i, t := range r.had {
		last := latest[0]
		if t.shared {
			last = latest[1]
		}
		switch {
		case t.to < 0:
			j.wrongLocked("%q: %s still has it", name, t.who)
		case last != nil && t.from < last.to && !j.order && !t.void():
			r.wrong = true
			j.wrongLocked("%q: %s got it at %v, %s had it until %v", name, t.who, time.Duration(t.from), last.who, time.Duration(last.to))
		}
		for kind := range latest {
			if last := latest[kind]; (kind == 0 || !t.shared) && (last == nil || t.to > last.to) {
				latest[kind] = t
			}
		}
		for _, earlier := range r.had[:i] {
			if t.fence > 0 && t.fence < earlier.least(t) && j.ordered(earlier, t) {
				r.wrong = true
				j.wrongLocked("%q: %s got the token %d at %v, after %s had got %d", name, t.who, t.fence, time.Duration(t.from), earlier.who, earlier.fence)
			}
		}
	}
}

// ordered reports whether the second tenure must have the larger token. It must if its call began
// after the first tenure did and, as long as the lock is exclusive, if the second tenure began
// after the first one ended. Equal tokens are always wrong among writers: each belongs to one lock.
// (A reader that is forced out may have that of a writer whose call was under way.)
func (j *judge) ordered(first, second *tenure) bool {
	equal := first.fence == second.fence && !first.shared && !second.shared
	return first.from < second.since || equal || !j.order && !first.forced && !second.void() && first.to <= second.from
}

// least returns the smallest token that a later tenure may have. Readers may tie, with each other
// and with the writer before them, and have no order among themselves.
func (t *tenure) least(later *tenure) int64 {
	switch {
	case !later.shared:
		return t.fence + 1
	case !t.shared:
		return t.fence
	default:
		return 0
	}
}

// tenures returns how often a lock was held.
func (j *judge) tenures() (n uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.records {
		n += uint64(len(r.had))
	}
	return n
}
