package versus

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

var full = flag.Bool("full", false, "measure at the sizes of docs/benchmarks.md; without it, everything takes a moment, and is of no use")

// sized returns what -full asks for.
func sized[T any](whole, brief T) T {
	if *full {
		return whole
	}
	return brief
}

// manyGoroutines is the load under which throughput is measured. namesPerPeer is a multiple of it.
const manyGoroutines = 256

func startServers(tb testing.TB) []*redistest.Server {
	tb.Helper()
	return redistest.Start(tb, 5)
}

// nodesPeers are ours, the two redsyncs that are best, and the limit.
func nodesPeers() []entry {
	return slices.DeleteFunc(slices.Clone(peers), func(e entry) bool {
		return strings.HasPrefix(e.name, "redsync") && e.name != "redsync-redigo" && e.name != "redsync-rueidis-tuned"
	})
}

// BenchmarkLock locks names that nobody else wants, and unlocks them. The peers take turns.
func BenchmarkLock(b *testing.B) {
	describe(b)
	few := []int{1, manyGoroutines}
	for _, size := range []struct {
		nodes      int
		peers      []entry
		goroutines []int
	}{
		{1, slices.Concat(peers, singlePeers), few},
		{3, nodesPeers(), few},
		{5, peers, []int{1, 4, 16, 64, 256, 1024}},
		{7, nodesPeers(), few},
		{9, nodesPeers(), few},
	} {
		contestants := openPeers(b, redistest.Start(b, size.nodes), size.peers, slices.Max(size.goroutines))
		for _, goroutines := range size.goroutines {
			for _, c := range contestants {
				b.Run(fmt.Sprintf("nodes=%d/peer=%s/goroutines=%d", size.nodes, c.name, goroutines), func(b *testing.B) {
					s, err := c.measure(b.Context(), load.Load{Goroutines: goroutines, Operations: b.N, Timed: b})
					require.NoError(b, err)
					s.Report(b)
					if serverCPUKnown {
						b.ReportMetric(load.Micros(s.servers)/float64(s.Done), "servers-µs/lock")
					}
				})
			}
		}
	}
}

// describe prints what the benchmarks run on, as the format of benchmarks has it.
func describe(b *testing.B) {
	b.Helper()
	if !*full {
		return
	}
	locker, err := newLocker(contention.AddressesOf(redistest.Start(b, 1)))
	require.NoError(b, err)
	defer locker.Close()
	server := locker.Stats().Nodes[0]
	hash, err := exec.CommandContext(b.Context(), "git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12").Output()
	if err != nil {
		hash = []byte("unknown")
	}
	fmt.Printf("go: %s\ncpus: %d\nserver: %s %s\ncommit: %s\n",
		runtime.Version(), runtime.NumCPU(), server.Product, server.Version, strings.TrimSpace(string(hash)))
}

// sample is what one peer did.
type sample struct {
	load.Sample
	servers time.Duration // the CPU time of all servers together
}

// settling is how long servers get, after the last lock, for what the peer did not wait for: more
// than the few hundred commands take.
const settling = 5 * time.Millisecond

// measure lets the peer lock. The load says how often, and with how many goroutines.
func (c *contestant) measure(ctx context.Context, l load.Load) (sample, error) {
	if _, ok := c.peer.(batcher); ok {
		l.Goroutines, l.Each = 1, l.Goroutines
	}
	l.Do = func(ctx context.Context, first, count int) error {
		first %= len(c.names) // a multiple of a batch: none crosses the end
		return c.peer.lockUnlock(ctx, batch{first: first, names: c.names[first : first+count]})
	}
	servers, err := serverCPU(c.servers)
	if err != nil {
		return sample{}, err
	}
	measured, err := l.Measure(ctx)
	if err != nil {
		return sample{}, err
	}
	time.Sleep(settling)
	after, err := serverCPU(c.servers)
	return sample{measured, after - servers}, err
}

// TestEveryBenchmarkRuns runs each once, so one that broke is found before it is needed.
func TestEveryBenchmarkRuns(t *testing.T) {
	times := flag.Lookup("test.benchtime")
	before := times.Value.String()
	require.NoError(t, times.Value.Set("1x"))
	defer func() { require.NoError(t, times.Value.Set(before)) }()
	for name, benchmark := range map[string]func(*testing.B){
		"Lock": BenchmarkLock, "Contention": BenchmarkContention, "Held": BenchmarkHeld, "Recovery": BenchmarkRecovery,
		"Doors": BenchmarkDoors, "CrowdOfDoors": BenchmarkCrowdOfDoors,
	} {
		failed := false
		testing.Benchmark(func(b *testing.B) {
			b.Cleanup(func() { failed = failed || b.Failed() })
			benchmark(b)
		})
		assert.False(t, failed, name)
	}
}
