// Package clocktest provides a clock for tests that run in virtual time (testing/synctest).
package clocktest

import (
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Clock is a clock.Clock that follows package time, which is virtual inside a synctest bubble. It
// can jump ahead of package time, as a suspend-aware clock does. Create it inside the bubble, with
// [New].
type Clock struct {
	clock.Clock
	source *source
}

// New returns a clock that starts at the present instant of package time.
func New() *Clock {
	s := &source{origin: time.Now()}
	return &Clock{Clock: clock.WithTimers(s), source: s}
}

// Suspend simulates a sleep of d: the clock moves ahead by d, and no timer notices until it next
// reads the clock, at most [clock.MaxNap] later.
func (c *Clock) Suspend(d time.Duration) { c.source.slept.Add(int64(d)) }

type source struct {
	origin time.Time
	slept  atomic.Int64 // nanoseconds, added by Suspend
}

func (s *source) Now() clock.Instant {
	return clock.Instant(time.Since(s.origin)).Add(time.Duration(s.slept.Load()))
}

func (s *source) Wall() time.Time { return time.Now().Add(time.Duration(s.slept.Load())) }
