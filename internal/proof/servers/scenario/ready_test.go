package scenario_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestReadyWaitsForNodesThatAreStartedLater(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		for _, m := range c.Masters {
			must(t, m.Kill())
		}
		l := cluster.NewLocker(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Ready(short)
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var failure *redlock.QuorumError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "ready", failure.Op)
		assert.GreaterOrEqual(t, len(endpointsOf(failure)), 3)

		ready := make(chan error, 1)
		go func() {
			long, cancel := context.WithTimeout(t.Context(), 4*slack)
			defer cancel()
			ready <- l.Ready(long)
		}()
		for _, m := range c.Masters { // empty: all must be there to be taken for a new cluster
			must(t, m.Restart())
		}
		began := time.Now()
		require.NoError(t, <-ready)
		t.Logf("ready %v after the last node", time.Since(began).Round(time.Millisecond))
		lock, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestNewFollowedByTryLockNeedsNoReady(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		for range 20 {
			l := cluster.NewLocker(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience),
				redlock.WithPool(pool.WithDialTimeout(patience)))
			lock, err := l.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, l.Close())
			for _, m := range c.Masters {
				keys, err := m.Keys()
				require.NoError(t, err)
				assert.Empty(t, keys)
			}
		}
	})
}

// Connections that servers close are replaced at once, not when the next caller needs them.
func TestConnectionsThatServersClosedAreNoErrorsOfTheNextCall(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	for round := range uint64(20) {
		for _, m := range c.Masters {
			do(t, m, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		cluster.Eventually(t, 10*slack, func() string {
			if n := connects(l); n < 5*(round+2) {
				return fmt.Sprint(n, " connections made")
			}
			return ""
		})
		lock, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.RequireClean(t, c.Masters...)
	}
}
