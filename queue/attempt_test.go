package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/queue"
)

// letters returns the dead letters of a queue.
func (q *user) letters() []queue.DeadLetter {
	q.w.t.Helper()
	letters, err := q.Dead(ctx, 2000)
	require.NoError(q.w.t, err)
	return letters
}

// counts returns how many tasks are in which state.
func (q *user) counts() queue.Counts {
	q.w.t.Helper()
	counts, err := q.Count(ctx)
	require.NoError(q.w.t, err)
	return counts
}

// addWith enqueues a task with a payload, due at once.
func (q *user) addWith(id, payload string) {
	q.w.t.Helper()
	require.NoError(q.w.t, q.Add(ctx, []queue.Item{{ID: id, Payload: []byte(payload)}}, 0))
}

// failures records what WithFailed is told.
type failures struct {
	mu  sync.Mutex
	all []*queue.TaskError
}

func (f *failures) note(err *queue.TaskError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

// Whichever worker has it, and though the store restarts.
func TestATaskDiesOfItsLastAttemptWithItsErrors(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.addWith("a", "what to do")
		var seen []int
		var told failures
		wrong := errors.New("wrong")
		began := w.clock.Wall()
		opts := []queue.RunOption{queue.WithMaxAttempts(3), queue.WithRetryDelay(10 * time.Second), queue.WithFailed(told.note)}
		for attempt := 1; attempt <= 4; attempt++ {
			run := w.queue().running(func(_ context.Context, task queue.Task) error {
				seen = append(seen, task.Attempt)
				assert.Equal(t, "what to do", string(task.Payload))
				return fmt.Errorf("attempt %d: %w", task.Attempt, wrong)
			}, opts...)
			time.Sleep(5 * time.Second)
			run.end()
			w.store.Restart(true)
			time.Sleep(6 * time.Second)
		}
		assert.Equal(t, []int{1, 2, 3}, seen)
		assert.Equal(t, queue.Counts{Dead: 1}, q.counts())
		letters := q.letters()
		require.Len(t, letters, 1)
		letter := letters[0]
		assert.Equal(t, []any{"a", "what to do", 3}, []any{letter.ID, string(letter.Payload), letter.Attempts})
		assert.WithinDuration(t, began.Add(22*time.Second), letter.Died, 2*time.Second)
		require.Len(t, letter.Errors, 3)
		for i, failure := range letter.Errors {
			assert.Equal(t, 3-i, failure.Attempt)
			assert.Equal(t, fmt.Sprintf("attempt %d: wrong", 3-i), failure.Text)
			assert.WithinDuration(t, letter.Died.Add(time.Duration(i)*-11*time.Second), failure.At, time.Second)
		}
		require.Len(t, told.all, 3)
		for i, failure := range told.all {
			assert.Equal(t, i == 2, failure.Dead)
			require.ErrorIs(t, failure, wrong)
		}
	})
}

func TestAWorkerThatDiesHasUsedItsAttempt(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a")
		var mu sync.Mutex
		var seen []int
		var told failures
		hangs := func(_ context.Context, task queue.Task) error {
			mu.Lock()
			seen = append(seen, task.Attempt)
			mu.Unlock()
			time.Sleep(time.Hour) // as if it was dead
			return nil
		}
		var runs []*workers
		for range 3 {
			runs = append(runs, w.queue().running(hangs, queue.WithMaxAttempts(2), queue.WithLease(10*time.Second), queue.WithFailed(told.note)))
		}
		end := func() {
			for _, run := range runs {
				run.end()
			}
			runs = nil
		}
		defer end()
		time.Sleep(5 * time.Second)
		assert.Equal(t, queue.Counts{Running: 1}, q.counts())
		time.Sleep(time.Minute)
		mu.Lock()
		assert.Equal(t, []int{1, 2}, seen)
		mu.Unlock()
		assert.Equal(t, queue.Counts{Dead: 1}, q.counts())
		letters := q.letters()
		require.Len(t, letters, 1)
		letter := letters[0]
		assert.Equal(t, 2, letter.Attempts)
		require.NotEmpty(t, letter.Errors)
		assert.Contains(t, letter.Errors[0].Text, "its worker died")
		settle() // what was told is visible from here on
		require.Len(t, told.all, 1)
		assert.True(t, told.all[0].Dead)

		q.add(2*time.Hour, "a") // a new one, which late reports do not touch
		before := w.entries()
		end()
		assert.Equal(t, before, w.entries())
		assert.Len(t, q.letters(), 1)
	})
}

