package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/queue"
)

// workers is a Run in the background.
type workers struct {
	t    *testing.T
	stop context.CancelFunc
	over chan error
	n    int
}

// running starts a Run.
func running(t *testing.T, q *queue.Queue, handler func(context.Context, queue.Task) error, opts ...queue.RunOption) *workers {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := &workers{t, cancel, make(chan error, 1), 1}
	go func() { w.over <- q.Run(ctx, handler, opts...) }()
	settle()
	return w
}

// end stops the Run, and expects nil.
func (w *workers) end() {
	w.t.Helper()
	w.stop()
	assert.NoError(w.t, <-w.over)
}

// record keeps the tasks that a handler received, and how late.
type record struct {
	mu    sync.Mutex
	tasks []queue.Task
	late  []time.Duration
}

func (r *record) add(w *world, task queue.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, task)
	r.late = append(r.late, time.Duration((w.now()-task.Score)*1e6)*time.Microsecond)
}

func (r *record) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return idsOf(r.tasks)
}

func TestRunHandlesEachTaskAtItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, enqueuer := w.queue(), w.queue()
		var r record
		run := running(t, q, func(ctx context.Context, task queue.Task) error {
			r.add(w, task)
			return ctx.Err()
		}, queue.WithPoll(time.Minute))
		var want []string
		for i := range 20 { // each task becomes the new head
			id := fmt.Sprint(i)
			require.NoError(t, enqueuer.Enqueue(ctx, []string{id}, time.Duration(100-i)*time.Second))
			want = append([]string{id}, want...)
		}
		require.NoError(t, enqueuer.Enqueue(ctx, []string{"now"}, 0))
		want = append([]string{"now"}, want...)
		time.Sleep(101 * time.Second)
		assert.Equal(t, want, r.ids())
		for i, late := range r.late {
			assert.Less(t, late, time.Millisecond, r.tasks[i].ID)
			assert.GreaterOrEqual(t, late, time.Duration(0), r.tasks[i].ID)
		}
		settle()
		assert.Empty(t, w.entries())
		run.end()
	})
}

func TestAFailedTaskIsDueAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		var at []float64
		run := running(t, q, func(context.Context, queue.Task) error {
			if at = append(at, w.now()); len(at) < 4 {
				return errors.New("not yet")
			}
			return nil
		}, queue.WithRetryDelay(7*time.Second), queue.WithConcurrency(1))
		began := w.now()
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		time.Sleep(time.Minute)
		settle() // what the handlers wrote is visible from here on
		require.Len(t, at, 4)
		for i, at := range at {
			assert.InDelta(t, began+7*float64(i), at, 0.01)
		}
		assert.Empty(t, w.entries())
		run.end()
	})
}

func TestHandlersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		var now, most, total atomic.Int64
		run := running(t, q, func(context.Context, queue.Task) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			total.Add(1)
			return nil
		}, queue.WithConcurrency(3))
		var ids []string
		for i := range 30 {
			ids = append(ids, fmt.Sprint(i))
		}
		require.NoError(t, q.Enqueue(ctx, ids, 0))
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, int64(3), now.Load())
		tasks, err := q.Top(ctx, 100)
		require.NoError(t, err)
		assert.Len(t, tasks, 27, "tasks that cannot begin are left to others")
		time.Sleep(10 * time.Second)
		assert.Equal(t, int64(3), most.Load())
		assert.Equal(t, int64(30), total.Load())
		assert.Empty(t, w.entries())
		run.end()
	})
}

