package redlock

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// agenda calls back when a lock is due: all locks of a Locker in a heap, and one timer for the earliest. A Locker has
// two, for the end of validity and for renewal. It goes by the local clock alone.
type agenda struct {
	slot  int // which of a lock's entries is this agenda's
	clock clock.Clock
	due   func(locks []*Lock, now clock.Instant) // called without mu, for locks that are no longer on the agenda
	burst int                                    // how many locks are called back for at once, and again pace later; 0 for all

	mu      sync.Mutex // guards the fields below, and the slot of every lock; no lock's mutex is taken while it is held
	queue   agendaQueue
	timer   *clock.Timer  // runs fire
	timerAt clock.Instant // when; never when it does not run
	stopped bool
	calling sync.WaitGroup // calls of due; none begins once stopped is set
}

// pace is the pause between two bursts.
const pace = 15 * time.Millisecond

// The agendas.
const (
	slotExpiry  = 0
	slotRenewal = 1
	slots       = 2
)

// entry is a lock's place on an agenda.
type entry struct {
	place int32 // 1 + index in the queue; 0 for none
	at    clock.Instant
}

const never = clock.Instant(math.MaxInt64)

func (a *agenda) init(slot int, clk clock.Clock, due func([]*Lock, clock.Instant)) {
	a.slot, a.clock, a.due, a.timerAt, a.queue.slot = slot, clk, due, never, slot
}

// add makes the lock due at an instant, in place of what was set before.
func (a *agenda) add(lock *Lock, at clock.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &lock.entries[a.slot]
	e.at = at
	if e.place > 0 {
		heap.Fix(&a.queue, int(e.place)-1)
	} else {
		heap.Push(&a.queue, lock)
	}
	// The timer is set when it must run earlier, and not when it may run later: it then finds nothing to do and is set
	// anew. So a lock that is released in time costs no timer.
	if at < a.timerAt && !a.stopped {
		a.setLocked(at)
	}
}

func (a *agenda) setLocked(at clock.Instant) {
	a.timerAt = at
	d := max(at.Sub(a.clock.Now()), 0)
	if a.timer == nil {
		a.timer = a.clock.AfterFunc(d, a.fire)
	} else {
		a.timer.Reset(d)
	}
}

// remove forgets a lock.
func (a *agenda) remove(lock *Lock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place := lock.entries[a.slot].place; place > 0 {
		heap.Remove(&a.queue, int(place)-1)
	}
}

// fire takes the locks whose time has come from the agenda, and sets the timer for the next.
func (a *agenda) fire() {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	now := a.clock.Now()
	var due []*Lock
	for len(a.queue.locks) > 0 && a.queue.at(0) <= now && (a.burst == 0 || len(due) < a.burst) {
		due = append(due, heap.Pop(&a.queue).(*Lock))
	}
	a.timerAt = never
	if len(a.queue.locks) > 0 {
		next := a.queue.at(0)
		if next <= now { // more than a burst
			next = now.Add(pace)
		}
		a.setLocked(next)
	}
	if len(due) > 0 {
		a.calling.Add(1)
	}
	a.mu.Unlock()
	if len(due) > 0 {
		defer a.calling.Done()
		a.due(due, now)
	}
}

// all returns the locks on the agenda.
func (a *agenda) all() []*Lock {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.queue.locks)
}

func (a *agenda) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue.locks)
}

// stop ends the timer, and waits until nobody is called back any more. Who is due later stays on
// the agenda.
func (a *agenda) stop() {
	a.mu.Lock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	a.calling.Wait()
}

// agendaQueue implements heap.Interface, the earliest first.
type agendaQueue struct {
	slot  int
	locks []*Lock
}

func (q *agendaQueue) at(i int) clock.Instant { return q.locks[i].entries[q.slot].at }

func (q *agendaQueue) Len() int           { return len(q.locks) }
func (q *agendaQueue) Less(i, j int) bool { return q.at(i) < q.at(j) }

func (q *agendaQueue) Swap(i, j int) {
	q.locks[i], q.locks[j] = q.locks[j], q.locks[i]
	q.locks[i].entries[q.slot].place, q.locks[j].entries[q.slot].place = int32(i)+1, int32(j)+1
}

func (q *agendaQueue) Push(x any) {
	lock := x.(*Lock)
	q.locks = append(q.locks, lock)
	lock.entries[q.slot].place = int32(len(q.locks))
}

func (q *agendaQueue) Pop() any {
	last := len(q.locks) - 1
	lock := q.locks[last]
	q.locks[last] = nil
	q.locks = q.locks[:last]
	lock.entries[q.slot].place = 0
	return lock
}
