package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// cluster is the servers of one benchmark.
type cluster struct{ *masters.Cluster }

// newCluster starts n servers, which stop with the test.
func newCluster(tb testing.TB, n int) *cluster {
	tb.Helper()
	return &cluster{masters.Start(tb, n)}
}

// locker returns a Locker that is connected to every node, and every node votes, so no benchmark
// measures a dial. It is closed with the test.
func (c *cluster) locker(tb testing.TB, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	locker := masters.NewLocker(tb, c.URLs(), append([]redlock.Option{redlock.WithNodeTimeout(patience)}, opts...)...)
	masters.RequireUp(tb, locker, func(node redlock.NodeStats) bool { return node.Barred == nil })
	return locker
}

// keysLeft returns how many keys the servers have, all together.
func (c *cluster) keysLeft(tb testing.TB) (n int) {
	tb.Helper()
	for _, m := range c.Masters {
		size, err := m.Do("DBSIZE")
		require.NoError(tb, err)
		n += int(size.(int64)) - 2 // the memory marker and the register
	}
	return n
}

// operation is what a benchmark measures. Its name is one that nobody else wants.
type operation func(ctx context.Context, locker *redlock.Locker, name string) error

// patience is the node timeout, because every node answers. With the default of
// half a second, a machine that is busy with something else for that long would fail the benchmark.
// It changes nothing that is measured.
const patience = 10 * time.Second

// measure is a benchmark of an operation by so many goroutines.
func measure(b *testing.B, do operation, locker *redlock.Locker, goroutines int) {
	b.Helper()
	b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { measureOne(b, do, locker, goroutines) })
}

func measureOne(b *testing.B, do operation, locker *redlock.Locker, goroutines int) {
	b.Helper()
	var took []time.Duration
	if goroutines == 1 {
		took = make([]time.Duration, b.N)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := contention.CPUTime()
	require.NoError(b, perform(b.Context(), do, locker, goroutines, b.N, took))
	cpu = contention.CPUTime() - cpu
	b.StopTimer()

	operations := float64(b.N)
	b.ReportMetric(operations/b.Elapsed().Seconds(), "locks/s")
	if contention.Supported {
		b.ReportMetric(contention.Micros(cpu)/operations, "cpu-µs/lock")
	}
	if took != nil {
		slices.Sort(took)
		b.ReportMetric(contention.Micros(contention.Percentile(took, 500)), "p50-µs")
		b.ReportMetric(contention.Micros(contention.Percentile(took, 990)), "p99-µs")
	}
}

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
func perform(ctx context.Context, do operation, locker *redlock.Locker, goroutines, n int, took []time.Duration) error {
	return contention.Perform(ctx, goroutines, n, func(ctx context.Context, i int) error {
		start := time.Now()
		if err := do(ctx, locker, names[i%len(names)]); err != nil {
			return err
		}
		if took != nil {
			took[i] = time.Since(start)
		}
		return nil
	})
}

// turns is how often operations that are compared take their turn. Ratios of two that run in
// succession are more stable than figures that are minutes apart.
const turns = 7

// compare runs operations in turns, and reports by its unit the time that each but the first took,
// divided by the time of the first: the median of the turns. It returns the Locker's Stats when
// all were warm, and at the end.
func compare(b *testing.B, c *cluster, goroutines int, operations []operation, units ...string) (before, after redlock.Stats) {
	b.Helper()
	locker := c.locker(b)
	n := min(2000*goroutines, 20_000) // about a fifth of a second
	turn := func() (took []float64) {
		for _, do := range operations {
			began := time.Now()
			require.NoError(b, perform(b.Context(), do, locker, goroutines, n, nil))
			took = append(took, float64(time.Since(began)))
		}
		return took
	}
	turn() // connections and scripts
	before = locker.Stats()
	ratios := make([][]float64, len(units))
	for b.Loop() {
		for range turns {
			took := turn()
			for i := range units {
				ratios[i] = append(ratios[i], took[i+1]/took[0])
			}
		}
	}
	after = locker.Stats()
	b.ReportMetric(0, "ns/op")
	for i, unit := range units {
		slices.Sort(ratios[i])
		b.ReportMetric(ratios[i][len(ratios[i])/2], unit)
	}
	return before, after
}
