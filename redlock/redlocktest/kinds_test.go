package redlocktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// onTwo runs a test with two Lockers on five masters, in real time and in virtual time.
func onTwo(t *testing.T, test func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker)) {
	t.Helper()
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		test(t, c, c.Locker(t, patiently()...), c.Locker(t, patiently()...))
	})
}

func TestFencedLocksHaveTokensInOrder(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		first := lock(t, ours, "a", redlock.WithFencing())
		c.Expire("a")
		second := lock(t, theirs, "a", redlock.WithFencing())
		assert.Greater(t, second.Fence(), first.Fence())
		assert.Equal(t, second.Value(), c.Holder("a"))
		require.ErrorIs(t, first.Verify(t.Context()), redlock.ErrLost)
	})
}

func TestInspectShowsHolderAndWaiter(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		held := lock(t, ours, "a", redlock.WithOwner("host-1"))
		got := make(chan *redlock.Lock)
		go func() {
			next, err := theirs.Lock(context.Background(), "a")
			assert.NoError(t, err)
			got <- next
		}()
		waiting := func() (sum int) {
			status, err := ours.Inspect(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, []string{held.Value(), "host-1"}, []string{status.Value, status.Owner})
			for _, node := range status.Nodes {
				sum += node.Waiting
			}
			return sum
		}
		for waiting() == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, held.Unlock(t.Context()))
		assert.Equal(t, (<-got).Value(), c.Holder("a"))
		// Unlock may return before the node that handed its vote over has answered.
		for ours.Stats().HandedOver == 0 {
			time.Sleep(time.Millisecond)
		}
	})
}

func TestSetsAreLockedAsOne(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		set, err := ours.LockAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		_, err = theirs.TryLockAll(t.Context(), []string{"b", "c"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		any, err := theirs.LockAny(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		assert.Equal(t, "c", any.Name())
		assert.Equal(t, any.Value(), c.Holder("c"))
		c.Expire("b")
		require.ErrorIs(t, set.Verify(t.Context()), redlock.ErrLost)
	})
}

func TestAMinimumHoldOutlivesItsLock(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		held := lock(t, ours, "a", redlock.WithMinHold(time.Minute))
		require.NoError(t, held.Unlock(t.Context()))
		_, err := theirs.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		c.Expire("a")
		lock(t, theirs, "a")
	})
}

func TestASemaphoreHasSoManyPermits(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		mine, err := ours.Semaphore("imports", 2)
		require.NoError(t, err)
		other, err := theirs.Semaphore("imports", 2)
		require.NoError(t, err)
		first, err := mine.Acquire(t.Context())
		require.NoError(t, err)
		second, err := other.Acquire(t.Context())
		require.NoError(t, err)
		_, err = mine.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, second.Value(), c.Holder(second.Name()))

		got := make(chan *redlock.Lock)
		go func() {
			third, err := other.Acquire(context.Background())
			assert.NoError(t, err)
			got <- third
		}()
		require.NoError(t, first.Unlock(t.Context()))
		third := <-got
		assert.Equal(t, first.Name(), third.Name())
		c.Expire(third.Name())
		require.ErrorIs(t, third.Verify(t.Context()), redlock.ErrLost)
	})
}

func TestReadersShareALock(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		first, err := ours.RLock(t.Context(), "a")
		require.NoError(t, err)
		second, err := theirs.TryRLock(t.Context(), "a")
		require.NoError(t, err)
		_, err = theirs.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.NotEmpty(t, c.Holder("a"))
		c.Expire("a")
		require.ErrorIs(t, first.Verify(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, second.Verify(t.Context()), redlock.ErrLost)
		lock(t, theirs, "a")
	})
}

func TestALockIsAdopted(t *testing.T) {
	onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
		held := lock(t, ours, "a")
		adopted, err := theirs.Adopt(t.Context(), "a", held.Value())
		require.NoError(t, err)
		assert.Equal(t, adopted.Value(), c.Holder("a"))
		require.ErrorIs(t, held.Verify(t.Context()), redlock.ErrLost)
		require.NoError(t, adopted.Extend(t.Context(), 30*time.Second))
	})
}

func TestAnElectedLeaderIsDeposedAndFollowed(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan int64)
		ended := make(chan error, 2)
		for range 2 {
			e, err := election.New(c.Locker(t, redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second)), "scheduler")
			require.NoError(t, err)
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, term int64) error {
					select {
					case terms <- term:
						<-ctx.Done()
					case <-ctx.Done():
					}
					return ctx.Err()
				})
			}()
		}
		first := <-terms
		c.Expire("scheduler")
		assert.Greater(t, <-terms, first)
		cancel()
		for range 2 {
			require.NoError(t, <-ended)
		}
	})
}

func TestNoVirtualTimePassesBeforeTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := redlocktest.Start(t, 5)
		c.Locker(t)
		assert.Less(t, time.Since(began), 10*time.Millisecond)
		t.Log(time.Since(began))
	})
}
