package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkTryLock acquires and releases locks that nobody else wants.
func BenchmarkTryLock(b *testing.B) {
	for _, nodes := range []int{1, 3, 5, 9} {
		c := newCluster(b, nodes)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			locker := c.locker(b)
			for _, goroutines := range []int{1, 64, 256} {
				measure(b, lockUnlock, locker, goroutines)
			}
		})
	}
}

// BenchmarkTaken is refused a lock that is held. The releases that follow each refusal in the
// background are part of its cost.
func BenchmarkTaken(b *testing.B) {
	c := newCluster(b, 5)
	b.Run("nodes=5", func(b *testing.B) {
		locker := c.locker(b)
		hold(b, locker)
		for _, goroutines := range []int{1, 256} {
			measure(b, refused, locker, goroutines)
		}
	})
}

// BenchmarkFencing compares locks with a fencing token to locks without, in turns:
//
//	fenced/plain     time of a lock and its unlock with a token, divided by that without: the
//	                 median of the turns
//	second-rounds-%  of the locks with a token, how many took a second round to get it
func BenchmarkFencing(b *testing.B) {
	inTurns(b, func(b *testing.B, c *cluster, goroutines int) {
		b.Helper()
		before, after := compare(b, c, goroutines, []operation{lockUnlock, fencedLockUnlock}, "fenced/plain")
		acquired := float64(after.Acquired-before.Acquired) / 2
		b.ReportMetric(100*float64(after.SecondRounds-before.SecondRounds)/acquired, "second-rounds-%")
	})
}

// BenchmarkKinds compares the kinds of locks that nobody else wants to the mutex, in turns:
//
//	permit/mutex  time of a permit and its release, divided by that of a lock and its unlock: the
//	              median of the turns; likewise for the other kinds
func BenchmarkKinds(b *testing.B) {
	inTurns(b, func(b *testing.B, c *cluster, goroutines int) {
		b.Helper()
		compare(b, c, goroutines, []operation{lockUnlock, permitUnlock, readUnlock}, "permit/mutex", "read/mutex")
	})
}

func inTurns(b *testing.B, body func(b *testing.B, c *cluster, goroutines int)) {
	b.Helper()
	c := newCluster(b, 5)
	for _, goroutines := range []int{1, 256} {
		b.Run(fmt.Sprintf("nodes=5/goroutines=%d", goroutines), func(b *testing.B) {
			body(b, c, goroutines)
		})
	}
}

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
	permit, err := semaphore.TryAcquire(ctx)
	if err != nil {
		return err
	}
	return permit.Unlock(ctx)
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

// takenName is the lock that refused asks for and hold holds.
const takenName = "bench/taken"

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

// BenchmarkBatch shows how full writes, reads and scripts are: commands per write, keys per script,
// writes and reads per lock and node.
func BenchmarkBatch(b *testing.B) {
	c := newCluster(b, 5)
	for _, goroutines := range []int{1, 16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			counts := &contention.Traffic{}
			locker := c.locker(b, redlock.WithPool(pool.WithDialer(counts.Dial)))
			// The first run of each script loads it.
			require.NoError(b, perform(b.Context(), lockUnlock, locker, goroutines, goroutines, nil))
			counts.Reset()
			b.ResetTimer()
			require.NoError(b, perform(b.Context(), lockUnlock, locker, goroutines, b.N, nil))
			b.StopTimer()
			each := float64(b.N) * float64(len(c.Masters)) // of which each has one release
			b.ReportMetric(float64(counts.Commands.Load())/float64(counts.Writes.Load()), "commands/write")
			b.ReportMetric(each/float64(counts.Scripts.Load()), "keys/script")
			b.ReportMetric(float64(counts.Writes.Load())/each, "writes/lock")
			b.ReportMetric(float64(counts.Reads.Load())/each, "reads/lock")
			b.ReportMetric(float64(counts.Commands.Load())/each, "commands/lock")
			b.ReportMetric(0, "ns/op")
		})
	}
}