func TestATaskWhoseHandlerTakesTooLongIsDueAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(), w.queue()
		var mu sync.Mutex
		var causes []error
		began := w.clock.Now()
		slow := running(t, q, func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, context.Cause(ctx))
			assert.Less(t, w.clock.Now().Sub(began), 10*time.Second)
			assert.Greater(t, w.clock.Now().Sub(began), 9*time.Second)
			time.Sleep(5 * time.Second) // ignores it
			return nil
		}, queue.WithLease(10*time.Second), queue.WithConcurrency(1))
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		settle()
		var r record
		quick := running(t, other, func(_ context.Context, task queue.Task) error {
			r.add(w, task)
			time.Sleep(10 * time.Second)
			return nil
		})
		time.Sleep(9 * time.Second)
		assert.Empty(t, r.ids())
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"a"}, r.ids())
		time.Sleep(6 * time.Second) // the first has returned, and no longer counts
		assert.Len(t, w.entries(), 1)
		time.Sleep(6 * time.Second)
		assert.Empty(t, w.entries())
		require.Len(t, causes, 1)
		require.ErrorIs(t, causes[0], context.DeadlineExceeded)
		assert.ErrorContains(t, causes[0], "lease")
		slow.end()
		quick.end()
	})
}

func TestATaskThatIsEnqueuedAgainWhileItRunsRunsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		opts []queue.Option
		runs int
	}{"the last one counts": {nil, 2}, "KeepFirst": {[]queue.Option{queue.KeepFirst()}, 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(test.opts...)
				var r record
				run := running(t, q, func(_ context.Context, task queue.Task) error {
					r.add(w, task)
					time.Sleep(time.Second)
					return nil
				})
				require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, q.Enqueue(ctx, []string{"a"}, 10*time.Second))
				time.Sleep(5 * time.Second)
				assert.Len(t, w.entries(), test.runs-1)
				time.Sleep(10 * time.Second)
				assert.Len(t, r.ids(), test.runs)
				assert.Empty(t, w.entries())
				run.end()
			})
		})
	}
}

func TestAnIdleRunQueriesTheStoreOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		q := w.queueOf(l)
		require.NoError(t, q.Enqueue(ctx, []string{"later"}, 2*time.Hour))
		run := running(t, q, func(context.Context, queue.Task) error { return nil })
		acquired, asked := l.Stats().Acquired, w.scripts()
		time.Sleep(time.Hour)
		assert.InDelta(t, 3600, w.scripts()-asked, 5)
		assert.Equal(t, acquired, l.Stats().Acquired)
		run.end()
	})
}

func TestRunFindsTasksWithoutMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.store.RefuseWith("NOPERM this user has no permissions", "SUBSCRIBE", "PUBLISH")
		q := w.queue()
		var r record
		run := running(t, q, func(_ context.Context, task queue.Task) error {
			r.add(w, task)
			return nil
		}, queue.WithPoll(100*time.Millisecond))
		time.Sleep(time.Second)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			require.NoError(t, q.Enqueue(ctx, []string{fmt.Sprint(i)}, time.Duration(i)*13*time.Millisecond))
		}
		time.Sleep(time.Second)
		assert.Len(t, r.ids(), 20)
		for _, late := range r.late {
			assert.LessOrEqual(t, late, 101*time.Millisecond)
		}
		run.end()
	})
}

func TestRunsShareAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		handled := map[string]int{}
		handler := func(_ context.Context, task queue.Task) error {
			time.Sleep(time.Duration(len(task.ID)) * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			handled[task.ID]++
			return nil
		}
		var runs []*workers
		for range 4 {
			runs = append(runs, running(t, w.queue(), handler, queue.WithConcurrency(4)))
		}
		q := w.queue()
		for i := range 200 {
			require.NoError(t, q.Enqueue(ctx, []string{fmt.Sprint(i), fmt.Sprint("x", i)}, time.Duration(i%7)*50*time.Millisecond))
		}
		time.Sleep(time.Minute)
		for _, run := range runs {
			run.end()
		}
		assert.Len(t, handled, 400)
		for id, n := range handled {
			assert.Equal(t, 1, n, id)
		}
		assert.Empty(t, w.entries())
	})
}

// scripts returns how many scripts of the queue the store has run. The one that a new connection
// tries has no keys.
func (w *world) scripts() (n int) {
	for _, c := range w.store.Commands() {
		if c.Args[0] == "EVALSHA" && c.Args[2] != "0" {
			n++
		}
	}
	return n
}
