// Package redquorum_test has the first acceptance tests, those of a lock that meets no fault. The
// others are in internal/proof/servers/scenario.
package redquorum_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// patient is for nodes on a busy machine, which may stop them for longer than the default.
var patient = redlock.WithNodeTimeout(5 * time.Second)

func TestLockIsExclusiveFromLockToUnlock(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		ctx, name := t.Context(), cluster.LockName(t)
		ours, theirs := cluster.NewConnected(t, c.URLs(), patient), cluster.NewConnected(t, c.URLs(), patient)
		lock, err := ours.TryLock(ctx, name, redlock.WithOwner("worker 7"))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, c.Holding(t, name, lock.Value()), 3)
		assert.True(t, strings.HasSuffix(lock.Value(), "|worker 7"), lock.Value())
		assert.Greater(t, lock.Remaining(), 5*time.Second)
		assert.LessOrEqual(t, lock.Remaining(), 10*time.Second-102*time.Millisecond, "TTL less drift")
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Verify(ctx))

		_, err = theirs.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = ours.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken, "not reentrant")
		require.NoError(t, lock.Verify(ctx), "failed attempts must not touch the holder's key")

		require.NoError(t, lock.Extend(ctx, 30*time.Second))
		assert.Greater(t, lock.Remaining(), 20*time.Second)
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, lock.Unlock(ctx), "again")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(ctx, 30*time.Second), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))

		lock, err = theirs.TryLock(ctx, name)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestLockWaitsForTheHolderAsLongAsItsContextAllows(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		// A wait that never ends tells nothing.
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		name := cluster.LockName(t)
		ours, theirs := cluster.NewConnected(t, c.URLs(), patient), cluster.NewConnected(t, c.URLs(), patient)
		lock, err := ours.Lock(ctx, name)
		require.NoError(t, err)

		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err = theirs.Lock(short, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		next := make(chan error, 1)
		go func() {
			lock, err := theirs.Lock(ctx, name)
			if err == nil {
				err = lock.Unlock(ctx)
			}
			next <- err
		}()
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, <-next)
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestHeldLockIsRenewedPastItsTTL(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		const ttl = 2 * time.Second // a busy machine may stop us for half of it
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/2))
		lock, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		work, stop := context.WithTimeout(lock.Context(t.Context()), 3*ttl/2)
		defer stop()
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), context.DeadlineExceeded, "not lost before")
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.RequireClean(t, c.Masters...)
	})
}
