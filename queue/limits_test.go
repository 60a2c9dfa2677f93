package queue_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

func TestLongIdsComeInSeveralReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		var ids []string
		for i := range 2000 {
			ids = append(ids, fmt.Sprintf("%01024d", i)) // 2 MB, more than a reply may have
		}
		require.NoError(t, q.Enqueue(ctx, ids, 0))
		var popped []string
		for len(popped) < len(ids) {
			tasks, err := q.Pop(ctx, 2000)
			require.NoError(t, err)
			require.Equal(t, min(800, len(ids)-len(popped)), len(tasks))
			popped = append(popped, idsOf(tasks)...)
		}
		assert.Equal(t, ids, popped)
		short := make([]string, 10000)
		for i := range short {
			short[i] = fmt.Sprintf("%0400d", i)
		}
		require.NoError(t, q.Enqueue(ctx, short, 0))
		tasks, err := q.Pop(ctx, 2000)
		require.NoError(t, err)
		assert.Equal(t, short[:2000], idsOf(tasks))
	})
}

func TestIDsAreBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		id := "\x00\r\n$3\xff '\"[[ü"
		require.NoError(t, q.Enqueue(ctx, []string{id}, 0))
		tasks, err := q.Pop(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, []string{id}, idsOf(tasks))
	})
}

// noContext is a nil context; it is a variable because linters reject a literal one.
var noContext context.Context

// badChanges are changes with bad arguments.
func badChanges(q *queue.Queue) map[string]func() error {
	long, many := strings.Repeat("x", 1025), make([]string, 10001)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	enqueue := func(ids ...string) func() error {
		return func() error { return q.Enqueue(ctx, ids, time.Second) }
	}
	dequeue := func(id string, score float64) func() error {
		return func() error { _, err := q.Dequeue(ctx, id, score); return err }
	}
	remove := func(ids ...string) func() error {
		return func() error { _, err := q.Remove(ctx, ids...); return err }
	}
	return map[string]func() error{
		"Enqueue, no ids":         enqueue(),
		"Enqueue, empty id":       enqueue("a", ""),
		"Enqueue, long id":        enqueue("a", long),
		"Enqueue, many ids":       enqueue(many...),
		"Enqueue, negative delay": func() error { return q.Enqueue(ctx, []string{"a"}, -1) },
		"Enqueue, long delay":     func() error { return q.Enqueue(ctx, []string{"a"}, math.MaxInt64) },
		"Enqueue, nil ctx":        func() error { return q.Enqueue(noContext, []string{"a"}, 0) },
		"Dequeue, empty id":       dequeue("", 1),
		"Dequeue, long id":        dequeue(long, 1),
		"Dequeue, NaN":            dequeue("a", math.NaN()),
		"Dequeue, infinite":       dequeue("a", math.Inf(1)),
		"Dequeue, -infinite":      dequeue("a", math.Inf(-1)),
		"Dequeue, nil ctx":        func() error { _, err := q.Dequeue(noContext, "a", 1); return err },
		"Remove, no ids":          remove(),
		"Remove, empty id":        remove("a", ""),
		"Remove, long id":         remove("a", long),
		"Remove, many ids":        remove(many...),
		"Remove, nil ctx":         func() error { _, err := q.Remove(noContext, "a"); return err },
	}
}

// badReads are calls of Pop, Top and Len with bad arguments.
func badReads(q *queue.Queue) map[string]func() error {
	pop := func(ctx context.Context, n int) func() error {
		return func() error { _, err := q.Pop(ctx, n); return err }
	}
	top := func(ctx context.Context, n int) func() error {
		return func() error { _, err := q.Top(ctx, n); return err }
	}
	return map[string]func() error{
		"Pop, 0":            pop(ctx, 0),
		"Pop, negative":     pop(ctx, -1),
		"Pop, too many":     pop(ctx, 2001),
		"Pop, far too many": pop(ctx, math.MaxInt),
		"Pop, nil ctx":      pop(noContext, 1),
		"Top, 0":            top(ctx, 0),
		"Top, negative":     top(ctx, math.MinInt),
		"Top, too many":     top(ctx, 2001),
		"Top, nil ctx":      top(noContext, 1),
		"Len, nil ctx":      func() error { _, err := q.Len(noContext); return err },
	}
}

