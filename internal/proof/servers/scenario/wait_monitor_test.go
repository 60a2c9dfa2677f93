package scenario_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A client that subscribes to all channels (PSUBSCRIBE *) keeps no dead waiter alive: no dead
// waiter is handed the lock.
func TestAMonitorKeepsNoDeadWaiterAlive(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	for _, m := range c.Masters {
		conn, err := redis.Dial("tcp", m.Addr())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Do("PSUBSCRIBE", "*")
		require.NoError(t, err)
	}
	holder := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	name := cluster.LockName(t)
	lock, err := holder.Lock(t.Context(), name)
	require.NoError(t, err)
	waiter := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithRetry(time.Minute, time.Minute))
	got := make(chan *redlock.Lock)
	go func() {
		lock, err := waiter.Lock(t.Context(), name)
		assert.NoError(t, err)
		got <- lock
	}()
	cluster.Eventually(t, slack, func() string {
		if c.Waiting(t, name) > 0 {
			return ""
		}
		return "the waiter has a place on a list"
	})
	for _, m := range c.Masters {
		for _, dead := range []string{"1", "2", "3"} {
			do(t, m, "ZADD", "redquorum:wait:"+name, dead, "DEAD"+dead+":value")
		}
	}
	require.NoError(t, lock.Unlock(t.Context()))
	// By the hand-over: its poll would come after half a minute, and the key of a dead waiter would
	// block it then.
	next := <-got
	require.NotNil(t, next)
	assert.Equal(t, uint64(1), waiter.Stats().Woken)
	assert.Zero(t, waiter.Stats().Polls)
	require.NoError(t, next.Unlock(t.Context()))
}
