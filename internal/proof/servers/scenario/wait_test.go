package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// longestPoll is the longest pause between two polls by default.
const longestPoll = time.Second

// handsOver asserts that a waiter gets the lock within limit of its release. The caller says what
// happens before the release.
func handsOver(t *testing.T, waiter *redlock.Locker, limit time.Duration, before func(name string), release func(name string)) {
	t.Helper()
	name := cluster.LockName(t)
	before(name)
	got := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := waiter.Lock(t.Context(), name)
		assert.NoError(t, err)
		got <- lock
	}()
	cluster.Eventually(t, slack, func() string {
		if waiter.Stats().Waiting == 0 {
			return "a waiter"
		}
		return ""
	})
	time.Sleep(50 * time.Millisecond) // it goes to its pilot
	release(name)
	released := time.Now()
	select {
	case lock := <-got:
		t.Logf("had %v after the release; %d polls", time.Since(released), waiter.Stats().Polls)
		require.NotNil(t, lock)
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	case <-time.After(limit + slack):
		t.Fatalf("the waiter has not got the lock within %v", limit)
	}
}

// A user without publish and subscribe, or without the wait lists, waits by polling.
func TestWaitingWorksWhereAnACLForbidsWakeUps(t *testing.T) {
	t.Parallel()
	all := "on >password ~* &* +@all"
	for name, rule := range map[string]string{
		"no channels": all + " resetchannels", "no subscribe": all + " -subscribe", "no publish": all + " -publish",
		"no lists": all + " -@sortedset", "no time": all + " -time", "documented": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 3)
			var urls []string
			for _, m := range c.Masters {
				args := []any{"SETUSER", "locks"}
				for word := range strings.FieldsSeq(rule) {
					args = append(args, word)
				}
				if rule == "" {
					args = append(documentedACL(t, "locks"), "on")
				}
				_, err := m.Do("ACL", args...)
				require.NoError(t, err)
				urls = append(urls, "redis://locks:password@"+m.Addr())
			}
			holder, waiter := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)), cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			var lock *redlock.Lock
			handsOver(t, waiter, longestPoll, func(name string) {
				var err error
				lock, err = holder.Lock(t.Context(), name)
				require.NoError(t, err)
			}, func(string) { require.NoError(t, lock.Unlock(t.Context())) })
		})
	}
}

// A holder of another library wakes nobody when it releases.
func TestALockOfAForeignHolderIsFoundByPolling(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	waiter := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	handsOver(t, waiter, longestPoll, func(name string) {
		for _, m := range c.Masters {
			_, err := m.Do("SET", name, "foreign", "NX", "PX", longTTL.Milliseconds())
			require.NoError(t, err)
		}
	}, func(name string) {
		for _, m := range c.Masters {
			_, err := m.Do("EVAL", `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`, 1, name, "foreign")
			require.NoError(t, err)
		}
	})
	time.Sleep(2 * time.Second) // the ticket of other libraries outlives the lock by that
	cluster.RequireClean(t, c.Masters...)
}

// The node whose list the waiters are on stops or dies: they turn to another.
func TestWaitersDoNotDependOnTheirPilot(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(cluster.Master) error{"stopped": cluster.Master.Stop, "killed": cluster.Master.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			holder := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			waiter := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL))
			var lock *redlock.Lock
			var pilot cluster.Master
			const nodeTimeout = 500 * time.Millisecond
			handsOver(t, waiter, longestPoll+nodeTimeout, func(name string) {
				var err error
				lock, err = holder.Lock(t.Context(), name)
				require.NoError(t, err)
			}, func(name string) {
				pilot = waitedAt(t, c, name)
				must(t, harm(pilot))
				require.NoError(t, lock.Unlock(t.Context()))
			})
			if name == "stopped" {
				must(t, pilot.Continue())
				cluster.RequireClean(t, c.Masters...)
			}
		})
	}
}

// waitedAt returns the one master that has a wait list for a name.
func waitedAt(t *testing.T, c *cluster.Cluster, name string) (found cluster.Master) {
	t.Helper()
	cluster.Eventually(t, slack, func() string {
		for _, m := range c.Masters {
			n, err := m.Do("ZCARD", "redquorum:wait:"+name)
			require.NoError(t, err)
			if n == int64(1) {
				require.Nil(t, found, "waiters form up at one node")
				found = m
			}
		}
		if found == nil {
			return "a node at which somebody waits"
		}
		return ""
	})
	return found
}

// All clients find the same pilot, however they list the nodes.
func TestClientsThatListTheNodesInAnotherOrderWakeEachOther(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	reversed := c.URLs()
	slices.Reverse(reversed)
	lockers := []*redlock.Locker{
		cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithRetry(20*time.Second, 20*time.Second)),
		cluster.NewConnected(t, reversed, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithRetry(20*time.Second, 20*time.Second)),
	}
	for i := range lockers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			holder, waiter := lockers[i], lockers[1-i]
			var lock *redlock.Lock
			handsOver(t, waiter, slack, func(name string) {
				var err error
				lock, err = holder.Lock(t.Context(), name)
				require.NoError(t, err)
			}, func(name string) {
				waitedAt(t, c, name)
				require.NoError(t, lock.Unlock(t.Context()))
			})
			assert.Zero(t, waiter.Stats().Polls)
			assert.Equal(t, uint64(1), waiter.Stats().Woken)
		})
	}
	cluster.RequireClean(t, c.Masters...)
}
