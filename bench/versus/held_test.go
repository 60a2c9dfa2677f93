package versus

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkHeld has one Locker hold many locks, while a goroutine locks and unlocks a name of its
// own, 50 times a second at most. It is about this library alone: redsync and redislock leave
// renewal to their caller.
func BenchmarkHeld(b *testing.B) {
	describe(b)
	for _, p := range sized([]holdPlan{
		{1000, 30 * time.Second, 10 * time.Second}, // they are renewed once
		{10_000, 30 * time.Second, 10 * time.Second},
		{100_000, 30 * time.Second, 10 * time.Second},
		{1_000_000, time.Minute, 25 * time.Second},
		{1_000_000, 2 * time.Minute, 45 * time.Second},
	}, []holdPlan{{100, 30 * time.Second, 100 * time.Millisecond}}) {
		// The first client's maximum stays with the servers.
		servers := startServers(b)
		b.Run(fmt.Sprintf("locks=%d/ttl=%v", p.locks, p.ttl), func(b *testing.B) { p.hold(b, servers) })
	}
}

// holdPlan is locks that one Locker holds for a while.
type holdPlan struct {
	locks      int
	ttl, holds time.Duration
}

// probing is the pause between two locks of the goroutine beside those that are held.
const probing = 20 * time.Millisecond

// hold acquires the locks, holds them for a while, and releases them.
func (p *holdPlan) hold(b *testing.B, servers []*redistest.Server) {
	b.Helper()
	locker, err := newLocker(contention.AddressesOf(servers), redlock.WithTTL(p.ttl), redlock.WithMaxTTL(max(p.ttl, time.Minute)))
	require.NoError(b, err)
	defer func() {
		if locker.Close() == nil {
			return
		}
		for _, server := range servers { // no key waits for its expiry when the next one begins
			require.NoError(b, server.Clear())
		}
	}()
	heap := load.LiveHeap()
	acquire := load.Load{Goroutines: min(p.locks, manyGoroutines), Operations: p.locks, Do: func(ctx context.Context, i, _ int) error {
		_, err := locker.Locker.Lock(ctx, fmt.Sprintf("versus/hold/%06d", i))
		return err
	}}
	_, err = acquire.Measure(b.Context())
	require.NoError(b, err)
	b.ReportMetric((load.LiveHeap()-heap)/float64(p.locks), "B/lock")
	// Renewals are due an interval after the locks were acquired, right when a sample that began at
	// once would end.
	time.Sleep(p.holds / 10)
	p.measure(b, locker.Locker, servers)
}

// measure measures what it takes to hold the locks.
func (p *holdPlan) measure(b *testing.B, locker *redlock.Locker, servers []*redistest.Server) {
	b.Helper()
	serversBefore, err := serverCPU(servers)
	require.NoError(b, err)
	pausesBefore, collecting := collector()
	before, cpu, start := locker.Stats(), load.CPUTime(), time.Now()
	var probes []time.Duration
	for time.Since(start) < p.holds {
		time.Sleep(min(probing, p.holds))
		asked := time.Now()
		if lock, err := locker.TryLock(b.Context(), "versus/probe"); err == nil {
			_ = lock.Unlock(b.Context()) //nolint:errcheck // one that fails counts, too
		}
		probes = append(probes, time.Since(asked))
	}
	held := time.Since(start)
	cpu = load.CPUTime() - cpu
	after := locker.Stats()
	pauses, collected := collector()
	serversAfter, err := serverCPU(servers)
	require.NoError(b, err)
	require.Equal(b, p.locks, after.Held+int(after.Lost), "locks held and lost")
	calls := uint64(0)
	for i := range after.Nodes {
		calls += after.Nodes[i].Calls - before.Nodes[i].Calls
	}
	slices.Sort(probes)
	renewals, perCent := float64(after.Renewed-before.Renewed), 100/held.Seconds()
	for unit, figure := range map[string]float64{
		"ns/op": 0, "renewals/s": renewals / held.Seconds(), "calls/s": float64(calls) / held.Seconds(), "lost": float64(after.Lost),
		"%-of-a-core": perCent * cpu.Seconds(), "collector-%-of-a-core": perCent * (collected - collecting), "longest-pause-ms": load.Millis(longestOf(pausesBefore, pauses)),
		"p50-µs": load.Micros(load.Percentile(probes, 500)), "p99-µs": load.Micros(load.Percentile(probes, 990)),
	} {
		b.ReportMetric(figure, unit)
	}
	if renewals > 0 {
		b.ReportMetric(load.Micros(cpu)/renewals, "cpu-µs/renewal")
	}
	if serverCPUKnown {
		b.ReportMetric(perCent*(serversAfter-serversBefore).Seconds(), "servers-%-of-a-core")
	}
}

// collector returns how long the garbage collector has stopped the program, and its CPU time in
// seconds. The runtime counts that at the end of each collection.
func collector() (pauses *metrics.Float64Histogram, seconds float64) {
	samples := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(samples)
	return samples[0].Value.Float64Histogram(), samples[1].Value.Float64()
}

// longestOf returns the upper end of the longest pauses between two readings.
func longestOf(before, after *metrics.Float64Histogram) (longest time.Duration) {
	for i, count := range after.Counts {
		if count > before.Counts[i] {
			longest = time.Duration(after.Buckets[i+1] * float64(time.Second))
		}
	}
	return longest
}
