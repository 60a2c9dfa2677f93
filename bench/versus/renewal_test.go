package versus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// holdPlan is locks that one Locker holds for a while.
type holdPlan struct {
	locks     int
	ttl, hold time.Duration
	probes    bool // meanwhile a goroutine locks another name again and again
}

// holding is what it took.
type holding struct {
	held, cpu, servers time.Duration
	renewals, lost     uint64
	calls              uint64  // of all servers
	heap               float64 // bytes per lock, names included
	goroutines         int     // of the library
	pause              time.Duration
	collecting         float64         // CPU seconds of the garbage collector
	probes             []time.Duration // of a lock and its unlock, sorted
}

// renewalValues are what holdings have, by name.
var renewalValues = map[string]struct {
	of    func(*holding) float64
	known bool
}{
	figures.CoreShare:           {func(h *holding) float64 { return 100 * h.cpu.Seconds() / h.held.Seconds() }, load.CPUKnown},
	figures.ServerCoreShare:     {func(h *holding) float64 { return 100 * h.servers.Seconds() / h.held.Seconds() }, serverCPUKnown},
	figures.RenewalsPerSecond:   {func(h *holding) float64 { return float64(h.renewals) / h.held.Seconds() }, true},
	figures.CallsPerSecond:      {func(h *holding) float64 { return float64(h.calls) / h.held.Seconds() }, true},
	figures.ClientCPUPerRenewal: {func(h *holding) float64 { return load.Micros(h.cpu) / float64(h.renewals) }, load.CPUKnown},
	figures.ServerCPUPerRenewal: {func(h *holding) float64 { return load.Micros(h.servers) / float64(h.renewals) }, serverCPUKnown},
	figures.LostLocks:           {func(h *holding) float64 { return float64(h.lost) }, true},
	figures.HeapPerLock:         {func(h *holding) float64 { return h.heap }, true},
	figures.LongestPause:        {func(h *holding) float64 { return load.Millis(h.pause) }, true},
	figures.CollectorShare:      {func(h *holding) float64 { return 100 * h.collecting / h.held.Seconds() }, true},
	figures.P50:                 {func(h *holding) float64 { return load.Micros(load.Percentile(h.probes, 500)) }, true},
	figures.P99:                 {func(h *holding) float64 { return load.Micros(load.Percentile(h.probes, 990)) }, true},
}

var (
	renewalNames = []string{
		figures.CoreShare, figures.RenewalsPerSecond, figures.ClientCPUPerRenewal, figures.ServerCPUPerRenewal, figures.LostLocks,
	}
	scaleNames = append([]string{
		figures.ServerCoreShare, figures.CallsPerSecond, figures.HeapPerLock, figures.LongestPause, figures.CollectorShare,
		figures.P50, figures.P99,
	}, renewalNames...)
)

// measureRenewal is about this library alone: redsync and redislock leave renewal to their caller.
func measureRenewal(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: fmt.Sprintf("five servers, a TTL of %v, samples of %v", p.ttl, p.hold)}
	servers := startServers(t)
	rounds := make([][]holding, len(p.locks))
	for range p.longRounds {
		for i, locks := range p.locks {
			rounds[i] = append(rounds[i], hold(t, servers, &holdPlan{locks: locks, ttl: p.ttl, hold: p.hold}))
		}
	}
	for i, locks := range p.locks {
		e.Rows = append(e.Rows, holdingRow(locks, "", rounds[i], renewalNames))
	}
	return e
}

func holdingRow(locks int, state string, rounds []holding, names []string) figures.Row {
	row := figures.Row{Peer: "redquorum", State: state, Size: locks, Values: make(map[string]figures.Figure)}
	for _, name := range names {
		if value := renewalValues[name]; value.known {
			addFigure(&row, name, rounds, value.of)
		}
	}
	return row
}

// leadIn is which part of a sample passes before it begins.
const leadIn = 10

// hold acquires so many locks, holds them for a while, and releases them.
func hold(t *testing.T, servers []*redistest.Server, p *holdPlan) (h holding) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	locker, err := newLocker(contention.AddressesOf(servers), redlock.WithTTL(p.ttl), redlock.WithMaxTTL(max(p.ttl, time.Minute)))
	require.NoError(t, err)
	defer func() { require.NoError(t, release(locker.Locker, servers)) }()
	heap := load.LiveHeap()
	acquire := load.Load{Goroutines: min(p.locks, manyGoroutines), Limit: p.locks, Do: func(ctx context.Context, i, _ int) error {
		_, err := locker.Locker.Lock(ctx, fmt.Sprintf("versus/hold/%06d", i))
		return err
	}}
	acquired, err := acquire.Measure(t.Context())
	require.NoError(t, err)
	h.heap = (load.LiveHeap() - heap) / float64(p.locks)
	// Renewals are due an interval after the locks were acquired, right when a sample that began at
	// once would end.
	time.Sleep(p.hold / leadIn)
	h.measure(t, locker.Locker, servers, p, goroutines)
	t.Logf("%d locks: acquired at %.0f a second, %.0f bytes of heap for each, and at most %d goroutines",
		p.locks, acquired.PerSecond(), h.heap, h.goroutines)
	return h
}

// measure measures what it takes to hold the locks.
func (h *holding) measure(t *testing.T, locker *redlock.Locker, servers []*redistest.Server, p *holdPlan, goroutines int) {
	t.Helper()
	serversBefore, err := serverCPU(servers)
	require.NoError(t, err)
	pauses, collecting := collector()
	before, cpu, start := locker.Stats(), load.CPUTime(), time.Now()
	for time.Since(start) < p.hold {
		time.Sleep(min(load.GoroutineSample, p.hold))
		h.goroutines = max(h.goroutines, runtime.NumGoroutine()-goroutines)
		if p.probes {
			h.probe(t, locker)
		}
	}
	h.held, h.cpu = time.Since(start), load.CPUTime()-cpu
	after := locker.Stats()
	h.renewals, h.lost = after.Renewed-before.Renewed, after.Lost
	for i := range after.Nodes {
		h.calls += after.Nodes[i].Calls - before.Nodes[i].Calls
	}
	require.Equal(t, p.locks, after.Held+int(after.Lost), "locks held and lost")
	pausesAfter, collectingAfter := collector()
	h.pause, h.collecting = longestOf(pauses, pausesAfter), collectingAfter-collecting
	serversAfter, err := serverCPU(servers)
	require.NoError(t, err)
	h.servers = serversAfter - serversBefore
	slices.Sort(h.probes)
}

// probe locks another name once. One that fails counts, too.
func (h *holding) probe(t *testing.T, locker *redlock.Locker) {
	t.Helper()
	start := time.Now()
	err := redquorumPeer{&contention.Redquorum{Locker: locker}}.lockUnlock(t.Context(), batch{names: []string{"versus/probe"}})
	if err != nil {
		t.Log(err)
	}
	h.probes = append(h.probes, time.Since(start))
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

// release closes the Locker, which releases its locks. On a busy machine, some releases are not
// delivered in time: no key may wait for its expiry when the next round begins.
func release(locker *redlock.Locker, servers []*redistest.Server) error {
	if locker.Close() == nil {
		return nil
	}
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Clear())
	}
	return errors.Join(errs...)
}
