package queue_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

func TestRunEndsWhenItsHandlersHaveReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		finished := 0
		run := running(t, q, func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			finished++
			return nil
		}, queue.WithConcurrency(1))
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b"}, 0))
		settle()
		began := w.clock.Now()
		run.end()
		assert.Equal(t, 3*time.Second, w.clock.Now().Sub(began).Truncate(time.Second))
		assert.Equal(t, 1, finished)
		assert.Equal(t, []string{"b"}, w.ids(), "what it has done is removed, what it has not begun is not")
	})
}

func TestATaskThatWasLeasedAsTheContextEndedGoesBackToItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b"}, 0))
		before := w.entries()
		ctx, cancel := context.WithCancel(ctx)
		var messages atomic.Int32
		w.store.OnCommand(func(c fake.Command) {
			if c.Args[0] != "EVALSHA" {
				return
			}
			if messages.Add(1) == 3 { // next, due, the lease
				assert.Greater(t, w.entries()["a"], w.now())
				cancel()
			}
		})
		require.NoError(t, q.Run(ctx, func(context.Context, queue.Task) error {
			t.Error("began a task after the end")
			return nil
		}))
		w.store.OnCommand(nil)
		assert.Equal(t, before, w.entries())
	})
}

func TestAPanicContinuesInRunAndTheTaskIsDueAgain(t *testing.T) {
	for name, harm := range map[string]func(){
		"panic":      func() { panic("out of cheese") },
		"nil panic":  func() { panic(nil) },
		"goexit":     runtime.Goexit,
		"error type": func() { panic(errors.New("out of cheese")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue()
				require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
				time.Sleep(time.Millisecond)
				require.NoError(t, q.Enqueue(ctx, []string{"b"}, 0))
				returned := false
				panicked := func() (value any) {
					defer func() { value = recover() }()
					return q.Run(ctx, func(ctx context.Context, task queue.Task) error {
						if task.ID == "a" {
							time.Sleep(time.Second)
							harm()
						}
						<-ctx.Done() // ends because of the other task
						time.Sleep(time.Second)
						returned = true
						return nil
					}, queue.WithRetryDelay(time.Hour))
				}()
				require.Implements(t, (*error)(nil), panicked)
				if name != "goexit" {
					assert.ErrorContains(t, panicked.(error), `task "a" panicked`)
					assert.ErrorContains(t, panicked.(error), "run_end_test.go")
				}
				assert.True(t, returned)
				assert.Equal(t, []string{"a"}, w.ids())
				assert.InDelta(t, w.now()+3600, w.entries()["a"], 2)
			})
		})
	}
}

func TestRunGoesOnAfterAnOutage(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(w *world) }{
		"store":   {func(w *world) { w.store.Kill() }, func(w *world) { w.store.Restart(true) }},
		"stopped": {func(w *world) { w.store.Stop() }, func(w *world) { w.store.Continue() }},
		"masters": {
			func(w *world) { w.masters[0].Stop(); w.masters[1].Stop() },
			func(w *world) { w.masters[0].Continue(); w.masters[1].Continue() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue()
				require.NoError(t, q.Enqueue(ctx, []string{"before"}, 0))
				require.NoError(t, q.Enqueue(ctx, []string{"after"}, 5*time.Second))
				var r record
				reports := 0
				run := running(t, q, func(_ context.Context, task queue.Task) error {
					r.add(w, task)
					time.Sleep(2 * time.Second)
					return nil
				}, queue.WithReport(func(err error) {
					reports++
					assert.Error(t, err)
				}), queue.WithLease(5*time.Minute))
				time.Sleep(time.Second)
				fault.begin(w) // while the first task is handled
				time.Sleep(30 * time.Second)
				fault.end(w)
				time.Sleep(20 * time.Second)
				assert.Equal(t, []string{"before", "after"}, r.ids())
				assert.Empty(t, w.entries())
				if name != "masters" { // Run waits for the lock without a bound
					assert.Positive(t, reports)
					assert.Less(t, reports, 40)
				}
				run.end()
			})
		})
	}
}

func TestRunReturnsWhatItCouldNotReportToTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		run := running(t, q, func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			return nil
		})
		w.store.Kill()
		run.stop()
		err := <-run.over
		assert.ErrorContains(t, err, "1 tasks were handled and will be run again")
		w.store.Restart(true)
		assert.Equal(t, []string{"a"}, w.ids())
	})
}

func TestRunEndsWithTheQueueAndTheLocker(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		nothing := func(context.Context, queue.Task) error { return nil }
		q := w.queueOf(l)
		run := running(t, q, nothing)
		require.NoError(t, q.Close())
		require.ErrorIs(t, <-run.over, pool.ErrClosed)

		run = running(t, w.queueOf(l), nothing)
		require.NoError(t, l.Close())
		require.NoError(t, w.queue().Enqueue(ctx, []string{"a"}, 0))
		require.ErrorIs(t, <-run.over, redlock.ErrClosed)
	})
}
