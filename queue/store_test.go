package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const fenceKey = "redquorum:queue:fence:q"

// operations are all changes of a queue with the due tasks a, b and c, with what they return and
// leave.
var operations = map[string]struct {
	call func(q *queue.Queue, seen []queue.Task) (any, error)
	want any
	left []string
}{
	"Enqueue": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		return nil, q.Enqueue(ctx, []string{"a", "d"}, time.Hour)
	}, nil, []string{"a", "b", "c", "d"}},
	"Dequeue": {func(q *queue.Queue, seen []queue.Task) (any, error) {
		return q.Dequeue(ctx, "b", seen[1].Score)
	}, true, []string{"a", "c"}},
	"Remove": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		return q.Remove(ctx, "a", "b", "x")
	}, 2, []string{"c"}},
	"Pop": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		tasks, err := q.Pop(ctx, 2)
		return strings.Join(idsOf(tasks), ","), err
	}, "a,b", []string{"c"}},
}

// filled fills the queue, and returns its tasks.
func filled(t *testing.T, q *queue.Queue) []queue.Task {
	t.Helper()
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, q.Enqueue(ctx, []string{id}, 0))
		time.Sleep(time.Millisecond)
	}
	tasks, err := q.Top(ctx, 10)
	require.NoError(t, err)
	return tasks
}

func TestAStoreThatIsAwayFailsCallsInTime(t *testing.T) {
	for fault, harm := range map[string]func(store *fake.Node){
		"killed":  (*fake.Node).Kill,
		"stopped": (*fake.Node).Stop,
		"mute":    func(store *fake.Node) { store.Mute(true) },
	} {
		for name, operation := range operations {
			t.Run(fault+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(queue.WithTimeout(300 * time.Millisecond))
					seen := filled(t, q)
					harm(w.store)
					began := w.clock.Now()
					_, err := operation.call(q, seen)
					var call *pool.CallError
					require.ErrorAs(t, err, &call)
					assert.ErrorContains(t, err, "store:6379")
					assert.InDelta(t, 300*time.Millisecond, w.clock.Now().Sub(began), float64(60*time.Millisecond))
					_, err = q.Top(ctx, 1)
					require.ErrorAs(t, err, &call)
					_, err = q.Len(ctx)
					require.ErrorAs(t, err, &call)
				})
			})
		}
	}
}

func TestErrorsOfTheStoreAreShownAndNotRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.do("SET", "Queue:q", "the lock of somebody")
		began := w.clock.Now()
		err := q.Enqueue(ctx, []string{"a"}, 0)
		assert.ErrorContains(t, err, "WRONGTYPE")
		var call *pool.CallError
		require.ErrorAs(t, err, &call)
		assert.Equal(t, pool.Refused, call.Fate)
		assert.Less(t, w.clock.Now().Sub(began), time.Millisecond)
		_, err = q.Len(ctx)
		assert.ErrorContains(t, err, "WRONGTYPE")
	})
}

func TestAnEndedContextIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(), w.queue()
		filled(t, q)
		settle()
		before := w.content()
		w.store.Stop()
		short, cancel := context.WithTimeoutCause(ctx, 100*time.Millisecond, errors.New("enough"))
		defer cancel()
		began := w.clock.Now()
		err := q.Enqueue(short, []string{"x"}, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "enough")
		assert.ErrorContains(t, err, "may have been executed")
		assert.Equal(t, 100*time.Millisecond, w.clock.Now().Sub(began))
		require.ErrorIs(t, q.Enqueue(short, []string{"y"}, 0), context.DeadlineExceeded)
		_, err = q.Top(short, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		// A change that was given up is refused if it arrives behind one of a later holder;
		// otherwise it was made before that one.
		w.store.Continue()
		settle()
		require.NoError(t, other.Enqueue(ctx, []string{"z"}, 0))
		_, err = other.Remove(ctx, "x", "z")
		require.NoError(t, err)
		settle()
		assert.Equal(t, []string{"a", "b", "c"}, w.ids())
		assert.NotEqual(t, before, w.content(), "the fences have changed")
	})
}

func TestTheLockIsWaitedForUntilTheContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, l := w.queue(), w.locker()
		lock, err := l.Lock(ctx, "Queue:q")
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = q.Enqueue(short, []string{"a"}, 0)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, w.content())
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
	})
}

func TestAClosedQueueReturnsErrClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		q := w.queueOf(l)
		filled(t, q)
		tasks, err := q.Pop(ctx, 3)
		require.NoError(t, err)
		require.Len(t, tasks, 3)
		require.NoError(t, q.Close())
		holding := 0
		for _, master := range w.masters {
			if _, _, held := master.Get("Queue:q"); held {
				holding++
			}
		}
		assert.LessOrEqual(t, holding, 1, "Close waits for the release, which a quorum has confirmed")
		require.NoError(t, q.Close())
		require.ErrorIs(t, q.Enqueue(ctx, []string{"a"}, 0), pool.ErrClosed)
		_, err = q.Top(ctx, 1)
		require.ErrorIs(t, err, pool.ErrClosed)
		lock, err := l.TryLock(ctx, "Queue:q")
		require.NoError(t, err, "the Locker stays open, and nothing holds the lock")
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestManyCallersOfOneQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		queues := []*queue.Queue{w.queue(), w.queue(), w.queue()}
		const tasks = 300
		var mu sync.Mutex
		popped := map[string]int{}
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				for j := range tasks / 30 {
					assert.NoError(t, queues[i%3].Enqueue(ctx, []string{fmt.Sprint(i, ".", j)}, 0))
				}
			})
			all.Go(func() {
				for {
					got, err := queues[i%3].Pop(ctx, 1+i%5)
					assert.NoError(t, err)
					mu.Lock()
					for _, id := range idsOf(got) {
						popped[id]++
					}
					over := len(popped) == tasks
					mu.Unlock()
					if over {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		for id, n := range popped {
			assert.Equal(t, 1, n, id)
		}
		assert.Empty(t, w.entries())
	})
}
