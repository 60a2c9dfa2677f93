// Package clock is the only place in this module that reads time.
//
// A lock is held until a moment, so its clock must not be set by an operator and must not stop
// while the machine sleeps. [System] reads such a clock. Everything that waits or measures takes a
// [Clock], so tests can run it in virtual time (package clocktest).
package clock

import "time"

// Instant is a moment on a [Clock], in nanoseconds since an origin of that clock. Instants of
// different clocks, processes or machines cannot be compared.
type Instant int64

// Add returns the instant d later, or earlier if d is negative.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than earlier.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// Before reports whether i comes before other.
func (i Instant) Before(other Instant) bool { return i < other }

// Clock measures how much time has passed, and calls back at a given moment. Its methods are safe
// for concurrent use.
type Clock interface {
	// Now returns the present instant. It never goes back.
	Now() Instant

	// Wall returns the date and time of day, for people to read. It may jump, so nothing is decided
	// by it.
	Wall() time.Time

	// AfterFunc calls f in its own goroutine once d has passed on this clock, or at once if d is
	// not positive. It never calls f early. After the machine has slept, it calls f at most
	// [MaxNap] after waking (but see [WithAlarms]).
	AfterFunc(d time.Duration, f func()) *Timer
}

// Source is a clock without timers. [WithTimers] turns it into a Clock.
type Source interface {
	Now() Instant
	Wall() time.Time
}

// WithTimers adds timers to a source. They sleep on the runtime's clock and read the source when
// they wake, at least every [MaxNap]. The result is a pointer, so any two clocks can be compared.
func WithTimers(source Source) Clock { return &timed{Source: source} }

type timed struct {
	Source
	alarms bool
}

func (c *timed) AfterFunc(d time.Duration, f func()) *Timer {
	return newTimer(c.Source, c.alarms, d, f)
}
