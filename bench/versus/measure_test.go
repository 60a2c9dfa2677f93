package versus

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// manyGoroutines is the load under which throughput is measured. namesPerPeer is a multiple of it.
const manyGoroutines = 256

func startServers(tb testing.TB) []*redistest.Server {
	tb.Helper()
	return redistest.Start(tb, 5)
}

// quota limits the locks that may begin: by number or by time. Its methods may be called from any
// goroutine.
type quota struct {
	limit    int64
	duration time.Duration // 0: no limit
	begun    atomic.Int64
	ended    atomic.Bool
}

func newQuota(locks int) *quota { return &quota{limit: int64(locks)} }

func quotaFor(d time.Duration) *quota { return &quota{limit: math.MaxInt64, duration: d} }

// start starts the clock.
func (q *quota) start() {
	if q.duration > 0 {
		time.AfterFunc(q.duration, func() { q.ended.Store(true) })
	}
}

// take returns the first of at most n locks to begin, counted from 0, and their number: 0 at the
// end. There is a first one however slow the machine is.
func (q *quota) take(n int) (first, count int) {
	if q.ended.Load() && q.begun.Load() > 0 {
		return 0, 0
	}
	end := q.begun.Add(int64(n))
	start := end - int64(n)
	return int(start), int(max(min(end, q.limit)-start, 0))
}

// sample is what one peer did within one quota.
type sample struct {
	locks   int
	failed  int // of them
	elapsed time.Duration
	cpu     time.Duration   // of this process
	servers time.Duration   // the CPU time of all servers together
	allocs  uint64          // objects
	bytes   uint64          // in them
	latency []time.Duration // of each lock and unlock, sorted; nil with many goroutines
}

// latencyRoom is how many latencies a sample holds before it allocates more, which would count for
// the peer.
const latencyRoom = 1 << 16

// settling is how long servers get, after the last lock, for what the peer did not wait for: more
// than the few hundred commands take.
const settling = 5 * time.Millisecond

// measure lets a peer lock with so many goroutines until the quota ends or a lock fails.
func measure(ctx context.Context, c *contestant, goroutines int, q *quota) (sample, error) {
	return (&work{contestant: c, quota: q}).measure(ctx, goroutines)
}

// measureFailing is measure, but goes on after a lock that failed.
func measureFailing(ctx context.Context, c *contestant, goroutines int, q *quota) (sample, error) {
	return (&work{contestant: c, quota: q, goOn: true}).measure(ctx, goroutines)
}

func (w *work) measure(ctx context.Context, goroutines int) (sample, error) {
	c, q, workers := w.contestant, w.quota, goroutines
	w.locksEach = 1
	if _, ok := c.peer.(batcher); ok {
		workers, w.locksEach = 1, goroutines
	}
	if goroutines == 1 {
		w.latency = make([]time.Duration, 0, latencyRoom)
	}
	runtime.GC() // no peer pays for the garbage of the previous one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	servers, err := serverCPU(c.servers)
	if err != nil {
		return sample{}, err
	}
	q.start()
	cpu, start := contention.CPUTime(), time.Now()
	if err := w.run(ctx, workers); err != nil {
		return sample{}, err
	}
	s := sample{locks: int(w.done.Load()), failed: int(w.failed.Load()), elapsed: time.Since(start), cpu: contention.CPUTime() - cpu}
	runtime.ReadMemStats(&after)
	s.allocs, s.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	slices.Sort(w.latency)
	s.latency = w.latency
	time.Sleep(settling)
	s.servers, err = serverCPU(c.servers)
	s.servers -= servers
	return s, err
}

// takeTurns lets every contestant measure for a while in every round, and returns the samples by
// contestant and round. A round before the first connects, and does not count.
func takeTurns(tb testing.TB, contestants []contestant, goroutines, rounds int, slice time.Duration) [][]sample {
	tb.Helper()
	samples := make([][]sample, len(contestants))
	for round := -1; round < rounds; round++ {
		for turn := range contestants {
			i := (turn + round + 1) % len(contestants) // none always follows the same one
			s, err := measure(tb.Context(), &contestants[i], goroutines, quotaFor(slice))
			require.NoError(tb, err, contestants[i].name)
			if round >= 0 {
				samples[i] = append(samples[i], s)
			}
		}
	}
	return samples
}

// work is a measurement under way.
type work struct {
	contestant *contestant
	quota      *quota
	locksEach  int             // locks per call of the peer
	latency    []time.Duration // of the only worker; nil if there are more
	goOn       bool            // after a lock that failed
	done       atomic.Int64    // locks acquired and released, or failed
	failed     atomic.Int64    // of them
}

func (w *work) run(ctx context.Context, workers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			if err := w.worker(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (w *work) worker(ctx context.Context) error {
	names := w.contestant.names
	for ctx.Err() == nil {
		first, count := w.quota.take(w.locksEach)
		if count == 0 {
			return nil
		}
		first %= len(names) // a multiple of locksEach: no batch crosses the end
		start := time.Now()
		if err := w.contestant.peer.lockUnlock(ctx, batch{first: first, names: names[first : first+count]}); err != nil {
			if !w.goOn {
				return err
			}
			w.failed.Add(int64(count))
		}
		if w.latency != nil {
			w.latency = append(w.latency, time.Since(start))
		}
		w.done.Add(int64(count))
	}
	return nil
}

func (s *sample) locksPerSecond() float64 { return float64(s.locks) / s.elapsed.Seconds() }
func (s *sample) cpuPerLock() float64     { return contention.Micros(s.cpu) / float64(s.locks) }
func (s *sample) serversPerLock() float64 { return contention.Micros(s.servers) / float64(s.locks) }
func (s *sample) allocsPerLock() float64  { return float64(s.allocs) / float64(s.locks) }
func (s *sample) bytesPerLock() float64   { return float64(s.bytes) / float64(s.locks) }

// percentile returns a percentile of the latencies in microseconds.
func (s *sample) percentile(permille int) float64 {
	return contention.Micros(contention.Percentile(s.latency, permille))
}

func TestQuotaHandsOutEveryLockOnce(t *testing.T) {
	q := newQuota(10)
	for _, want := range [][2]int{{0, 4}, {4, 4}, {8, 2}, {12, 0}} {
		first, count := q.take(4)
		assert.Equal(t, want, [2]int{first, count})
	}
}
