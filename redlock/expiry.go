package redlock

import (
	"container/heap"
	"math"
	"slices"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// expiry tells locks when their validity ends: all locks that are held, in a heap, and one timer for the earliest.
// It goes by the local clock alone. It is the register of held locks, too.
type expiry struct {
	clock clock.Clock

	mu      sync.Mutex // guards the fields below; no lock's mutex is taken while it is held
	queue   expiryQueue
	timer   *clock.Timer  // runs fire
	timerAt clock.Instant // when; never when it does not run
	stopped bool
}

const never = clock.Instant(math.MaxInt64)

func (e *expiry) init(clk clock.Clock) {
	e.clock, e.timerAt = clk, never
}

// add makes the lock end at an instant, in place of what was set before.
func (e *expiry) add(lock *Lock, at clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lock.expiryAt = at
	if lock.expiryIndex >= 0 {
		heap.Fix(&e.queue, lock.expiryIndex)
	} else {
		heap.Push(&e.queue, lock)
	}
	// The timer is set when it must run earlier, and not when it may run later: it then finds nothing to do and is set
	// anew. So a lock that is released in time costs no timer.
	if at < e.timerAt && !e.stopped {
		e.setLocked(at)
	}
}

func (e *expiry) setLocked(at clock.Instant) {
	e.timerAt = at
	d := max(at.Sub(e.clock.Now()), 0)
	if e.timer == nil {
		e.timer = e.clock.AfterFunc(d, e.fire)
	} else {
		e.timer.Reset(d)
	}
}

// remove forgets a lock that has ended.
func (e *expiry) remove(lock *Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if lock.expiryIndex >= 0 {
		heap.Remove(&e.queue, lock.expiryIndex)
	}
}

// fire ends the locks whose time has come. A lock that is extended meanwhile looks at its own validity, and stays.
func (e *expiry) fire() {
	e.mu.Lock()
	now := e.clock.Now()
	var due []*Lock
	for len(e.queue) > 0 && e.queue[0].expiryAt <= now {
		due = append(due, heap.Pop(&e.queue).(*Lock))
	}
	e.timerAt = never
	if len(e.queue) > 0 && !e.stopped {
		e.setLocked(e.queue[0].expiryAt)
	}
	e.mu.Unlock()
	for _, lock := range due {
		lock.expire(now)
	}
}

// all returns the locks that are held.
func (e *expiry) all() []*Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.queue)
}

func (e *expiry) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}

// stop ends the timer.
func (e *expiry) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// expiryQueue implements heap.Interface, the earliest first.
type expiryQueue []*Lock

func (q expiryQueue) Len() int           { return len(q) }
func (q expiryQueue) Less(i, j int) bool { return q[i].expiryAt < q[j].expiryAt }

func (q expiryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].expiryIndex, q[j].expiryIndex = i, j
}

func (q *expiryQueue) Push(x any) {
	lock := x.(*Lock)
	lock.expiryIndex = len(*q)
	*q = append(*q, lock)
}

func (q *expiryQueue) Pop() any {
	last := len(*q) - 1
	lock := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	lock.expiryIndex = -1
	return lock
}
