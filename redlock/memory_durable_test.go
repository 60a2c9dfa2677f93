package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// durable makes all servers durable, and their markers say so.
func (c *cluster) durable() *cluster {
	for i, server := range c.servers {
		server.SetConfig("appendonly", "yes")
		server.SetConfig("appendfsync", "always")
		marker, _, _ := server.Get(pipeline.MemoryKey)
		c.do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, " 0 ", " 1 ", 1))
	}
	return c
}

// A client that never met a durable master believes it if its marker cannot come from another
// master.
func TestADurableMasterThatRestartedVotesForClientsNewToIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		for _, server := range c.servers {
			server.Restart(true)
		}
		_, err := c.connecting(strict).TryLock(ctx, "a")
		require.NoError(t, err)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		c.servers[0].Kill()
		c.servers[1].Restart(true)
		_, err := c.connecting().TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined, "its marker may come from n0")
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		lock := c.lockWithout(0, c.locker(), redlock.WithTTL(time.Minute))
		c.servers[2].ReplicateFrom(c.servers[0])
		c.servers[2].Promote()
		c.servers[2].Restart(true) // which erases its second replication id
		b := c.connecting()
		c.refused(lock, b)
		require.NoError(t, lock.Err())
		time.Sleep(20 * time.Second)
		c.refused(lock, b)
	})
}

func TestADurableServerForgetsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown().durable()
		l := c.locker(redlock.WithQuarantine(redlock.QuarantineStrict))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		for _, server := range c.servers {
			server.Restart(true)
		}
		time.Sleep(time.Second)
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
	})
}