func TestAnAttemptThatNeverBeganIsGivenBack(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.addWith("a", "x")
		before := w.entries()
		ctx, cancel := context.WithCancel(ctx)
		w.atScript(3, func() { // next, due, the lease
			assert.Greater(t, w.entries()["a"], w.now())
			cancel()
		})
		require.NoError(t, q.Run(ctx, func(context.Context, queue.Task) error {
			t.Error("began a task after the end")
			return nil
		}, queue.WithMaxAttempts(1)))
		w.store.OnCommand(nil)
		assert.Equal(t, before, w.entries(), "at its place")
		tasks := q.top(1)
		require.Len(t, tasks, 1)
		assert.Zero(t, tasks[0].Attempt)
		assert.Equal(t, "x", string(tasks[0].Payload))
		r := record{w: w}
		run := q.running(r.handle, queue.WithMaxAttempts(1))
		assert.Equal(t, []string{"a"}, r.ids())
		run.end()
	})
}

func TestAPanicIsAFailedAttemptAndRunGoesOn(t *testing.T) {
	for name, harm := range map[string]func(){
		"panic":      func() { panic("out of cheese") },
		"nil panic":  func() { panic(nil) },
		"goexit":     runtime.Goexit,
		"error type": func() { panic(errors.New("out of cheese")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				q.add(0, "a", "b", "c")
				r := record{w: w}
				var told failures
				run := q.running(func(ctx context.Context, task queue.Task) error {
					if task.ID == "b" {
						harm()
					}
					return r.handle(ctx, task)
				}, queue.WithMaxAttempts(2), queue.WithBackoff(time.Millisecond, time.Second), queue.WithConcurrency(1), queue.WithFailed(told.note))
				time.Sleep(10 * time.Second)
				assert.Equal(t, []string{"a", "c"}, r.ids())
				run.end()
				letters := q.letters()
				require.Len(t, letters, 1)
				require.NotEmpty(t, letters[0].Errors)
				require.Len(t, told.all, 2)
				var panicked *queue.PanicError
				if name == "goexit" {
					assert.ErrorContains(t, told.all[0], "Goexit")
					return
				}
				require.ErrorAs(t, told.all[0], &panicked)
				frame, _, _ := bytes.Cut(panicked.Stack, []byte("\n"))
				assert.Contains(t, string(frame), "TestAPanicIsAFailedAttempt", "the place of the panic comes first")
				assert.Contains(t, letters[0].Errors[0].Text, "attempt_test.go")
			})
		})
	}
}

// Tasks that fail, panic or never end take the time of nobody else's, but for that of a handler.
func TestPoisonSlowsNobody(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		var log bytes.Buffer
		r := record{w: w, takes: 100 * time.Millisecond}
		run := q.running(func(ctx context.Context, task queue.Task) error {
			switch task.ID[0] {
			case 'p':
				panic("poison")
			case 'h':
				<-ctx.Done()
				return ctx.Err()
			case 'f':
				return errors.New("it fails")
			}
			return r.handle(ctx, task)
		}, queue.WithMaxAttempts(5), queue.WithRetryDelay(0), queue.WithConcurrency(4), queue.WithLease(5*time.Second),
			queue.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for i := range 100 {
			if q.add(0, fmt.Sprint(i)); i%10 == 0 {
				q.add(0, fmt.Sprint("p", i), fmt.Sprint("f", i))
			}
			if i%50 == 0 {
				q.add(0, fmt.Sprint("h", i))
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		settle()
		assert.Len(t, r.ids(), 100)
		for i, late := range r.late {
			assert.Less(t, late, 500*time.Millisecond, "task %s", r.tasks[i].ID)
		}
		assert.Equal(t, queue.Counts{Dead: 22}, q.counts())
		for _, letter := range q.letters() {
			assert.Equal(t, 5, letter.Attempts)
			assert.NotEmpty(t, letter.Errors)
		}
		run.end()
		assert.Equal(t, 22, strings.Count(log.String(), "level=ERROR"))
		assert.Equal(t, 88, strings.Count(log.String(), "level=WARN"))
	})
}

func TestTheBackoffGrowsToItsLongest(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a")
		var at []time.Time
		run := q.running(func(context.Context, queue.Task) error {
			at = append(at, w.clock.Wall())
			return errors.New("no")
		}, queue.WithBackoff(10*time.Second, time.Minute), queue.WithRetryDelay(time.Hour), queue.WithBackoff(10*time.Second, time.Minute))
		time.Sleep(10 * time.Minute)
		run.end()
		for i, most := range []time.Duration{10, 20, 40, 60, 60, 60} {
			pause := at[i+1].Sub(at[i])
			assert.LessOrEqual(t, pause, most*time.Second+50*time.Millisecond, i)
			assert.GreaterOrEqual(t, pause, most*time.Second/2, i)
		}
	})
}

