package scenario_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// documentedACL returns the rule for a user in docs/operations.md, as the arguments of ACL.
func documentedACL(t *testing.T, user string) (args []any) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER "+user+" ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	args = append(args, "SETUSER", user)
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	return args
}

// A user with the documented rule can do everything, and learns who the servers are.
func TestDocumentedACLIsEnough(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	var urls []string
	for _, m := range c.Masters {
		_, err := m.Do("ACL", append(documentedACL(t, "locks"), "on")...)
		require.NoError(t, err)
		urls = append(urls, "redis://locks:password@"+m.Addr())
	}
	l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	for _, node := range l.Stats().Nodes {
		assert.False(t, node.Unidentified, "%+v", node)
	}
	ctx := t.Context()
	name := cluster.LockName(t)
	require.NoError(t, l.Do(ctx, name, func(ctx context.Context, lock *redlock.Lock) error {
		require.NoError(t, lock.Extend(ctx, longTTL))
		require.NoError(t, lock.Verify(ctx))
		status, err := l.Inspect(ctx, name)
		require.NoError(t, err)
		assert.Equal(t, lock.Value(), status.Value)
		return nil
	}))
	set, err := l.LockAll(ctx, []string{name, name + "2"})
	require.NoError(t, err)
	require.NoError(t, set.Unlock(ctx))
	lock, err := l.TryLock(ctx, name)
	require.NoError(t, err)
	adopted, err := l.Adopt(ctx, name, lock.Value())
	require.NoError(t, err)
	require.NoError(t, adopted.Unlock(ctx))
	require.NoError(t, l.ForceUnlock(ctx, name))
	for _, m := range c.Masters { // a broken connection is killed at the server, without a NOPERM
		_, err := m.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.NoError(t, err)
	}
	again, err := l.Lock(ctx, name, redlock.WithFencing())
	require.NoError(t, err)
	waiter := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithFencing(),
		redlock.WithRetry(4*slack, 4*slack)) // a poll may come before the message
	handed := make(chan *redlock.Lock)
	go func() {
		lock, err := waiter.Lock(ctx, name)
		assert.NoError(t, err)
		handed <- lock
	}()
	cluster.Eventually(t, slack, func() string {
		for _, m := range c.Masters {
			waiting, err := redis.Int(m.Do("ZCARD", "redquorum:wait:"+name))
			require.NoError(t, err)
			listening, err := redis.Strings(m.Do("PUBSUB", "CHANNELS", "redquorum:wake:*"))
			require.NoError(t, err)
			if waiting > 0 && len(listening) > 0 {
				return ""
			}
		}
		return "the waiter has a place on a list, and listens there"
	})
	require.NoError(t, again.Unlock(ctx))
	next := <-handed
	require.NotNil(t, next)
	assert.Greater(t, next.Fence(), again.Fence())
	require.NoError(t, next.Unlock(ctx))
	assert.Equal(t, uint64(1), waiter.Stats().Woken)
	for _, m := range c.Masters {
		log, err := m.Do("ACL", "LOG")
		require.NoError(t, err)
		assert.Empty(t, log, "nothing was denied")
		deleted, err := m.Do("DEL", "redquorum:fence:"+name) // it outlives the lock
		require.NoError(t, err)
		assert.EqualValues(t, 1, deleted)
	}
	cluster.RequireClean(t, c.Masters...)
}

func TestDocumentedACLOfTheStoreIsEnough(t *testing.T) {
	t.Parallel()
	c, store := cluster.Start(t, 3), redistest.StartOne(t)
	_, err := store.Do("ACL", append(documentedACL(t, "queue"), "on")...)
	require.NoError(t, err)
	q, err := queue.New(cluster.NewConnected(t, c.URLs()), "redis://queue:password@"+store.Addr(), "mail",
		queue.WithTimeout(4*slack))
	require.NoError(t, err)
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, q.Enqueue(ctx, []string{"a", "b", "c"}, 0))
	top, err := q.Top(ctx, 3)
	require.NoError(t, err)
	require.Len(t, top, 3)
	gone, err := q.Dequeue(ctx, "a", top[0].Score)
	require.NoError(t, err)
	assert.True(t, gone)
	popped, err := q.Pop(ctx, 1)
	require.NoError(t, err)
	assert.Len(t, popped, 1)
	removed, err := q.Remove(ctx, "c", "d")
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- q.Run(running, func(context.Context, queue.Task) error {
			stop()
			return nil
		})
	}()
	require.NoError(t, q.Enqueue(ctx, []string{"e"}, 50*time.Millisecond))
	require.NoError(t, <-done)
	n, err := q.Len(ctx)
	require.NoError(t, err)
	assert.Zero(t, n)
	log, err := store.Do("ACL", "LOG")
	require.NoError(t, err)
	assert.Empty(t, log, "nothing was denied")
}

// A user may use some keys only. Releases that are sent together with those of other keys reach
// their keys nevertheless.
func TestReleasesBesideForbiddenKeysArrive(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	name := cluster.LockName(t)
	var urls []string
	for _, m := range c.Masters {
		args := append(documentedACL(t, "locks"), "resetkeys", "~"+name+":ours*", "~redquorum:*")
		_, err := m.Do("ACL", args...)
		require.NoError(t, err)
		urls = append(urls, "redis://locks:password@"+m.Addr())
	}
	l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), trusting)
	for round := range 20 {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				if i%4 == 0 {
					_, err := l.TryLock(t.Context(), fmt.Sprintf("%s:theirs%d-%d", name, round, i))
					assert.ErrorContains(t, err, "NOPERM")
					return
				}
				lock, err := l.TryLock(t.Context(), fmt.Sprintf("%s:ours%d-%d", name, round, i))
				if assert.NoError(t, err) {
					assert.NoError(t, lock.Unlock(t.Context()))
				}
			})
		}
		all.Wait()
	}
	cluster.Eventually(t, cluster.CleanWithin, func() (left string) {
		for _, m := range c.Masters {
			keys, err := redis.Strings(m.Do("KEYS", name+"*"))
			require.NoError(t, err)
			left += strings.Join(keys, " ")
		}
		return left
	})
}
