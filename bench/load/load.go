// Package load measures operations that goroutines of this process do again and again: [Load]. It
// knows nothing of what they are, but for [Costs].
package load

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load is so many operations that goroutines do one after the other, numbered from 0.
type Load struct {
	Goroutines int
	Operations int
	Timed      *testing.B // its timer runs while they do; nil: none

	// Do does count operations, from the first on: Each, or what is left.
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

// Measure does the operations. It returns the first error, which ends the load.
func (l *Load) Measure(ctx context.Context) (Sample, error) {
	w := &working{Load: *l}
	w.Each = max(w.Each, 1)
	if w.Goroutines == 1 && w.Each == 1 {
		w.latency = make([]time.Duration, 0, w.Operations)
	}
	runtime.GC() // nobody pays for the garbage of what ran before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if l.Timed != nil {
		l.Timed.StopTimer() // it also runs for what came before
		l.Timed.ResetTimer()
		l.Timed.StartTimer()
	}
	cpu, start := CPUTime(), time.Now()
	err := w.all(ctx)
	if l.Timed != nil {
		l.Timed.StopTimer()
	}
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
	end := int(w.begun.Add(int64(w.Each)))
	first = end - w.Each
	return first, max(min(end, w.Operations)-first, 0)
}

// Report reports what the locks of a benchmark took, without what testing itself does.
func (s *Sample) Report(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(s.Elapsed)/float64(s.Done), "ns/op")
	b.ReportMetric(float64(s.Done)/s.Elapsed.Seconds(), "locks/s")
	b.ReportMetric(float64(s.Bytes)/float64(s.Done), "B/lock")
	b.ReportMetric(float64(s.Allocs)/float64(s.Done), "allocs/lock")
	if CPUKnown {
		b.ReportMetric(Micros(s.CPU)/float64(s.Done), "cpu-µs/lock")
	}
	if s.Latency != nil {
		b.ReportMetric(Micros(Percentile(s.Latency, 500)), "p50-µs")
		b.ReportMetric(Micros(Percentile(s.Latency, 990)), "p99-µs")
	}
}