func TestAttemptsBeginAnewWhenATaskIsEnqueuedAgain(t *testing.T) {
	for name, again := range map[string]func(w *world, q *user){
		"Enqueue": func(_ *world, q *user) { q.add(0, "a") },
		"Add":     func(_ *world, q *user) { q.addWith("a", "new") },
		"ZADD":    func(w *world, _ *user) { w.do("ZADD", "Queue:q", 1, "a") },
		"ZREM and ZADD": func(w *world, _ *user) {
			w.do("ZREM", "Queue:q", "a")
			w.do("ZADD", "Queue:q", 1, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				q.addWith("a", "old")
				var seen []int
				run := q.running(func(_ context.Context, task queue.Task) error {
					seen = append(seen, task.Attempt)
					return errors.New("no")
				}, queue.WithMaxAttempts(3), queue.WithRetryDelay(10*time.Second))
				time.Sleep(15 * time.Second)
				again(w, q)
				time.Sleep(time.Minute)
				run.end()
				assert.Equal(t, []int{1, 2, 1, 2, 3}, seen)
				letters := q.letters()
				require.Len(t, letters, 1)
				assert.Len(t, letters[0].Errors, 3, "those of the later life")
			})
		})
	}
}

func TestAPayloadStaysWithItsTask(t *testing.T) {
	payloadOf := func(q *user) string { return string(q.top(1)[0].Payload) }
	inBubble(t, func(w *world, q *user) {
		q.addWith("a", "one")
		assert.Equal(t, "one", payloadOf(q))
		q.add(0, "a")
		assert.Equal(t, "one", payloadOf(q), "Enqueue moves the task")
		w.do("ZADD", "Queue:q", 1, "a")
		assert.Equal(t, "one", payloadOf(q), "and so does ZADD")
		q.addWith("a", "two\n\x00 2 3\n")
		assert.Equal(t, "two\n\x00 2 3\n", payloadOf(q))
		first := w.queue(queue.KeepFirst())
		first.addWith("a", "three")
		assert.Equal(t, "two\n\x00 2 3\n", payloadOf(q))
		q.addWith("a", "")
		assert.Empty(t, payloadOf(q))

		q.addWith("a", "four")
		w.do("ZREM", "Queue:q", "a")
		q.add(0, "a")
		assert.Empty(t, payloadOf(q), "a new task has nothing of one that others removed")
		q.addWith("a", "five")
		_, err := q.Remove(ctx, "a")
		require.NoError(t, err)
		w.do("ZADD", "Queue:q", 1, "a")
		assert.Empty(t, payloadOf(q))
		q.addWith("a", "six")
		tasks, err := q.Pop(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, "six", string(tasks[0].Payload))
		assert.NotContains(t, w.store.Keys(), "redquorum:queue:task:q", "nothing is left")
	})
}

// 100 payloads of 64 KiB are more than a reply may have.
func TestRepliesAreBoundedWhateverPayloadsThereAre(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		large := strings.Repeat("x", 64<<10)
		for i := range 100 {
			q.addWith(fmt.Sprint(i), large)
		}
		some := len(q.popped(100))
		assert.Greater(t, some, 10)
		r := record{w: w}
		run := q.running(func(ctx context.Context, task queue.Task) error {
			assert.Len(t, task.Payload, len(large))
			assert.NoError(t, r.handle(ctx, task))
			return errors.New(strings.Repeat("é", 3000))
		}, queue.WithMaxAttempts(1), queue.WithConcurrency(100))
		time.Sleep(time.Minute)
		run.end()
		assert.Len(t, r.ids(), 100-some)
		assert.Equal(t, queue.Counts{Dead: 100 - some}, q.counts())
		letters := q.letters()
		assert.Greater(t, len(letters), 10)
		assert.Equal(t, strings.Repeat("é", 512), letters[0].Errors[0].Text)
		assert.Equal(t, large, string(letters[0].Payload))
	})
}

