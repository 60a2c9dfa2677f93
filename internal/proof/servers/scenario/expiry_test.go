package scenario_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// expire waits until a lock is lost by the local clock and its key is gone from every node.
func expire(t *testing.T, c *cluster.Cluster, lock *redlock.Lock, ttl time.Duration) {
	t.Helper()
	select {
	case <-lock.Done():
	case <-time.After(ttl + 10*slack):
		require.FailNow(t, "Done was not closed")
	}
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	for _, m := range c.Masters {
		if e, ok := m.(cluster.Embedded); ok {
			e.FastForward(ttl)
		}
	}
	cluster.Eventually(t, ttl+slack, func() string {
		if n := c.Holding(t, lock.Name(), lock.Value()); n > 0 {
			return fmt.Sprint(n, " nodes still hold it")
		}
		return ""
	})
}

func TestLockThatExpiredIsLostAndTheNextHoldersIsNotTouched(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		ctx, name := t.Context(), cluster.LockName(t)
		const ttl = time.Second
		ours := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(ttl))
		theirs := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(patience))
		began := time.Now()
		first, err := ours.TryLock(ctx, name, redlock.WithTTL(ttl), redlock.WithoutRenewal())
		require.NoError(t, err)
		work := first.Context(ctx)
		<-work.Done()
		assert.ErrorIs(t, context.Cause(work), redlock.ErrLost)
		assert.Less(t, time.Since(began), ttl+slack)
		expire(t, c, first, ttl)

		next, err := theirs.TryLock(ctx, name, redlock.WithTTL(longTTL))
		require.NoError(t, err)
		require.ErrorIs(t, first.Extend(ctx, longTTL), redlock.ErrLost)
		require.ErrorIs(t, first.Verify(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		require.NoError(t, next.Verify(ctx))
		cluster.Eventually(t, slack, func() string { // the majority was enough for TryLock
			if n := c.Holding(t, name, next.Value()); n < 5 {
				return fmt.Sprint("all nodes hold it, not ", n)
			}
			return ""
		})
		for _, m := range c.Masters {
			pttl, err := m.Do("PTTL", name)
			require.NoError(t, err)
			assert.Greater(t, pttl, (longTTL - 10*time.Second).Milliseconds())
		}
		require.NoError(t, next.Unlock(ctx))
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestLockThatExpiredIsNotResurrected(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		ctx, name := t.Context(), cluster.LockName(t)
		const ttl = time.Second
		l := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(ttl))
		lock, err := l.TryLock(ctx, name, redlock.WithTTL(ttl), redlock.WithoutRenewal())
		require.NoError(t, err)
		expire(t, c, lock, ttl)
		for range 3 {
			require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrLost)
		}
		require.NoError(t, l.Ready(ctx)) // behind whatever Extend might have sent
		assert.Equal(t, make([]string, 5), c.Holders(t, name))
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		cluster.RequireClean(t, c.Masters...)
	})
}

// A lock that a majority has lost is lost, even if its validity has not ended. What Extend healed
// meanwhile is deleted again.
func TestLockWhoseKeyIsGoneFromAMajorityIsLost(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		ctx, name := t.Context(), cluster.LockName(t)
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
		for call, ask := range map[string]func(*redlock.Lock) error{
			"Verify": func(lock *redlock.Lock) error { return lock.Verify(ctx) },
			"Extend": func(lock *redlock.Lock) error { return lock.Extend(ctx, longTTL) },
			"Unlock": func(lock *redlock.Lock) error { return lock.Unlock(ctx) },
		} {
			lock, err := l.TryLock(ctx, name)
			require.NoError(t, err)
			require.NoError(t, lock.Verify(ctx))
			cluster.Eventually(t, slack, func() string { return missing(5, c.Holding(t, name, lock.Value())) })
			for _, m := range c.Masters[:2] {
				do(t, m, "DEL", name)
			}
			require.NoError(t, lock.Verify(ctx), "a minority")
			do(t, c.Masters[2], "DEL", name)
			require.ErrorIs(t, ask(lock), redlock.ErrLost, call)
			if call != "Unlock" {
				require.ErrorIs(t, lock.Err(), redlock.ErrLost, call)
				require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost, call)
			}
			cluster.RequireClean(t, c.Masters...)
		}
	})
}

func missing(want, got int) string {
	if got < want {
		return fmt.Sprintf("%d of %d nodes hold it", got, want)
	}
	return ""
}

func TestUnlockWithACancelledContextReleasesEverything(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
		ctx, cancel := context.WithCancel(t.Context())
		var locks []*redlock.Lock
		for i := range 20 {
			lock, err := l.TryLock(ctx, fmt.Sprint("name ", i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		cancel()
		for _, lock := range locks {
			require.NoError(t, lock.Unlock(ctx))
			assert.LessOrEqual(t, c.Holding(t, lock.Name(), lock.Value()), 2, "a quorum has confirmed it")
		}
		cluster.RequireClean(t, c.Masters...)
	})
}
