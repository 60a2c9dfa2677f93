package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestInspectShowsALockAndForceUnlockFreesIt(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithKeyPrefix("p:"))
		status, err := l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.True(t, status.Free)
		lock, err := l.TryLock(ctx, "a", redlock.WithOwner("worker 7"))
		require.NoError(t, err)
		settle()
		c.servers[0].Stop()
		c.do(1, "SET", "p:a", "someone|else")
		status, err = l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, lock.Value(), status.Value)
		assert.Equal(t, "worker 7", status.Owner)
		assert.False(t, status.Free)
		assert.Equal(t, 3, status.Quorum)
		require.Len(t, status.Nodes, 5)
		require.Error(t, status.Nodes[0].Err)
		assert.Equal(t, "else", status.Nodes[1].Owner)
		assert.Negative(t, status.Nodes[1].TTL)
		assert.Equal(t, "redis://node2:6379", status.Nodes[2].Endpoint)
		assert.InDelta(t, 10, status.Nodes[2].TTL.Seconds(), 0.1)
		c.servers[0].Continue()

		require.NoError(t, l.ForceUnlock(ctx, "a"))
		settle()
		assert.Zero(t, c.keys())
		took := elapsed(func() { <-lock.Done() })
		assert.LessOrEqual(t, took, 4*time.Second)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		for _, server := range c.servers[:3] {
			server.Kill()
		}
		time.Sleep(time.Second)
		_, err = l.Inspect(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, l.ForceUnlock(ctx, "a"), redlock.ErrNoQuorum)
	})
}

func TestInspectShowsFencesAndWaiters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(redlock.WithFencing()), c.locker(redlock.WithFencing(), redlock.WithOwner("me|and:you"))
		lock, err := a.TryLock(ctx, "a")
		require.NoError(t, err)
		settle() // all nodes have it, not just a quorum
		next := acquiring(t, b, "a")
		time.Sleep(20 * time.Millisecond)
		status, err := a.Inspect(ctx, "a")
		require.NoError(t, err)
		waiting, waiters := 0, []string(nil)
		for _, node := range status.Nodes {
			assert.Equal(t, lock.Fence(), node.Fence)
			waiting += node.Waiting
			waiters = append(waiters, node.Waiters...)
		}
		assert.Equal(t, 1, waiting, "only at the pilot")
		assert.Equal(t, []string{"me|and:you"}, waiters)
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, (<-next).Unlock(ctx))
	})
}

// A lock that is held is not reported as free because one of its nodes forgot it.
func TestInspectDoesNotCountWhatAQuarantinedNodeSays(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.locker(redlock.WithTTL(30 * time.Second))
		c.servers[2].RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[2].RefuseWith("")
		c.servers[1].Kill()
		c.servers[1].Restart(false)
		time.Sleep(time.Second)
		require.NoError(t, lock.Err())
		for name, locker := range map[string]*redlock.Locker{"known before": l, "new to it": c.locker()} {
			status, err := locker.Inspect(ctx, "a")
			require.NoError(t, err, name)
			assert.False(t, status.Free, name)
			assert.Empty(t, status.Value, name)
			assert.Equal(t, lock.Value(), status.Nodes[0].Value)
		}
		require.NoError(t, lock.Err())
	})
}
