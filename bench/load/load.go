// Package load measures operations that goroutines of this process do again and again: [Load]. It
// knows nothing of what they are, but for [Costs].
package load

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is operations that goroutines do one after the other, numbered from 0, until so many have
// begun or so much time has passed. At least one begins, however slow the machine is.
type Load struct {
	Goroutines int
	Limit      int           // of operations; 0: none
	Duration   time.Duration // 0: no limit

	// Do does count operations, from the first on: Each, or what the limit leaves.
	Do   func(ctx context.Context, first, count int) error
	Each int // 0 is 1
}

// Sample is what a Load took.
type Sample struct {
	Done         int // operations
	Elapsed, CPU time.Duration
	Allocs       uint64 // objects
	Bytes        uint64 // in them

	// Latency is that of each operation, sorted; nil with several goroutines, or if a call does
	// several.
	Latency []time.Duration
}

// latencyRoom is how many latencies a sample without a limit holds before it allocates more, which
// would count for what is measured.
const latencyRoom = 1 << 16

// Measure does the operations. It returns the first error, which ends the load.
func (l *Load) Measure(ctx context.Context) (Sample, error) {
	w := &working{Load: *l}
	w.Each = max(w.Each, 1)
	if w.Limit == 0 {
		w.Limit = math.MaxInt
	}
	if w.Goroutines == 1 && w.Each == 1 {
		room := latencyRoom
		if l.Limit > 0 {
			room = l.Limit
		}
		w.latency = make([]time.Duration, 0, room)
	}
	runtime.GC() // nobody pays for the garbage of what ran before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if w.Duration > 0 {
		timer := time.AfterFunc(w.Duration, func() { w.ended.Store(true) })
		defer timer.Stop()
	}
	cpu, start := CPUTime(), time.Now()
	err := w.all(ctx)
	s := Sample{Done: int(w.done.Load()), Elapsed: time.Since(start), CPU: CPUTime() - cpu}
	runtime.ReadMemStats(&after)
	s.Allocs, s.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	slices.Sort(w.latency)
	s.Latency = w.latency
	return s, err
}

// working is a load under way.
type working struct {
	Load
	begun, done atomic.Int64
	ended       atomic.Bool
	latency     []time.Duration // of the only goroutine; nil if it is not measured
}

func (w *working) all(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range w.Goroutines {
		all.Go(func() {
			done, err := w.one(ctx)
			w.done.Add(done)
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// one is one goroutine. What it does besides the operations would count for them.
func (w *working) one(ctx context.Context) (done int64, err error) {
	for ctx.Err() == nil {
		first, count := w.take()
		if count == 0 {
			break
		}
		var start time.Time
		if w.latency != nil {
			start = time.Now()
		}
		if err := w.Do(ctx, first, count); err != nil {
			return done, err
		}
		if w.latency != nil {
			w.latency = append(w.latency, time.Since(start))
		}
		done += int64(count)
	}
	return done, nil
}

// take returns the first of the next operations, and their number: 0 at the end.
func (w *working) take() (first, count int) {
	if w.ended.Load() && w.begun.Load() > 0 {
		return 0, 0
	}
	end := int(w.begun.Add(int64(w.Each)))
	first = end - w.Each
	return first, max(min(end, w.Limit)-first, 0)
}

// PerSecond returns the operations per second.
func (s *Sample) PerSecond() float64 { return float64(s.Done) / s.Elapsed.Seconds() }

// CPUEach returns the CPU time of an operation, in microseconds.
func (s *Sample) CPUEach() float64 { return Micros(s.CPU) / float64(s.Done) }

// AllocsEach returns the objects that an operation allocates.
func (s *Sample) AllocsEach() float64 { return float64(s.Allocs) / float64(s.Done) }

// BytesEach returns the bytes that an operation allocates.
func (s *Sample) BytesEach() float64 { return float64(s.Bytes) / float64(s.Done) }

// Percentile returns a percentile of the latencies, in microseconds.
func (s *Sample) Percentile(permille int) float64 { return Micros(Percentile(s.Latency, permille)) }
