package redquorum_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// documentedACL returns the rule of docs/operations.md, as the arguments of ACL SETUSER.
func documentedACL(t *testing.T) (args []any) {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	return args
}

// A user with the documented rule can do everything, and is told who the servers are.
func TestDocumentedACLIsEnough(t *testing.T) {
	t.Parallel()
	c := startReal(t, 3)
	var urls []string
	for _, m := range c.masters {
		_, err := m.Do("ACL", append(documentedACL(t), "on")...)
		require.NoError(t, err)
		urls = append(urls, "redis://locks:password@"+m.Addr())
	}
	l := newConnected(t, urls, redlock.WithTTL(longTTL))
	for _, node := range l.Stats().Nodes {
		assert.False(t, node.Unidentified, "%+v", node)
	}
	ctx := t.Context()
	name := lockName(t)
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
	for _, m := range c.masters { // a connection that broke is killed at the server, and nothing of it is forbidden
		_, err := m.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.NoError(t, err)
	}
	again, err := l.Lock(ctx, name, redlock.WithFencing())
	require.NoError(t, err)
	waiter := newConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithFencing())
	handed := make(chan *redlock.Lock)
	go func() {
		lock, err := waiter.Lock(ctx, name)
		assert.NoError(t, err)
		handed <- lock
	}()
	for waiter.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // its place on the list
	require.NoError(t, again.Unlock(ctx))
	next := <-handed
	require.NotNil(t, next)
	assert.Greater(t, next.Fence(), again.Fence())
	require.NoError(t, next.Unlock(ctx))
	assert.Equal(t, uint64(1), waiter.Stats().Woken)
	for _, m := range c.masters {
		log, err := m.Do("ACL", "LOG")
		require.NoError(t, err)
		assert.Empty(t, log, "nothing was denied")
		deleted, err := m.Do("DEL", "redquorum:fence:"+name) // it outlives the lock
		require.NoError(t, err)
		assert.EqualValues(t, 1, deleted)
	}
	requireClean(t, c.masters...)
}
