package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

func nothing(context.Context, queue.Task) error { return nil }

func TestRunHandlesEachTaskAtItsTime(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		enqueuer, r := w.queue(), record{w: w}
		run := q.running(r.handle, queue.WithPoll(time.Minute))
		var want []string
		for i := range 20 { // each task becomes the new head
			enqueuer.add(time.Duration(100-i)*time.Second, fmt.Sprint(i))
			want = slices.Insert(want, 0, fmt.Sprint(i))
		}
		enqueuer.add(0, "now")
		time.Sleep(101 * time.Second)
		assert.Equal(t, append([]string{"now"}, want...), r.ids())
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
	inBubble(t, func(w *world, q *user) {
		var at []float64
		run := q.running(func(context.Context, queue.Task) error {
			if at = append(at, w.now()); len(at) < 4 {
				return errors.New("not yet")
			}
			return nil
		}, queue.WithRetryDelay(7*time.Second), queue.WithConcurrency(1))
		began := w.now()
		q.add(0, "a")
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
	inBubble(t, func(w *world, q *user) {
		var now, most, total atomic.Int64
		run := q.running(func(context.Context, queue.Task) error {
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
		q.add(0, ids...)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, int64(3), now.Load())
		assert.Len(t, q.top(100), 27, "tasks that cannot begin are left to others")
		time.Sleep(10 * time.Second)
		assert.Equal(t, int64(3), most.Load())
		assert.Equal(t, int64(30), total.Load())
		assert.Empty(t, w.entries())
		run.end()
	})
}

func TestATaskWhoseHandlerTakesTooLongIsDueAgain(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		var causes []error
		began := w.clock.Now()
		slow := q.running(func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			assert.Less(t, w.clock.Now().Sub(began), 10*time.Second)
			assert.Greater(t, w.clock.Now().Sub(began), 9*time.Second)
			time.Sleep(5 * time.Second) // ignores it
			return nil
		}, queue.WithLease(10*time.Second), queue.WithConcurrency(1))
		q.add(0, "a")
		settle()
		r := record{w: w, takes: 10 * time.Second}
		quick := w.queue().running(r.handle)
		time.Sleep(9 * time.Second)
		assert.Empty(t, r.ids())
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"a"}, r.ids())
		time.Sleep(6 * time.Second) // the first has returned, and no longer counts
		assert.Len(t, w.entries(), 1)
		time.Sleep(6 * time.Second)
		assert.Empty(t, w.entries())
		slow.end()
		quick.end()
		require.Len(t, causes, 1)
		require.ErrorIs(t, causes[0], context.DeadlineExceeded)
		assert.ErrorContains(t, causes[0], "lease")
	})
}

func TestATaskThatIsEnqueuedAgainWhileItRunsRunsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		opts []queue.Option
		runs int
	}{"the last one counts": {nil, 2}, "KeepFirst": {[]queue.Option{queue.KeepFirst()}, 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				r := record{w: w, takes: time.Second}
				run := q.running(r.handle)
				q.add(0, "a")
				time.Sleep(500 * time.Millisecond)
				q.add(10*time.Second, "a")
				time.Sleep(5 * time.Second)
				assert.Len(t, w.entries(), test.runs-1)
				time.Sleep(10 * time.Second)
				assert.Len(t, r.ids(), test.runs)
				assert.Empty(t, w.entries())
				run.end()
			}, test.opts...)
		})
	}
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

func TestAnIdleRunQueriesTheStoreOnceASecond(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(2*time.Hour, "later")
		run := q.running(nothing)
		acquired, asked := q.locker.Stats().Acquired, w.scripts()
		time.Sleep(time.Hour)
		assert.InDelta(t, 3600, w.scripts()-asked, 5)
		assert.Equal(t, acquired, q.locker.Stats().Acquired)
		run.end()
	})
}

func TestRunFindsTasksWithoutMessages(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		w.store.RefuseWith("NOPERM this user has no permissions", "SUBSCRIBE", "PUBLISH")
		r := record{w: w}
		run := q.running(r.handle, queue.WithPoll(100*time.Millisecond))
		time.Sleep(time.Second)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			q.add(time.Duration(i)*13*time.Millisecond, fmt.Sprint(i))
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
	inBubble(t, func(w *world, q *user) {
		r := record{w: w, takes: 3 * time.Millisecond}
		var runs []*workers
		for range 4 {
			runs = append(runs, w.queue().running(r.handle, queue.WithConcurrency(4)))
		}
		var want []string
		for i := range 200 {
			ids := []string{fmt.Sprint(i), fmt.Sprint("x", i)}
			q.add(time.Duration(i%7)*50*time.Millisecond, ids...)
			want = append(want, ids...)
		}
		time.Sleep(time.Minute)
		for _, run := range runs {
			run.end()
		}
		assert.ElementsMatch(t, want, r.ids(), "each once")
		assert.Empty(t, w.entries())
	})
}

