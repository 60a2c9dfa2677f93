package contention

import (
	"math"
	"time"

	"github.com/redquorum/redquorum/bench/load"
)

// AcquisitionsPerSecond returns how often the name was acquired.
func (r *Result) AcquisitionsPerSecond() float64 { return r.perSecond(r.Acquisitions) }

// GoroutineChangesPerSecond returns how often the name went from one goroutine to another, in any
// process.
func (r *Result) GoroutineChangesPerSecond() float64 { return r.perSecond(r.GoroutineChanges) }

// CommandsPerAcquisition returns NaN if there was none.
func (r *Result) CommandsPerAcquisition() float64 { return ratio(r.Commands, r.Acquisitions) }

// CommandsPerGoroutineChange returns NaN if there was none.
func (r *Result) CommandsPerGoroutineChange() float64 { return ratio(r.Commands, r.GoroutineChanges) }

// MeanWait returns 0 if nobody waited.
func (r *Result) MeanWait() (sum time.Duration) {
	for _, wait := range r.Waits {
		sum += wait
	}
	return sum / time.Duration(max(len(r.Waits), 1))
}

// Wait returns a percentile of the waits, 0 < percent <= 100; 100 is the longest. It is 0 if nobody
// waited.
func (r *Result) Wait(percent int) time.Duration { return load.Percentile(r.Waits, 10*percent) }

func (r *Result) perSecond(n int) float64 { return float64(n) / r.Window.Seconds() }

func ratio(commands uint64, by int) float64 {
	if by == 0 {
		return math.NaN()
	}
	return float64(commands) / float64(by)
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
