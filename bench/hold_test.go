package bench

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/redlock"
)

var (
	holdFor = flag.Duration("hold", 22*time.Second, "how long BenchmarkHold holds its locks; they are renewed every 10s")
	holdMax = flag.Int("locks", 100_000, "how many locks BenchmarkHold holds; on miniredis 5,000 at most")
)

const (
	holdTTL   = 30 * time.Second
	holdNodes = 5

	// holdersInProcess is how many locks miniredis can renew without dominating the figures: its
	// Lua takes microseconds per key.
	holdersInProcess = 5000
)

// BenchmarkHold holds many locks with renewal, and does nothing else. To run it for two minutes:
//
//	go test -run '^$' -bench Hold ./bench -hold 2m
//
// Its metrics are about the holding unless they say otherwise:
//
//	lost, keys-left      0: when a lock is lost, or a key is on a server after Close, it fails
//	renewals/s           of one lock each
//	timeouts             calls to nodes without an answer by the node timeout
//	%core cpu-µs/renewal CPU time of this process, user and system, in per cent of one core's and
//	                     per renewal
//	goroutines           the most at once, without those that were there before the Locker; it
//	                     fails when they are not O(nodes)
//	heap-B/lock          live heap per lock, names included, after acquiring or after holding,
//	                     whichever is more
//	acquire-s close-s    how long acquiring took, and Close, which releases all
//
// The Locker is made as a user makes it, with the node timeout that follows from the TTL.
func BenchmarkHold(b *testing.B) {
	c := newCluster(b, holdNodes)
	locks, opts := *holdMax, []redlock.Option{redlock.WithTTL(holdTTL)}
	if !c.Real {
		locks = min(locks, holdersInProcess)
		// miniredis takes seconds for what a server does in milliseconds.
		opts = append(opts, redlock.WithNodeTimeout(patience))
		b.Logf("no redis-server in PATH: on miniredis, with %d locks", locks)
	}
	b.Run(fmt.Sprintf("backend=%s/nodes=%d/locks=%d", c.backend, holdNodes, locks), func(b *testing.B) {
		var h *holding
		for range b.N { // once by default; the last run gives the figures
			b.StopTimer()
			h = startHolding(b, c, locks, opts...)
			b.StartTimer()
			h.hold(*holdFor)
			b.StopTimer()
			require.NoError(b, h.end())
		}
		h.report(b, c)
	})
}

// holding is many locks held at once, from acquiring to Close, and what that took.
type holding struct {
	locker *redlock.Locker
	locks  []*redlock.Lock

	goroutinesBefore int    // before the Locker was made
	heapBefore       uint64 // before the first lock was acquired
	renewedBefore    uint64 // before the holding
	timeoutsBefore   uint64 // likewise

	acquiring, held, closing time.Duration
	cpu                      time.Duration // during the holding
	renewals                 uint64        // during the holding
	timeouts                 uint64        // calls to nodes that took too long, during the holding
	goroutines               int           // at most during the holding, without those before
	heapPerLock              float64       // bytes
}

// holdGoroutines acquire at once: fewer than the capacity of a node's queue, and enough to keep
// five servers busy.
const holdGoroutines = 256

// startHolding acquires n locks.
func startHolding(tb testing.TB, c *cluster, n int, opts ...redlock.Option) *holding {
	tb.Helper()
	h := &holding{locks: make([]*redlock.Lock, n), goroutinesBefore: runtime.NumGoroutine()}
	h.locker = c.locker(tb, opts...)
	h.heapBefore = liveHeap()
	var next atomic.Int64
	acquire := func(ctx context.Context, locker *redlock.Locker, _ string) (err error) {
		i := next.Add(1) - 1
		h.locks[i], err = locker.Lock(ctx, fmt.Sprintf("hold/%06d", i)) // the name counts, too
		return err
	}
	start := time.Now()
	require.NoError(tb, perform(tb.Context(), acquire, h.locker, min(n, holdGoroutines), n, nil))
	h.acquiring = time.Since(start)
	h.weigh()
	h.renewedBefore, h.timeoutsBefore = h.locker.Stats().Renewed, h.nodeTimeouts()
	return h
}

// liveHeap returns the bytes of the heap in use.
func liveHeap() uint64 {
	var stats runtime.MemStats
	for range 2 { // the second collection frees what the first one found in a pool
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (h *holding) weigh() {
	grown := max(float64(liveHeap())-float64(h.heapBefore), 0)
	h.heapPerLock = max(h.heapPerLock, grown/float64(len(h.locks)))
}

// goroutineSample is short enough to catch what runs for a renewal, and too long to count in the
// CPU time.
const goroutineSample = 20 * time.Millisecond

// hold lets the time pass.
func (h *holding) hold(d time.Duration) {
	cpu, start := contention.CPUTime(), time.Now()
	ticker := time.NewTicker(goroutineSample)
	defer ticker.Stop()
	for h.held < d {
		<-ticker.C
		h.goroutines = max(h.goroutines, runtime.NumGoroutine()-h.goroutinesBefore)
		h.held = time.Since(start)
	}
	h.cpu = contention.CPUTime() - cpu
	h.renewals, h.timeouts = h.locker.Stats().Renewed-h.renewedBefore, h.nodeTimeouts()-h.timeoutsBefore
}

// nodeTimeouts returns how many calls have not been answered in time, over all nodes.
func (h *holding) nodeTimeouts() (n uint64) {
	for _, node := range h.locker.Stats().Nodes {
		n += node.Timeouts
	}
	return n
}

// goroutinesPerNode bounds the goroutines of a Locker: per node one that reads, one that writes
// and, for a moment, one for deadlines; with miniredis, its server too. The rest is for the
// schedules, which also run for a moment.
const goroutinesPerNode = 6

// end checks that no lock was lost, releases all by Close, and times that.
func (h *holding) end() error {
	h.weigh()
	stats := h.locker.Stats()
	if stats.Lost != 0 || stats.Held != len(h.locks) {
		return fmt.Errorf("%d locks lost, %d held, want 0 and %d", stats.Lost, stats.Held, len(h.locks))
	}
	for _, lock := range h.locks {
		if err := lock.Err(); err != nil {
			return fmt.Errorf("%s: %w", lock.Name(), err)
		}
	}
	if most := goroutinesPerNode * len(stats.Nodes); h.goroutines > most {
		return fmt.Errorf("%d goroutines for %d nodes, want %d at most", h.goroutines, len(stats.Nodes), most)
	}
	start := time.Now()
	err := h.locker.Close()
	h.closing = time.Since(start)
	return err
}

func (h *holding) report(b *testing.B, c *cluster) {
	b.Helper()
	left := c.keysLeft(b)
	require.Zero(b, left, "keys left on the servers after Close, which had %d calls without an answer",
		h.nodeTimeouts()-h.timeoutsBefore-h.timeouts)
	metrics := map[string]float64{
		"lost":       float64(h.locker.Stats().Lost),
		"keys-left":  float64(left),
		"acquire-s":  h.acquiring.Seconds(),
		"close-s":    h.closing.Seconds(),
		"renewals/s": float64(h.renewals) / h.held.Seconds(),
		"timeouts":   float64(h.timeouts),
		"goroutines": float64(h.goroutines),
	}
	if c.Real { // otherwise the servers are in this process
		metrics["heap-B/lock"] = h.heapPerLock
	}
	if c.Real && contention.Supported {
		metrics["%core"] = 100 * h.cpu.Seconds() / h.held.Seconds()
		metrics["cpu-µs/renewal"] = contention.Micros(h.cpu) / float64(max(h.renewals, 1))
	}
	report(b, metrics)
}