// badRuns are calls of Run with bad arguments.
func badRuns(q *queue.Queue) map[string]func() error {
	handler := func(context.Context, queue.Task) error { return nil }
	run := func(opts ...queue.RunOption) func() error {
		return func() error { return q.Run(ctx, handler, opts...) }
	}
	return map[string]func() error{
		"Run, nil ctx":          func() error { return q.Run(noContext, handler) },
		"Run, nil handler":      func() error { return q.Run(ctx, nil) },
		"Run, nil option":       run(nil),
		"Run, concurrency 0":    run(queue.WithConcurrency(0)),
		"Run, concurrency":      run(queue.WithConcurrency(1001)),
		"Run, lease 0":          run(queue.WithLease(0)),
		"Run, lease":            run(queue.WithLease(math.MaxInt64)),
		"Run, retry delay":      run(queue.WithRetryDelay(-1)),
		"Run, long retry delay": run(queue.WithRetryDelay(math.MaxInt64)),
		"Run, poll 0":           run(queue.WithPoll(0)),
		"Run, poll":             run(queue.WithPoll(time.Hour)),
		"Run, report":           run(queue.WithReport(nil)),
	}
}

func TestBadArgumentsAreInvalidAndChangeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b"}, 0))
		require.NoError(t, q.Enqueue(ctx, []string{"later"}, time.Hour))
		settle()
		before, asked := w.content(), len(w.store.Commands())
		for _, calls := range []map[string]func() error{badChanges(q), badReads(q), badRuns(q)} {
			for name, call := range calls {
				require.ErrorIs(t, call(), queue.ErrInvalid, name)
			}
		}
		settle()
		assert.Equal(t, before, w.content())
		assert.Equal(t, asked+1, len(w.store.Commands()), "nothing was sent, except by content")
	})
}

func TestBadArgumentsOfNewAreInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		for name, make := range map[string]func() (*queue.Queue, error){
			"nil locker":  func() (*queue.Queue, error) { return queue.New(nil, "store:6379", "q") },
			"empty name":  func() (*queue.Queue, error) { return queue.New(l, "store:6379", "") },
			"long name":   func() (*queue.Queue, error) { return queue.New(l, "store:6379", strings.Repeat("x", 2049)) },
			"endpoint":    func() (*queue.Queue, error) { return queue.New(l, "http://:hunter2@store", "q") },
			"no endpoint": func() (*queue.Queue, error) { return queue.New(l, "", "q") },
			"nil option":  func() (*queue.Queue, error) { return queue.New(l, "store:6379", "q", nil) },
			"timeout":     func() (*queue.Queue, error) { return queue.New(l, "store:6379", "q", queue.WithTimeout(0)) },
			"pool option": func() (*queue.Queue, error) {
				return queue.New(l, "store:6379", "q", queue.WithPool(pool.WithDialTimeout(-1)))
			},
		} {
			q, err := make()
			require.ErrorIs(t, err, queue.ErrInvalid, name)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.Nil(t, q, name)
		}
	})
}

func TestLimitsThemselvesAreGood(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker(redlock.WithKeyPrefix(strings.Repeat("p", 1024)))
		q, err := queue.New(l, "store:6379", strings.Repeat("n", 2048), queue.WithPool(pool.WithClock(w.clock), w.dialer()))
		require.NoError(t, err)
		defer q.Close()
		ids := make([]string, 10000)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		require.NoError(t, q.Enqueue(ctx, ids, 0))
		tasks, err := q.Pop(ctx, 2000)
		require.NoError(t, err)
		assert.Len(t, tasks, 2000)
		n, err := q.Remove(ctx, ids...)
		require.NoError(t, err)
		assert.Equal(t, 8000, n)
	})
}

func TestALockerThatCannotLockTheQueueIsInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		// The prefix is reserved for keys beside the locks.
		q := w.queueOf(w.locker(redlock.WithKeyPrefix("redquorum:")))
		err := q.Enqueue(ctx, []string{"a"}, 0)
		require.ErrorIs(t, err, queue.ErrInvalid)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		assert.Empty(t, w.content())

		require.NoError(t, w.queue().Enqueue(ctx, []string{"a"}, 0))
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err = q.Run(limited, func(context.Context, queue.Task) error { return nil })
		require.ErrorIs(t, err, queue.ErrInvalid, "it would never get better")
		require.NoError(t, limited.Err())
		assert.Equal(t, []string{"a"}, w.ids())
	})
}
