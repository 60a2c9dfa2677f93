package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
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

// patience is the node timeout, because every node answers. With the default of
// half a second, a machine that is busy with something else for that long would fail the benchmark.
// It changes nothing that is measured.
const patience = 10 * time.Second

// operation is what a load does. Its name is one that nobody else wants.
type operation func(ctx context.Context, locker *redlock.Locker, name string) error

// lockUnlock acquires and releases the lock.
func lockUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	return unlocked(ctx)(locker.TryLock(ctx, name))
}

// fencedLockUnlock is lockUnlock with a fencing token.
func fencedLockUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	return unlocked(ctx)(locker.TryLock(ctx, name, redlock.WithFencing()))
}

// readUnlock acquires and releases the lock of a reader.
func readUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	return unlocked(ctx)(locker.TryRLock(ctx, name))
}

// permits is how many holders the semaphores of the benchmarks have.
const permits = 8

// permitUnlock acquires and releases one of several permits.
func permitUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	semaphore, err := locker.Semaphore(name, permits)
	if err != nil {
		return err
	}
	return unlocked(ctx)(semaphore.TryAcquire(ctx))
}

// unlocked releases what was acquired.
func unlocked(ctx context.Context) func(*redlock.Lock, error) error {
	return func(lock *redlock.Lock, err error) error {
		if err != nil {
			return err
		}
		return lock.Unlock(ctx)
	}
}

// refused asks for a lock that is held.
func refused(ctx context.Context, locker *redlock.Locker, _ string) error {
	_, err := locker.TryLock(ctx, takenName)
	switch {
	case err == nil:
		return errors.New("a lock that is held was granted")
	case errors.Is(err, redlock.ErrTaken):
		return nil
	default:
		return err
	}
}

// takenName is the lock that refused asks for and hold holds.
const takenName = "bench/taken"

// maxTTL is the longest TTL that a Locker accepts by default.
const maxTTL = time.Minute

// hold holds the lock for the longest TTL there is, which is longer than any benchmark of a few
// seconds.
func hold(tb testing.TB, locker *redlock.Locker) {
	tb.Helper()
	lock, err := locker.TryLock(tb.Context(), takenName, redlock.WithTTL(maxTTL))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		assert.NoError(tb, lock.Unlock(context.WithoutCancel(tb.Context())), "the lock did not last until the end")
	})
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

// perform does the operation n times, by so many goroutines.
func perform(tb testing.TB, do operation, locker *redlock.Locker, goroutines, n int) load.Sample {
	tb.Helper()
	l := load.Load{Goroutines: goroutines, Limit: n, Do: func(ctx context.Context, i, _ int) error {
		return do(ctx, locker, names[i%len(names)])
	}}
	before := locker.Stats()
	s, err := l.Measure(tb.Context())
	require.NoError(tb, err)
	require.Equal(tb, n, s.Done)
	after := locker.Stats()
	require.EqualValues(tb, n, after.Acquired+after.Taken-before.Acquired-before.Taken, "rounds that were won or refused")
	require.Equal(tb, before.Held, after.Held, "locks held")
	return s
}

// performTimed is perform for what a benchmark is to do for as long as flags say.
func performTimed(tb testing.TB, do operation, locker *redlock.Locker, goroutines, n int) load.Sample {
	tb.Helper()
	if b, ok := tb.(*testing.B); ok {
		b.ReportAllocs()
		b.ResetTimer()
		defer b.StopTimer()
	}
	return perform(tb, do, locker, goroutines, n)
}

// rate measures a load of one operation.
func rate(do operation) func(goroutines int) measurement {
	return func(goroutines int) measurement {
		return func(tb testing.TB, c *cluster, size *size) map[string]float64 {
			s := performTimed(tb, do, c.locker(tb), goroutines, size.operations)
			metrics := map[string]float64{ // without what testing itself allocates
				"ns/op":     float64(s.Elapsed) / float64(s.Done),
				"locks/s":   s.PerSecond(),
				"B/op":      s.BytesEach(),
				"allocs/op": s.AllocsEach(),
			}
			if load.CPUKnown {
				metrics["cpu-µs/lock"] = s.CPUEach()
			}
			if s.Latency != nil {
				metrics["p50-µs"], metrics["p99-µs"] = s.Percentile(500), s.Percentile(990)
			}
			return metrics
		}
	}
}

// rateTaken is rate for a lock that another Locker holds.
func rateTaken(goroutines int) measurement {
	return func(tb testing.TB, c *cluster, s *size) map[string]float64 {
		hold(tb, c.locker(tb))
		return rate(refused)(goroutines)(tb, c, s)
	}
}

// compare runs operations in turns, because ratios of two that run in succession are more stable
// than figures that are minutes apart. It returns the time that each but the first took, divided by
// the time of the first: the median of the turns. Before and after are the Locker's Stats when all
// were warm, and at the end.
func compare(tb testing.TB, locker *redlock.Locker, goroutines int, s *size, operations ...operation) (ratios []float64, before, after redlock.Stats) {
	tb.Helper()
	n := min(s.each*goroutines, 10*s.each) // about a fifth of a second
	var took [][]float64
	for turn := range 1 + s.turns {
		if turn < 2 { // the first has loaded the scripts, and does not count
			took, before = make([][]float64, len(operations)-1), locker.Stats()
		}
		first := perform(tb, operations[0], locker, goroutines, n)
		for i, do := range operations[1:] {
			other := perform(tb, do, locker, goroutines, n)
			took[i] = append(took[i], float64(other.Elapsed)/float64(first.Elapsed))
		}
	}
	for _, all := range took {
		slices.Sort(all)
		ratios = append(ratios, all[len(all)/2])
	}
	return ratios, before, locker.Stats()
}

func compareFencing(goroutines int) measurement {
	return func(tb testing.TB, c *cluster, s *size) map[string]float64 {
		ratios, before, after := compare(tb, c.locker(tb), goroutines, s, lockUnlock, fencedLockUnlock)
		fenced := float64(after.Acquired-before.Acquired) / 2
		return map[string]float64{
			"fenced/plain": ratios[0], "second-rounds-%": 100 * float64(after.SecondRounds-before.SecondRounds) / fenced,
		}
	}
}

func compareKinds(goroutines int) measurement {
	return func(tb testing.TB, c *cluster, s *size) map[string]float64 {
		ratios, _, _ := compare(tb, c.locker(tb), goroutines, s, lockUnlock, permitUnlock, readUnlock)
		return map[string]float64{"permit/mutex": ratios[0], "read/mutex": ratios[1]}
	}
}

func batches(goroutines int) measurement {
	return func(tb testing.TB, c *cluster, s *size) map[string]float64 {
		counts := &contention.Traffic{}
		locker := c.locker(tb, redlock.WithPool(pool.WithDialer(counts.Dial)))
		perform(tb, lockUnlock, locker, goroutines, goroutines) // the first run of each script loads it
		counts.Reset()
		performTimed(tb, lockUnlock, locker, goroutines, s.operations)
		each := float64(s.operations) * float64(len(c.Masters)) // of which each has one release
		return map[string]float64{
			"commands/write": float64(counts.Commands.Load()) / float64(counts.Writes.Load()),
			"keys/script":    each / float64(counts.Scripts.Load()),
			"writes/lock":    float64(counts.Writes.Load()) / each,
			"reads/lock":     float64(counts.Reads.Load()) / each,
			"commands/lock":  float64(counts.Commands.Load()) / each,
		}
	}
}
