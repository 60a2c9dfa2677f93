package clock

import (
	"math"
	"sync"
	"time"
)

// MaxNap is the longest that a timer sleeps before it reads its clock again. The runtime's timers
// stop while the machine sleeps, so a timer set for an hour notices a night's sleep this long after
// waking.
const MaxNap = time.Second

// shortestNap keeps timers that are due at once out of the goroutine that sets them. In a
// testing/synctest bubble, the runtime of Go 1.26 runs such timers in that goroutine, and crashes
// under the race detector if two do so at the same time.
const shortestNap = time.Nanosecond

// Timer is a pending call of [Clock.AfterFunc].
type Timer struct {
	source Source
	f      func()
	alarms bool // use alarms instead of naps

	mu  sync.Mutex // guards the fields below; never held while f runs
	due Instant    // when f runs
	nap stopper    // until the next tick; nil while stopped or fired
	set uint64     // counts Reset and Stop; a nap of an earlier set does nothing when it ends
}

func newTimer(source Source, alarms bool, d time.Duration, f func()) *Timer {
	t := &Timer{source: source, f: f, alarms: alarms}
	t.Reset(d)
	return t
}

// Reset makes the call happen d from now, whether or not it was pending. A call that has already
// begun goes on.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopLocked()
	now := t.source.Now()
	if t.due = now.Add(d); d > 0 && t.due < now {
		t.due = math.MaxInt64 // never
	}
	t.napLocked(d)
}

// Stop cancels the call and reports whether it was pending. It does not wait for a call that has
// already begun.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopLocked()
}

func (t *Timer) stopLocked() bool {
	t.set++
	if t.nap == nil {
		return false
	}
	t.nap.Stop()
	t.nap = nil
	return true
}

func (t *Timer) napLocked(left time.Duration) {
	set := t.set
	tick := func() { t.tick(set) }
	if t.alarms && left >= minAlarm {
		if t.nap = newAlarm(t.due, tick); t.nap != nil {
			return
		}
	}
	t.nap = time.AfterFunc(max(min(left, MaxNap), shortestNap), tick)
}

// tick runs at the end of a nap. If the source has reached the time, it makes the call; otherwise
// it takes another nap.
func (t *Timer) tick(set uint64) {
	t.mu.Lock()
	if set != t.set {
		t.mu.Unlock()
		return
	}
	if left := t.due.Sub(t.source.Now()); left > 0 {
		t.napLocked(left)
		t.mu.Unlock()
		return
	}
	t.nap = nil
	t.mu.Unlock()
	t.f()
}
