package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestLockWaitsForTheHolder(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		first, err := l.Lock(ctx, "a")
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() { assert.NoError(t, first.Unlock(ctx)) })
		var second *redlock.Lock
		took := elapsed(func() { second, err = l.Lock(ctx, "a", redlock.WithRetry(5*time.Millisecond, 40*time.Millisecond)) })
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 3*time.Second)
		assert.LessOrEqual(t, took, 3*time.Second+40*time.Millisecond)
		require.NoError(t, second.Unlock(ctx))
		attempts := 0
		for _, command := range c.servers[0].Commands() {
			if command.Args[0] == "SET" {
				attempts++
			}
		}
		assert.Less(t, attempts, 160, "at most one poll every 20 ms after the backoff")
	})
}

func TestLockWaitsForAQuorum(t *testing.T) {
	inYoungBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, server := range c.servers[:3] {
			server.Kill()
		}
		l := c.locker()
		time.AfterFunc(10*time.Second, func() {
			for _, server := range c.servers[:3] {
				server.Restart(false)
			}
		})
		var err error
		took := elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.LessOrEqual(t, took, 11*time.Second)
	})
}

func TestReadyWaitsForAQuorum(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[0].Kill()
		c.servers[1].RefuseWith("NOAUTH Authentication required.")
		l := c.locker()
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := l.Ready(bounded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "redlock: no quorum: ready: 1 of 3 masters vote, 2 needed: ")
		assert.ErrorContains(t, err, "redis://node0:6379: ")
		assert.ErrorContains(t, err, "redis://node1:6379: pool: access denied: CLIENT: NOAUTH Authentication required.")
		time.AfterFunc(time.Second, func() { c.servers[1].RefuseWith("") })
		took := elapsed(func() { require.NoError(t, l.Ready(ctx)) })
		assert.GreaterOrEqual(t, took, time.Second)
		assert.LessOrEqual(t, took, 2*time.Second)
		stats := l.Stats()
		assert.Len(t, stats.Nodes, 3)
		assert.Error(t, stats.Nodes[0].Err)
		assert.NoError(t, stats.Nodes[2].Err)
	})
}