func TestDeadLettersAreRetriedAndDropped(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		die := func(ids ...string) {
			for _, id := range ids {
				q.addWith(id, "of "+id)
				time.Sleep(time.Millisecond)
			}
			run := q.running(func(context.Context, queue.Task) error { return errors.New("no") }, queue.WithMaxAttempts(1), queue.WithConcurrency(1))
			time.Sleep(time.Second)
			run.end()
		}
		died := func() (ids []string) {
			for _, letter := range q.letters() {
				ids = append(ids, letter.ID)
			}
			return ids
		}
		die("a", "b", "c")
		assert.Equal(t, []string{"c", "b", "a"}, died(), "newest first")
		q.add(time.Hour, "c")
		n, err := q.Retry(ctx, "a", "c", "nobody")
		require.NoError(t, err)
		assert.Equal(t, 1, n, "c is in the queue again")
		assert.Equal(t, []string{"c", "b"}, died())
		tasks := q.top(10)
		require.Len(t, tasks, 1)
		assert.Equal(t, queue.Task{ID: "a", Score: w.now(), Payload: []byte("of a")}, tasks[0])
		die("a", "b")
		assert.Equal(t, []string{"b", "a", "c"}, died(), "one letter for an id")
		n, err = q.Drop(ctx, "a", "b", "nobody")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, queue.Counts{Waiting: 1, Dead: 1}, q.counts())
		_, err = q.Drop(ctx, "c")
		require.NoError(t, err)
		assert.NotContains(t, w.store.Keys(), "redquorum:queue:letter:q")
		assert.Equal(t, queue.Counts{Waiting: 1}, q.counts(), "c is in the queue again")
	})
}

func TestTheOldestDeadLetterGivesWayToTheNewestAndThatIsTold(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		const bound = 10000
		args := []any{deadKey}
		for i := range bound {
			args = append(args, i, fmt.Sprint("old", i))
		}
		w.do("ZADD", args...)
		w.do("HSET", "redquorum:queue:letter:q", "old0", "0 3 0\n")
		q.add(0, "a", "b")
		var told []string
		run := q.running(func(context.Context, queue.Task) error { return errors.New("no") }, queue.WithMaxAttempts(1), queue.WithConcurrency(2),
			queue.WithReport(func(err error) { told = append(told, err.Error()) }))
		time.Sleep(time.Second)
		run.end()
		assert.Equal(t, bound, q.counts().Dead)
		require.NotEmpty(t, told)
		assert.Contains(t, told[0], "the oldest were dropped")
		n, err := q.Drop(ctx, "old0", "old1", "old2", "a", "b")
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		assert.NotContains(t, w.store.Keys(), "redquorum:queue:letter:q", "the letter has gone with its record")
	})
}

func TestTasksAreCountedByState(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a", "b", "c", "d")
		q.add(time.Hour, "e")
		run := w.queue().running(func(ctx context.Context, _ queue.Task) error {
			time.Sleep(10 * time.Second)
			return nil
		}, queue.WithConcurrency(2))
		assert.Equal(t, queue.Counts{Waiting: 1, Due: 2, Running: 2}, q.counts())
		q.add(0, "a") // a new one
		assert.Equal(t, queue.Counts{Waiting: 1, Due: 3, Running: 1}, q.counts())
		time.Sleep(time.Minute)
		assert.Equal(t, queue.Counts{Waiting: 1}, q.counts())
		run.end()
		assert.NotContains(t, w.store.Keys(), "redquorum:queue:running:q")
	})
}

// A script that ends in the middle, at whichever of its commands, loses no task and no letter.
func TestNothingIsLostWithAScriptThatFailsMidway(t *testing.T) {
	const commands = 150 // a life of two attempts, and another one, have fewer
	for nth := 1; nth <= commands; nth++ {
		inBubble(t, func(w *world, q *user) {
			q.addWith("a", "x")
			w.store.FailCall(nth, "NOPERM this user has no permissions")
			runs := 0
			begin := func() *workers {
				return q.running(func(context.Context, queue.Task) error {
					runs++
					return errors.New("no")
				}, queue.WithMaxAttempts(2), queue.WithRetryDelay(0), queue.WithLease(time.Second), queue.WithConcurrency(1))
			}
			run := begin()
			time.Sleep(5 * time.Second)
			run.end()
			assert.LessOrEqual(t, runs, 4, "command %d", nth)
			_, err := q.Retry(ctx, "a")
			require.True(t, err == nil || strings.Contains(err.Error(), "NOPERM"), err)
			run = begin()
			time.Sleep(5 * time.Second)
			run.end()
			letters := q.letters()
			require.Len(t, letters, 1, "command %d", nth)
			assert.Equal(t, "x", string(letters[0].Payload), "command %d", nth)
			assert.NotEmpty(t, letters[0].Errors, "command %d", nth)
			assert.Equal(t, queue.Counts{Dead: 1}, q.counts(), "command %d", nth)
		})
	}
}
