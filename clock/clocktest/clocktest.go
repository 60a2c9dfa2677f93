// Package clocktest has a clock for tests that run in virtual time (testing/synctest).
package clocktest

import (
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Clock is a clock.Clock that follows package time, which is virtual inside a synctest bubble, and that can be made
// to jump ahead of it as a suspend-aware clock does. Make it inside the bubble, with [New].
type Clock struct {
	clock.Clock
	source *source
}

// New returns a clock that starts at the present instant of package time.
func New() *Clock {
	s := &source{origin: time.Now()}
	return &Clock{Clock: clock.WithTimers(s), source: s}
}

// Suspend lets the machine sleep for d: the clock is d further, and no timer has noticed. Timers of this clock do
// when they next read it, at most [clock.MaxNap] later.
func (c *Clock) Suspend(d time.Duration) { c.source.slept.Add(int64(d)) }

type source struct {
	origin time.Time
	slept  atomic.Int64 // nanoseconds, by Suspend
}

func (s *source) Now() clock.Instant {
	return clock.Instant(time.Since(s.origin)).Add(time.Duration(s.slept.Load()))
}

func (s *source) Wall() time.Time { return time.Now().Add(time.Duration(s.slept.Load())) }
