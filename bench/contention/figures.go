package contention

import (
	"time"

	"github.com/redquorum/redquorum/bench/load"
)

// Figures returns what a benchmark reports, by unit. What would be divided by nothing is left out.
// A change is an acquisition by another goroutine than the one before.
func (r *Result) Figures() map[string]float64 {
	all := map[string]float64{
		"locks/s":         float64(r.Acquisitions) / r.Window.Seconds(),
		"changes/s":       float64(r.GoroutineChanges) / r.Window.Seconds(),
		"mean-wait-ms":    load.Millis(r.meanWait()),
		"p99-wait-ms":     load.Millis(load.Percentile(r.Waits, 990)),
		"longest-wait-ms": load.Millis(load.Percentile(r.Waits, 1000)),
		"least-share":     r.MinProcessShare,
	}
	if r.GoroutineChanges > 0 {
		all["commands/change"] = float64(r.Commands) / float64(r.GoroutineChanges)
	}
	return all
}

// meanWait returns 0 if nobody waited.
func (r *Result) meanWait() (sum time.Duration) {
	for _, wait := range r.Waits {
		sum += wait
	}
	return sum / time.Duration(max(len(r.Waits), 1))
}

// Instant is a moment on CLOCK_MONOTONIC, in nanoseconds. All processes of one machine share its
// origin.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than earlier.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// sleepUntil returns at once if the instant has passed.
func sleepUntil(i Instant) { time.Sleep(i.Sub(now())) }
