package clock

import (
	"sync"
	"time"
)

// MaxNap is the longest that a timer sleeps before it reads its clock again. The runtime's timers stand still
// while the machine sleeps, so a timer that was set for an hour notices a night's sleep this long after waking.
const MaxNap = time.Second

// shortestNap keeps timers that are due at once apart from the goroutine that sets them. In a
// bubble of testing/synctest, the runtime of Go 1.26 runs those in that goroutine, and crashes
// under the race detector where two do so at the same time.
const shortestNap = time.Nanosecond

// Timer is a pending call of [Clock.AfterFunc].
type Timer struct {
	source Source
	f      func()
	alarms bool // take alarms in place of naps

	mu  sync.Mutex // guards the fields below; never held while f runs
	due Instant    // when f is to run
	nap stopper    // until the next tick; nil while stopped or fired
	set uint64     // counts Reset and Stop: a nap that ends for an older set does nothing
}

func newTimer(source Source, alarms bool, d time.Duration, f func()) *Timer {
	t := &Timer{source: source, f: f, alarms: alarms}
	t.Reset(d)
	return t
}

// Reset makes the call happen d from now, whether or not it was pending. A call that has begun goes on.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopLocked()
	t.due = t.source.Now().Add(d)
	t.napLocked(d)
}

// Stop makes the call not happen, and reports whether it was pending. It does not wait for a call that has begun.
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

// tick runs at the end of a nap: the moment has come by the source, or another nap follows.
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
