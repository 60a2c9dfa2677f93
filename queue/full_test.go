package queue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// A queue may be what has filled the store. It takes no task then, and gives those that it has.
func TestAQueueIsEmptiedThoughItsStoreIsFull(t *testing.T) {
	servers := redistest.Start(t, 2)
	l, err := redlock.New([]string{servers[0].URL()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	store := servers[1]
	q, err := queue.New(l, store.URL(), "q")
	require.NoError(t, err)
	defer func() { assert.NoError(t, q.Close()) }()
	require.NoError(t, q.Enqueue(ctx, []string{"a", "b", "c"}, 0))
	_, err = store.Do("CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, err)
	require.ErrorContains(t, q.Enqueue(ctx, []string{"d"}, 0), "OOM")
	tasks, err := q.Pop(ctx, 2)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, idsOf(tasks))
	n, err := q.Remove(ctx, "c")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	left, err := q.Len(ctx)
	require.NoError(t, err)
	assert.Zero(t, left)
}
