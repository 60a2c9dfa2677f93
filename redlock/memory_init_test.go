package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestInitMakesNewMastersVoteAtOnce(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[2].Kill()
		operator := c.connecting(strict)
		err := operator.Init(ctx, false)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "2 granted, 0 refused, 3 needed; redis://node2:6379: ")
		l := c.connecting(strict)
		_, err = l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[2].Restart(false)
		time.Sleep(time.Second)
		err = operator.Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined, "the others vote, so it may have forgotten what they granted together")
		require.ErrorContains(t, err, "it restarted without its keys, or is a new server")
		require.NoError(t, operator.Init(ctx, true))
		require.NoError(t, operator.Init(ctx, true), "a second time")
		time.Sleep(time.Second)

		c.servers[1].FlushAll()
		require.NoError(t, l.Ready(ctx))
		time.Sleep(time.Second)
		err = operator.Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorContains(t, err, "redis://node1:6379: quarantined for another")
		require.NoError(t, operator.Init(ctx, true))
		var none context.Context
		require.ErrorIs(t, operator.Init(none, true), redlock.ErrInvalid)
		require.NoError(t, operator.Close())
		require.ErrorIs(t, operator.Init(ctx, false), redlock.ErrClosed)
	})
}

func TestInitDoesNotSpinWhenANodeIsDown(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(strict)
		time.Sleep(time.Second)
		c.servers[2].Kill()
		settle()
		took := elapsed(func() { require.ErrorIs(t, l.Init(ctx, false), redlock.ErrNoQuorum) })
		assert.LessOrEqual(t, took, 3*time.Second)
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
	})
}
