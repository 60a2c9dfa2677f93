// Package clock is the only place of this module that reads time.
//
// A lock is held until a moment, so its clock must not be moved by an operator and must not stand still while the
// machine sleeps. [System] reads such a clock. Everything that waits or measures takes a [Clock], so that tests
// drive it in virtual time (package clocktest).
package clock

import "time"

// Instant is a moment on a [Clock], in nanoseconds since an origin of that clock's own. Instants of different
// clocks, processes or machines have nothing to do with each other.
type Instant int64

// Add returns the instant d later (earlier, when d is negative).
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than earlier.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// Before reports whether i comes before other.
func (i Instant) Before(other Instant) bool { return i < other }

// Clock tells how much time has passed, and calls back when a moment has come.
// Its methods may be called from any goroutine.
type Clock interface {
	// Now returns the present instant. It never goes back.
	Now() Instant

	// Wall returns the date and time of day, for people to read. It may jump; nothing is decided by it.
	Wall() time.Time

	// AfterFunc calls f in a goroutine of its own once d has passed on this clock, and at once
	// where d is not positive. Never earlier; after the machine has slept, at most [MaxNap] after
	// it woke (but see [WithAlarms]).
	AfterFunc(d time.Duration, f func()) *Timer
}

// Source is a clock without timers: what [WithTimers] makes a Clock of.
type Source interface {
	Now() Instant
	Wall() time.Time
}

// WithTimers adds timers to a source. The timers sleep on the runtime's clock and read the source whenever they
// wake, at the latest every [MaxNap].
func WithTimers(source Source) Clock { return &timed{Source: source} } // a pointer, so that any two clocks can be compared

type timed struct {
	Source
	alarms bool
}

func (c *timed) AfterFunc(d time.Duration, f func()) *Timer {
	return newTimer(c.Source, c.alarms, d, f)
}
