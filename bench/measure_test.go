package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// names are locked one after the other. There are so many that none is asked for again while it is
// held, and they are made once, so no benchmark measures that.
var names = makeNames(1 << 16)

func makeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("bench/%05d", i)
	}
	return names
}

// perform does the operation n times, by so many goroutines. If took has room for n durations, it
// records each duration, in no order. It stops at the first error, and returns it.
func perform(ctx context.Context, s *scenario, locker *redlock.Locker, goroutines, n int, took []time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64 // the number of the next operation
	var workers sync.WaitGroup
	for range goroutines {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				start := time.Now()
				if err := s.operation(ctx, locker, names[i%len(names)]); err != nil {
					cancel(err)
					return
				}
				if took != nil {
					took[i] = time.Since(start)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// measure is the body of a sub-benchmark.
func measure(b *testing.B, s *scenario, c *cluster, locker *redlock.Locker, goroutines int) {
	var took []time.Duration
	if goroutines == 1 {
		took = make([]time.Duration, b.N)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	if err := perform(b.Context(), s, locker, goroutines, b.N, took); err != nil {
		b.Fatal(err)
	}
	cpu = cpuTime() - cpu
	b.StopTimer()

	operations := float64(b.N)
	b.ReportMetric(operations/b.Elapsed().Seconds(), "locks/s")
	if cpuKnown && c.backend == "redis" {
		b.ReportMetric(micros(cpu)/operations, "cpu-µs/lock")
	}
	if took != nil {
		slices.Sort(took)
		b.ReportMetric(micros(percentile(took, 50)), "p50-µs")
		b.ReportMetric(micros(percentile(took, 99)), "p99-µs")
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// percentile returns the shortest of the sorted durations that at least p percent of them do not
// exceed. 0 < p <= 100.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}
