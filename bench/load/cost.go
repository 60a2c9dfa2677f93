package load

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Variant is a Locker with options that may cost something.
type Variant struct {
	Name    string // without spaces
	Options []redlock.Option
}

// The size of [Costs].
const (
	costNodes      = 5
	costGoroutines = 64
	costTurns      = 9
	costLocks      = 10_000 // of each variant in a turn
	costPatience   = 10 * time.Second
)

// Costs is the body of a benchmark of what options cost: locks and their unlocks by 64 goroutines
// on five local servers, with each variant in turns, and without any. Its metrics are medians of
// the turns:
//
//	none-cpu-µs -allocs -B   of a lock and its unlock without any: CPU time of this process, objects
//	                         and bytes that it allocates
//	NAME-cpu-µs -allocs -B   what the variant of that name adds
//
// The log says how many calls of hooks were dropped, which cost less than they should.
func Costs(b *testing.B, variants ...Variant) {
	b.Helper()
	urls := cluster.Start(b, costNodes).URLs()
	var lockers []*redlock.Locker
	for _, v := range append([]Variant{{}}, variants...) {
		locker := cluster.NewLocker(b, urls, append(v.Options, redlock.WithNodeTimeout(costPatience))...)
		cluster.RequireUp(b, locker, func(node redlock.NodeStats) bool { return node.Barred == nil })
		lockers = append(lockers, locker)
	}
	names := make([]string, costLocks)
	for i := range names {
		names[i] = fmt.Sprintf("cost/%05d", i)
	}
	measure := func(locker *redlock.Locker, locks int) Sample {
		load := Load{Goroutines: costGoroutines, Operations: locks, Do: func(ctx context.Context, i, _ int) error {
			lock, err := locker.TryLock(ctx, names[i])
			if err != nil {
				return err
			}
			return lock.Unlock(ctx)
		}}
		s, err := load.Measure(b.Context())
		require.NoError(b, err)
		return s
	}
	for _, locker := range lockers {
		measure(locker, costLocks/10) // connections and scripts
	}
	cpu, allocs, bytes := make([][]float64, len(lockers)), make([][]float64, len(lockers)), make([][]float64, len(lockers))
	for b.Loop() {
		for range costTurns {
			none := measure(lockers[0], costLocks)
			cpu[0], allocs[0], bytes[0] = append(cpu[0], none.CPUEach()), append(allocs[0], none.AllocsEach()), append(bytes[0], none.BytesEach())
			for i, locker := range lockers[1:] {
				s := measure(locker, costLocks)
				cpu[i+1] = append(cpu[i+1], s.CPUEach()-none.CPUEach())
				allocs[i+1] = append(allocs[i+1], s.AllocsEach()-none.AllocsEach())
				bytes[i+1] = append(bytes[i+1], s.BytesEach()-none.BytesEach())
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for i := range lockers {
		name := "none"
		if i > 0 {
			name = variants[i-1].Name
		}
		b.ReportMetric(middle(cpu[i]), name+"-cpu-µs")
		b.ReportMetric(middle(allocs[i]), name+"-allocs")
		b.ReportMetric(middle(bytes[i]), name+"-B")
		if stats := lockers[i].Stats(); stats.HooksDropped > 0 {
			b.Logf("%s: %d calls of hooks were dropped for %d locks", name, stats.HooksDropped, stats.Acquired)
		}
	}
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
