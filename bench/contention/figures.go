package contention

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
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
func (r *Result) MeanWait() time.Duration { return mean(r.Waits) }

// MeanReadWait returns 0 if no reader waited.
func (r *Result) MeanReadWait() time.Duration { return mean(r.ReadWaits) }

func mean(waits []time.Duration) (sum time.Duration) {
	for _, wait := range waits {
		sum += wait
	}
	return sum / time.Duration(max(len(waits), 1))
}

// Wait returns a percentile of the waits, 0 < percent <= 100; 100 is the longest. It is 0 if nobody
// waited.
func (r *Result) Wait(percent int) time.Duration { return Percentile(r.Waits, 10*percent) }

// Gap returns a percentile of the gaps, 0 < percent <= 100. It is 0 if there is none.
func (r *Result) Gap(percent int) time.Duration { return Percentile(r.Gaps, 10*percent) }

func (r *Result) perSecond(n int) float64 { return float64(n) / r.Window.Seconds() }

func ratio(commands uint64, by int) float64 {
	if by == 0 {
		return math.NaN()
	}
	return float64(commands) / float64(by)
}

// Percentile returns the shortest of the sorted durations that at least so many per mille of them
// do not exceed, 0 < permille <= 1000, or 0 if there are none.
func Percentile(sorted []time.Duration, permille int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*permille+999)/1000-1]
}

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// LiveHeap returns the bytes of the heap in use.
func LiveHeap() float64 {
	var stats runtime.MemStats
	for range 2 { // the second collection frees what the first one found in a pool
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// GoroutineSample is short enough to catch what runs for a renewal, and too long to count in the
// CPU time.
const GoroutineSample = 20 * time.Millisecond

// Perform does something n times, numbered from 0, by so many goroutines. It stops at the first
// error, and returns it.
func Perform(ctx context.Context, goroutines, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range goroutines {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
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
