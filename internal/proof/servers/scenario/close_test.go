package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Not parallel: it looks for goroutines of the library.
func TestCloseWithLocksInFlightLeavesNothing(t *testing.T) {
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		for round := range 10 {
			client := fmt.Sprintf("closing-%d", round)
			l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience),
				redlock.WithPool(pool.WithClientName(client)))
			began := time.Now()
			acquired := hammerAndClose(t, l, time.Duration(round)*2*time.Millisecond)
			assert.Less(t, time.Since(began), 4*slack)
			for _, m := range c.Masters {
				keys, err := m.Keys()
				require.NoError(t, err)
				assert.Empty(t, keys, "at once: Close waits for the answers (round %d, %d acquired)", round, acquired)
			}
			assert.Empty(t, cluster.AwaitNoGoroutines(slack))
			if c.Real {
				awaitNoConnections(t, c, client)
			}
		}
	})
}

// hammerAndClose closes a Locker that goroutines are using, and returns when all of them have seen
// that it is closed.
func hammerAndClose(t *testing.T, l *redlock.Locker, after time.Duration) (acquired int64) {
	t.Helper()
	var count atomic.Int64
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for {
				lock, err := useOnce(t.Context(), l, worker)
				if lock != nil {
					count.Add(1)
				}
				if errors.Is(err, redlock.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, redlock.ErrTaken) {
					t.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	time.Sleep(after)
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() { assert.NoError(t, l.Close()) })
	}
	closers.Wait()
	workers.Wait()
	_, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, redlock.ErrClosed)
	require.ErrorIs(t, l.Ready(t.Context()), redlock.ErrClosed)
	assert.Zero(t, l.Stats().Held)
	return count.Load()
}

// useOnce acquires one of a few names, by trying or by waiting, and releases it.
func useOnce(ctx context.Context, l *redlock.Locker, worker int) (*redlock.Lock, error) {
	acquire := l.TryLock
	if worker%2 == 0 {
		acquire = l.Lock
	}
	lock, err := acquire(ctx, fmt.Sprint("name ", worker/3))
	if err != nil {
		return nil, err
	}
	if worker%4 == 0 {
		<-lock.Done() // held until Close
	}
	return lock, lock.Unlock(ctx)
}

func awaitNoConnections(t *testing.T, c *cluster.Cluster, client string) {
	t.Helper()
	cluster.Eventually(t, slack, func() (left string) {
		for _, m := range c.Masters {
			reply, err := m.Do("CLIENT", "LIST")
			require.NoError(t, err)
			list, ok := reply.([]byte)
			require.True(t, ok)
			for line := range strings.Lines(string(list)) {
				if strings.Contains(line, "name="+client) {
					left += line
				}
			}
		}
		return left
	})
}

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
		var locks []*redlock.Lock
		for i := range 50 {
			lock, err := l.TryLock(t.Context(), fmt.Sprint("name ", i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		assert.Equal(t, 50, l.Stats().Held)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Lock(t.Context(), "name 7")
			waiting <- err
		}()
		require.NoError(t, l.Close())
		for _, m := range c.Masters {
			keys, err := m.Keys()
			require.NoError(t, err)
			assert.Empty(t, keys)
		}
		require.ErrorIs(t, <-waiting, redlock.ErrClosed)
		for _, lock := range locks {
			<-lock.Done()
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.ErrorIs(t, lock.Err(), redlock.ErrClosed)
			require.NoError(t, lock.Unlock(t.Context()))
		}
	})
}

func TestCloseWaitsForNodesForTwoNodeTimeoutsAndASecondAtMost(t *testing.T) {
	const nodeTimeout = time.Second
	onEachOutage(t, func(t *testing.T, c *cluster.Cluster, o outage) {
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout))
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		o.beginAll(t, c.Masters[:3]...)
		began := time.Now()
		if err := l.Close(); err != nil {
			require.ErrorIs(t, err, redlock.ErrUndelivered)
		}
		assert.Less(t, time.Since(began), 2*nodeTimeout+time.Second+slack)
		assert.Empty(t, cluster.AwaitNoGoroutines(slack))
	})
}
