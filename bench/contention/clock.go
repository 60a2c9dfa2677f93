package contention

import "time"

// Instant is a moment on CLOCK_MONOTONIC, in nanoseconds. All processes of one machine share its
// origin.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than earlier.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// sleepUntil returns at once if the instant has passed.
func sleepUntil(i Instant) { time.Sleep(i.Sub(now())) }
