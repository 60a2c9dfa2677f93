package scenario_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// takeMany acquires locks on many names.
func takeMany(t *testing.T, l *redlock.Locker, n int) (locks []*redlock.Lock) {
	t.Helper()
	for i := range n {
		lock, err := l.TryLock(t.Context(), fmt.Sprint(cluster.LockName(t), i))
		require.NoError(t, err)
		locks = append(locks, lock)
	}
	return locks
}

// awaitKeys waits until every master has n keys: the last grants may still be on their way.
func awaitKeys(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	cluster.Eventually(t, 20*time.Second, func() string {
		for i, m := range c.Masters {
			if keys, err := m.Keys(); err != nil || len(keys) != n {
				return fmt.Sprintf("%d keys on node %d, there are %d (%v)", n, i, len(keys), err)
			}
		}
		return ""
	})
}

func TestHoldingThousandLocksEndsWithUnlockAllAndClose(t *testing.T) {
	t.Parallel()
	const many, roundTrip = 1000, 100 * time.Millisecond
	c := cluster.Start(t, 5)
	proxies, urls := c.BehindProxies(t)
	l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	for _, end := range []func() error{func() error { return l.UnlockAll(t.Context()) }, l.Close} {
		locks := takeMany(t, l, many)
		awaitKeys(t, c, many)
		assert.Equal(t, many, l.Stats().Held)
		for _, proxy := range proxies {
			proxy.Delay(0, roundTrip, 0)
		}
		began := time.Now()
		require.NoError(t, end())
		took := time.Since(began)
		for _, proxy := range proxies {
			proxy.Heal()
		}
		t.Logf("%d locks released in %v, with %v there and back", many, took, roundTrip)
		assert.Greater(t, took, roundTrip, "it waits for the answers")
		assert.Less(t, took, roundTrip+2*slack, "one pass: not a round trip per lock")
		cluster.RequireClean(t, c.Masters...)
		assert.Zero(t, l.Stats().Held)
		for _, lock := range locks {
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		}
	}
	require.ErrorIs(t, l.UnlockAll(t.Context()), redlock.ErrClosed)
}

func TestHoldingIsSeenByInspectAndEndedByForce(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // a busy machine may stop us for a while
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	watcher := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(patience))
	status, err := watcher.Inspect(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	assert.True(t, status.Free)
	assert.Empty(t, status.Value)

	lock, err := l.TryLock(t.Context(), cluster.LockName(t), redlock.WithOwner("host-7 pid|42"))
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
	do(t, c.Masters[0], "SET", cluster.LockName(t), "stranger")
	do(t, c.Masters[1], "DEL", cluster.LockName(t))
	status, err = watcher.Inspect(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	t.Logf("%+v", status)
	assert.Equal(t, cluster.LockName(t), status.Name)
	assert.Equal(t, lock.Value(), status.Value)
	assert.Equal(t, "host-7 pid|42", status.Owner)
	assert.Equal(t, 3, status.Quorum)
	assert.False(t, status.Free)
	require.Len(t, status.Nodes, 5)
	for i, node := range status.Nodes {
		assert.NoError(t, node.Err)
		assert.Equal(t, c.URLs()[i], node.Endpoint)
		switch i {
		case 0:
			assert.Equal(t, "stranger", node.Value)
			assert.Negative(t, node.TTL)
		case 1:
			assert.Empty(t, node.Value)
			assert.Zero(t, node.TTL)
		default:
			assert.Equal(t, lock.Value(), node.Value)
			assert.Equal(t, "host-7 pid|42", node.Owner)
			assert.Greater(t, node.TTL, ttl/2)
			assert.LessOrEqual(t, node.TTL, ttl)
		}
	}

	require.NoError(t, watcher.ForceUnlock(t.Context(), cluster.LockName(t)))
	status, err = watcher.Inspect(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	assert.True(t, status.Free)
	select {
	case <-lock.Done():
	case <-time.After(ttl/2 + slack):
		t.Fatal("the holder has not learned of it")
	}
	requireLostBecause(t, lock, "a quorum of nodes no longer has it")
	cluster.RequireClean(t, c.Masters...)
	next, err := watcher.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	require.NoError(t, next.Unlock(t.Context()))
}

// Inspect and ForceUnlock work while nodes are away, and say so.
func TestHoldingIsNotJudgedByAMinority(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	lock, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
	for i, m := range c.Masters[:3] {
		must(t, m.Kill())
		status, err := l.Inspect(t.Context(), cluster.LockName(t))
		if i < 2 {
			require.NoError(t, err)
			assert.Equal(t, lock.Value(), status.Value)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Empty(t, status.Value)
		}
		assert.False(t, status.Free)
		require.Error(t, status.Nodes[i].Err)
		assert.Equal(t, lock.Value(), status.Nodes[4].Value)
	}
	err = l.ForceUnlock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	requireNodesSay(t, err, c.URLs()[:3], "refused|EOF|reset")
	cluster.RequireClean(t, c.Masters[3:]...)
}
