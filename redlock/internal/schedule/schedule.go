// Package schedule calls back when items are due: many deadlines, one timer.
package schedule

import (
	"math"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Schedule calls back for items when they are due. They are in a heap, with one timer for the
// earliest. It goes by the local clock alone.
type Schedule[T any] struct {
	clock clock.Clock
	due   func(items []T, now clock.Instant) // called without mu, with items taken off the schedule
	burst int                                // how many at once, with a pace between; 0 for all

	mu      sync.Mutex // guards the fields below, and the entry of every item
	heap    heap[T]
	timer   *clock.Timer  // runs fire
	timerAt clock.Instant // when it runs fire; Never if it is not running
	stopped bool
	calling sync.WaitGroup // calls of due; none starts once stopped is set
}

// Entry is an item's position on a schedule. It belongs to the schedule.
type Entry struct {
	pos int32 // 1 + index in the heap; 0 for none
}

// Never is later than every instant.
const Never = clock.Instant(math.MaxInt64)

// pace is the pause between two bursts.
const pace = 15 * time.Millisecond

// Init sets up an empty schedule. Entry returns an item's position on it. Due is called, without
// any mutex held, with the items whose time has come: at most burst of them at once, or all if
// burst is 0.
func (s *Schedule[T]) Init(clk clock.Clock, entry func(T) *Entry, burst int, due func(items []T, now clock.Instant)) {
	s.clock, s.due, s.burst, s.timerAt, s.heap.entry = clk, due, burst, Never, entry
}

// Add makes an item due at an instant, which replaces an earlier one.
func (s *Schedule[T]) Add(item T, at clock.Instant) {
	s.AddAmong(item, func(int) clock.Instant { return at })
}

// AddAmong is Add at an instant that depends on how many items are on the schedule.
func (s *Schedule[T]) AddAmong(item T, due func(items int) clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := due(len(s.heap.nodes))
	s.heap.put(item, at)
	// The timer is moved when it must run earlier, not when it may run later: then it finds nothing
	// to do and is set again. So a lock that is released in time costs no timer.
	if at < s.timerAt && !s.stopped {
		s.setLocked(at)
	}
}

func (s *Schedule[T]) setLocked(at clock.Instant) {
	s.timerAt = at
	d := max(at.Sub(s.clock.Now()), 0)
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(d, s.fire)
	} else {
		s.timer.Reset(d)
	}
}

// Remove takes an item off the schedule.
func (s *Schedule[T]) Remove(item T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos := s.heap.entry(item).pos; pos > 0 {
		s.heap.remove(int(pos) - 1)
	}
}

// fire takes the due items off the schedule, and sets the timer for the next one.
func (s *Schedule[T]) fire() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	now := s.clock.Now()
	var due []T
	for len(s.heap.nodes) > 0 && s.heap.nodes[0].at <= now && (s.burst == 0 || len(due) < s.burst) {
		due = append(due, s.heap.remove(0))
	}
	s.timerAt = Never
	if len(s.heap.nodes) > 0 {
		next := s.heap.nodes[0].at
		if next <= now { // there are more than a burst
			next = now.Add(pace)
		}
		s.setLocked(next)
	}
	if len(due) > 0 {
		s.calling.Add(1)
	}
	s.mu.Unlock()
	if len(due) > 0 {
		defer s.calling.Done()
		s.due(due, now)
	}
}

// All returns the items on the schedule.
func (s *Schedule[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]T, len(s.heap.nodes))
	for i := range items {
		items[i] = s.heap.nodes[i].item
	}
	return items
}

// Len returns how many items are on the schedule.
func (s *Schedule[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heap.nodes)
}

// Stop stops the timer, and waits until no call of due is under way. Items that are due later stay
// on the schedule.
func (s *Schedule[T]) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.calling.Wait()
}
