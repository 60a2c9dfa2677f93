package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/queue"
)

// entries returns what is in a queue of a store, by id.
func entries(t *testing.T, store *redistest.Server, name string) map[string]float64 {
	t.Helper()
	entries, err := redis.Float64Map(store.Do("ZRANGE", "Queue:"+name, 0, -1, "WITHSCORES"))
	require.NoError(t, err)
	return entries
}

func taskIDs(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// Everything that a queue does works for a user with the documented rule, and at the time of a real
// store.
func TestQueueOnRealServersNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	c, store := cluster.Start(t, 3), redistest.StartOne(t)
	url := aclUser(t, &cluster.Cluster{Masters: []cluster.Master{store}}, "queue", "queue", "on")[0]
	ctx, name := t.Context(), "mail" // which the rule allows
	open := func(opts ...queue.Option) *queue.Queue {
		q, err := queue.New(cluster.NewConnected(t, c.URLs()), url, name, append(opts, queue.WithTimeout(aMinute))...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, q.Close()) })
		return q
	}
	q, first := open(), open(queue.KeepFirst())

	before := time.Now()
	require.NoError(t, q.Enqueue(ctx, []string{"a", "b", "a"}, time.Minute))
	after := time.Now()
	require.Len(t, entries(t, store, name), 2)
	due := entries(t, store, name)["a"]
	assert.GreaterOrEqual(t, due, float64(before.Add(time.Minute).UnixMicro()-1)/1e6)
	assert.LessOrEqual(t, due, float64(after.Add(time.Minute).UnixMicro()+1)/1e6)
	text, err := redis.String(store.Do("ZSCORE", "Queue:"+name, "a"))
	require.NoError(t, err)
	assert.Contains(t, fmt.Sprintf("%.6f", due), text[:len("1700000000.12")], "seconds with a fraction")

	require.NoError(t, first.Enqueue(ctx, []string{"a", "c"}, 0))
	assert.Equal(t, due, entries(t, store, name)["a"])
	require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
	assert.Less(t, entries(t, store, name)["a"], due)
	removed, err := q.Dequeue(ctx, "a", due)
	require.NoError(t, err)
	assert.False(t, removed, "an old score")

	top, err := q.Top(ctx, 10)
	require.NoError(t, err)
	popped, err := q.Pop(ctx, 10)
	require.NoError(t, err)
	assert.Equal(t, top, popped)
	assert.Equal(t, []string{"c", "a"}, taskIDs(popped))
	n, err := q.Remove(ctx, "b", "c")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	runsOnce(t, q)
	diesAndComesBack(t, q)
	n, err = q.Len(ctx)
	require.NoError(t, err)
	assert.Zero(t, n)
	requireNothingDenied(t, store, "")

	require.NoError(t, q.Enqueue(ctx, []string{"d"}, 0))
	do(t, store, "SET", "redquorum:queue:fence:"+name, time.Now().Add(15*time.Second).UnixMicro())
	_, err = q.Pop(ctx, 1)
	require.ErrorIs(t, err, fence.ErrStale, "another holder has come since")
	assert.Len(t, entries(t, store, name), 1)
}

// diesAndComesBack runs a task with a payload until it is dead, and retries, drops and removes it.
func diesAndComesBack(t *testing.T, q *queue.Queue) {
	t.Helper()
	ctx := t.Context()
	die := func() {
		running, stop := context.WithCancel(ctx)
		defer stop()
		done := make(chan error, 1)
		go func() {
			done <- q.Run(running, func(_ context.Context, task queue.Task) error {
				assert.Equal(t, "what to do", string(task.Payload))
				return errors.New("no")
			}, queue.WithMaxAttempts(2), queue.WithRetryDelay(0), queue.WithFailed(func(err *queue.TaskError) {
				if err.Dead {
					stop()
				}
			}))
		}()
		require.NoError(t, <-done)
		counts, err := q.Count(ctx)
		require.NoError(t, err)
		assert.Equal(t, queue.Counts{Dead: 1}, counts)
	}
	require.NoError(t, q.Add(ctx, []queue.Item{{ID: "f", Payload: []byte("what to do")}}, 0))
	die()
	letters, err := q.Dead(ctx, 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	assert.Len(t, letters[0].Errors, 2)
	n, err := q.Retry(ctx, "f")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	die()
	n, err = q.Drop(ctx, "f")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// runsOnce runs a task that is due soon, by the clock of the store, and never before that.
func runsOnce(t *testing.T, q *queue.Queue) {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Run(running, func(_ context.Context, task queue.Task) error {
			assert.GreaterOrEqual(t, float64(time.Now().UnixMicro())/1e6, task.Score, "too early")
			stop()
			return nil
		})
	}()
	require.NoError(t, q.Enqueue(t.Context(), []string{"e"}, 50*time.Millisecond))
	require.NoError(t, <-done)
}