func TestRunEndsWhenItsHandlersHaveReturned(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		finished := 0
		run := q.running(func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			finished++
			return nil
		}, queue.WithConcurrency(1))
		q.add(0, "a", "b")
		settle()
		began := w.clock.Now()
		run.end()
		assert.Equal(t, 3*time.Second, w.clock.Now().Sub(began).Truncate(time.Second))
		assert.Equal(t, 1, finished)
		assert.Equal(t, []string{"b"}, w.ids(), "what it has done is removed, what it has not begun is not")
	})
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
			inBubble(t, func(w *world, q *user) {
				q.add(0, "before")
				q.add(5*time.Second, "after")
				r, reports := record{w: w, takes: 2 * time.Second}, 0
				run := q.running(r.handle, queue.WithReport(func(err error) {
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
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a")
		run := q.running(func(ctx context.Context, _ queue.Task) error {
			<-ctx.Done()
			return nil
		})
		w.store.Kill()
		run.stop()
		assert.ErrorContains(t, <-run.over, "1 tasks were handled and will be run again")
		w.store.Restart(true)
		assert.Equal(t, []string{"a"}, w.ids())
	})
}

func TestRunEndsWithTheQueueAndTheLocker(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		run := q.running(nothing)
		require.NoError(t, q.Close())
		require.ErrorIs(t, <-run.over, pool.ErrClosed)

		run = w.queueOf(q.locker).running(nothing)
		require.NoError(t, q.locker.Close())
		w.queue().add(0, "a")
		require.ErrorIs(t, <-run.over, redlock.ErrClosed)
	})
}

// Whatever Run is doing: it waits for its poll, for the next try, or for the lock.
func TestCloseEndsARunAtOnce(t *testing.T) {
	for name, begin := range map[string]func(w *world, q *user){
		"at rest":           func(*world, *user) {},
		"between two tries": func(w *world, _ *user) { w.store.Kill(); time.Sleep(10 * time.Second) },
		"waiting for the lock": func(w *world, q *user) {
			_, err := w.locker().Lock(ctx, "Queue:q")
			require.NoError(w.t, err)
			w.do("ZADD", "Queue:q", 1, "a")
			time.Sleep(2 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				run := q.running(nothing, queue.WithPoll(time.Minute))
				begin(w, q)
				began := time.Now()
				require.NoError(t, q.Close())
				select {
				case err := <-run.over:
					require.ErrorIs(t, err, pool.ErrClosed)
					assert.Less(t, time.Since(began), time.Millisecond)
				case <-time.After(time.Hour):
					run.stop()
					t.Error("it runs an hour later")
				}
			})
		})
	}
}

func TestRunEndsWithTheLockerOfAnEmptyQueue(t *testing.T) {
	inBubble(t, func(_ *world, q *user) {
		run := q.running(nothing)
		require.NoError(t, q.locker.Close())
		select {
		case err := <-run.over:
			require.ErrorIs(t, err, redlock.ErrClosed)
		case <-time.After(time.Hour):
			run.stop()
			t.Error("it runs an hour later")
		}
	})
}

func TestATaskIsRunInFiftyYears(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		const after = 50 * 365 * 24 * time.Hour
		var ran []time.Time
		var told []error
		q.add(after, "a")
		due := w.clock.Wall().Add(after)
		run := q.running(func(context.Context, queue.Task) error {
			ran = append(ran, w.clock.Wall())
			return nil
		}, queue.WithReport(func(err error) { told = append(told, err) }))
		for year := range 50 { // the machine sleeps for most of them
			w.clock.Suspend(365*24*time.Hour - 10*time.Second)
			time.Sleep(8 * time.Second)
			synctest.Wait() // what runs is behind what it wrote
			assert.Empty(t, ran, "year %d", year)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, ran, 1)
		assert.WithinDuration(t, due, ran[0], 20*time.Millisecond)
		assert.Empty(t, told)
		run.end()
	})
}

func TestLimitsOfRunThemselvesAreGood(t *testing.T) {
	const years = 50 * 365 * 24 * time.Hour
	inBubble(t, func(_ *world, q *user) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for i, opt := range []queue.RunOption{
			queue.WithLease(10 * time.Millisecond), queue.WithLease(7 * 24 * time.Hour),
			queue.WithPoll(time.Millisecond), queue.WithPoll(time.Minute),
			queue.WithConcurrency(1), queue.WithConcurrency(1000), queue.WithMaxAttempts(1),
			queue.WithRetryDelay(0), queue.WithRetryDelay(years), queue.WithBackoff(time.Millisecond, years),
		} {
			assert.NoError(t, q.Run(ended, func(context.Context, queue.Task) error { return nil }, opt), i)
		}
	})
}
