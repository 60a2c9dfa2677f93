package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// waitedAt returns the one master at which somebody waits for a name.
func waitedAt(t *testing.T, c *cluster.Cluster, name string) (found cluster.Master) {
	t.Helper()
	await(t, "a node at which somebody waits", func() bool {
		for _, m := range c.Masters {
			n, err := redis.Int(m.Do("ZCARD", "redquorum:wait:"+name))
			require.NoError(t, err)
			if n == 1 {
				require.Nil(t, found, "waiters form up at one node")
				found = m
			}
		}
		return found != nil
	})
	return found
}

// A release wakes the waiter by a message of the master at which it waits. All clients find the
// same one, however they list the nodes. A client that subscribes to all channels (PSUBSCRIBE *)
// keeps no dead waiter alive: the lock is handed to none.
func TestWaitersAreWokenAndDeadOnesPassedOver(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	for _, m := range c.Masters {
		conn, err := redis.Dial("tcp", m.Addr())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Do("PSUBSCRIBE", "*")
		require.NoError(t, err)
	}
	reversed := c.URLs()
	slices.Reverse(reversed)
	for _, urls := range [][][]string{{c.URLs(), reversed}, {reversed, c.URLs()}} {
		holder := connected(t, urls[0])
		// The poll would come in half a minute, and the key of a dead waiter would block it then.
		waiter := connected(t, urls[1], redlock.WithRetry(aMinute, aMinute))
		name := cluster.LockName(t)
		lock := take(t, holder, name)
		got := waiting(t, waiter, name)
		waitedAt(t, c, name)
		for _, m := range c.Masters {
			for _, dead := range []string{"1", "2", "3"} {
				do(t, m, "ZADD", "redquorum:wait:"+name, dead, "DEAD"+dead+":value")
			}
		}
		give(t, lock)
		next := <-got
		require.NotNil(t, next)
		assert.Equal(t, uint64(1), waiter.Stats().Woken)
		assert.Zero(t, waiter.Stats().Polls)
		for _, m := range c.Masters {
			do(t, m, "DEL", "redquorum:wait:"+name)
		}
		give(t, next)
	}
	cluster.RequireClean(t, c.Masters...)
}

// The master at which a waiter waits stops or dies: it turns to another.
func TestWaitersDoNotDependOnAPilotThatIsStoppedOrKilled(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(cluster.Master) error{"stopped": cluster.Master.Stop, "killed": cluster.Master.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			holder, waiter := connected(t, c.URLs()), connected(t, c.URLs(), redlock.WithNodeTimeout(500*time.Millisecond))
			lock := take(t, holder, cluster.LockName(t))
			got := waiting(t, waiter, lock.Name())
			pilot := waitedAt(t, c, lock.Name())
			must(t, harm(pilot))
			give(t, lock)
			select {
			case next := <-got:
				give(t, next)
			case <-time.After(longTTL):
				t.Fatal("the waiter got nothing before a poll of half a minute")
			}
			if name == "stopped" {
				must(t, pilot.Continue())
				cluster.RequireClean(t, c.Masters...)
			}
		})
	}
}
