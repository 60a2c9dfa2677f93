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

const microsecond = 1e-6

func TestThereIsOneEntryPerTaskWhichEnqueueingAgainMoves(t *testing.T) {
	for name, test := range map[string]struct {
		opts []queue.Option
		due  []float64 // after the first, the second, the third
	}{
		"the last one counts": {nil, []float64{60, 10, 600}},
		"KeepFirst":           {[]queue.Option{queue.KeepFirst()}, []float64{60, 60, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				began := w.now()
				for i, delay := range []time.Duration{60, 10, 600} {
					q.add(delay*time.Second, "a", "b", "a")
					assert.Equal(t, []string{"a", "b"}, w.ids())
					assert.InDelta(t, began+test.due[i], w.entries()["a"], microsecond)
					assert.InDelta(t, began+test.due[i], w.entries()["b"], microsecond)
				}
				n, err := q.Len(ctx)
				require.NoError(t, err)
				assert.Equal(t, 2, n)
			}, test.opts...)
		})
	}
}

func TestATaskIsDueAtItsScoreToTheMicrosecond(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		for i := range 200 {
			time.Sleep(time.Duration(i*i+1) * time.Microsecond)
			now := w.clock.Wall().UnixMicro()
			delay := time.Duration(i+1) * 7919 * time.Microsecond
			q.add(delay, "a")
			want := now + delay.Microseconds()
			require.Equal(t, float64(want)/1e6, w.entries()["a"])
			require.Equal(t, fmt.Sprintf("%d.%06d", want/1e6, want%1e6), fmt.Sprintf("%.6f", w.entries()["a"]))
			time.Sleep(delay - time.Microsecond)
			require.Empty(t, q.top(1))
			time.Sleep(time.Microsecond)
			require.Len(t, q.top(1), 1)
		}
		q.add(1, "b")
		assert.Equal(t, float64(w.clock.Wall().UnixMicro()+1)/1e6, w.entries()["b"], "a nanosecond is rounded up")
		q.add(50*365*24*time.Hour, "c")
		want := w.clock.Wall().UnixMicro() + (50 * 365 * 24 * time.Hour).Microseconds()
		assert.Equal(t, fmt.Sprintf("%d.%06d", want/1e6, want%1e6), fmt.Sprintf("%.6f", w.entries()["c"]))
	})
}

func TestAQueueDoesNotTakeOverTheMinimumHoldOfItsLocker(t *testing.T) {
	inBubble(t, func(w *world, _ *user) {
		q := w.queueOf(w.locker(redlock.WithMinHold(10 * time.Second)))
		began := w.clock.Now()
		for range 3 {
			q.add(0, "a")
			assert.Len(t, q.popped(1), 1)
		}
		assert.Less(t, w.clock.Now().Sub(began), time.Second)
	})
}

func TestDequeueLeavesATaskThatWasEnqueuedAgainAndRemoveDoesNot(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a", "b")
		due := q.top(1)
		require.Len(t, due, 1, "of two")
		seen := due[0]
		time.Sleep(time.Microsecond)
		q.add(0, "a")
		entries := w.entries()
		for _, c := range []struct {
			score float64
			want  bool
		}{{seen.Score, false}, {entries["a"], true}, {entries["a"], false}} { // at last it is gone
			removed, err := q.Dequeue(ctx, "a", c.score)
			require.NoError(t, err)
			assert.Equal(t, c.want, removed)
		}
		assert.Equal(t, []string{"b"}, w.ids())
		q.add(0, "a")
		q.add(time.Hour, "c")
		n, err := q.Remove(ctx, "a", "c", "c", "nobody")
		require.NoError(t, err)
		assert.Equal(t, 2, n, "what it has removed")
		assert.Equal(t, []string{"b"}, w.ids())
	})
}

func TestLimitsThemselvesAreGood(t *testing.T) {
	inBubble(t, func(w *world, _ *user) {
		l := w.locker(redlock.WithKeyPrefix(strings.Repeat("p", 1024)))
		q, err := queue.New(l, "store:6379", strings.Repeat("n", 2048), queue.WithPool(pool.WithClock(w.clock), w.dialer()))
		require.NoError(t, err)
		defer q.Close()
		full := &user{q, w, l}
		short, long := make([]string, 10000), make([]string, 2000)
		for i := range short {
			short[i] = fmt.Sprintf("%0400d", i)
		}
		for i := range long {
			long[i] = fmt.Sprintf("%01024d", i) // 2 MB, more than a reply may have
		}
		full.add(0, short...)
		assert.Equal(t, short[:2000], full.popped(2000))
		n, err := q.Remove(ctx, short...)
		require.NoError(t, err)
		assert.Equal(t, 8000, n)
		full.add(0, long...)
		for _, some := range [][]string{long[:800], long[800:1600], long[1600:], nil} {
			assert.Equal(t, some, full.popped(2000))
		}
		bytes := "\x00\r\n$3\xff '\"[[ü"
		full.add(0, bytes)
		assert.Equal(t, []string{bytes}, full.popped(1))
	})
}

// noContext is a nil context; it is a variable because linters reject a literal one.
var noContext context.Context

// badCalls returns what calls with bad arguments return.
func badCalls(q *user) (errs []error) {
	note := func(err error) { errs = append(errs, err) }
	second := func(_ any, err error) { note(err) }
	long, many := strings.Repeat("x", 1025), make([]string, 10001)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, ids := range [][]string{nil, {"a", ""}, {"a", long}, many} {
		note(q.Enqueue(ctx, ids, time.Second))
		second(q.Remove(ctx, ids...))
		second(q.Retry(ctx, ids...))
		second(q.Drop(ctx, ids...))
	}
	large, item := make([]byte, 64<<10), make([]queue.Item, 17)
	for i := range item {
		item[i] = queue.Item{ID: fmt.Sprint(i), Payload: large}
	}
	note(q.Add(ctx, nil, 0))
	note(q.Add(ctx, []queue.Item{{ID: ""}}, 0))
	note(q.Add(ctx, []queue.Item{{ID: "a", Payload: append(large, 0)}}, 0))
	note(q.Add(ctx, item, 0))
	note(q.Add(ctx, item[:1], -1))
	note(q.Enqueue(ctx, []string{"a"}, -1))
	note(q.Enqueue(ctx, []string{"a"}, math.MaxInt64))
	second(q.Dequeue(ctx, "", 1))
	second(q.Dequeue(ctx, long, 1))
	second(q.Dequeue(ctx, "a", math.NaN()))
	for _, n := range []int{0, -1, math.MinInt, 2001, math.MaxInt} {
		second(q.Pop(ctx, n))
		second(q.Top(ctx, n))
		second(q.Dead(ctx, n))
	}
	note(q.Enqueue(noContext, []string{"a"}, 0))
	second(q.Remove(noContext, "a"))
	second(q.Dequeue(noContext, "a", 1))
	second(q.Pop(noContext, 1))
	second(q.Top(noContext, 1))
	second(q.Len(noContext))
	second(q.Dead(noContext, 1))
	second(q.Count(noContext))
	note(q.Run(noContext, nothing))
	note(q.Run(ctx, nil))
	for _, opt := range []queue.RunOption{
		nil, queue.WithConcurrency(0), queue.WithConcurrency(1001), queue.WithLease(0), queue.WithLease(math.MaxInt64),
		queue.WithRetryDelay(-1), queue.WithRetryDelay(math.MaxInt64), queue.WithPoll(0), queue.WithPoll(time.Hour), queue.WithReport(nil),
		queue.WithMaxAttempts(0), queue.WithMaxAttempts(-1), queue.WithBackoff(0, 1), queue.WithBackoff(time.Hour, time.Minute),
		queue.WithBackoff(time.Hour, math.MaxInt64), queue.WithFailed(nil), queue.WithLogger(nil),
	} {
		note(q.Run(ctx, nothing, opt))
	}
	return errs
}

func TestBadArgumentsAreInvalidAndChangeNothing(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a", "b")
		q.add(time.Hour, "later")
		settle()
		before, asked := w.content(), len(w.store.Commands())
		for i, err := range badCalls(q) {
			require.ErrorIs(t, err, queue.ErrInvalid, "call %d", i)
		}
		settle()
		assert.Equal(t, before, w.content())
		assert.Equal(t, asked+1, len(w.store.Commands()), "nothing was sent, except by content")
	})
}

func TestBadArgumentsOfNewAreInvalid(t *testing.T) {
	inBubble(t, func(_ *world, q *user) {
		for what, c := range map[string]struct {
			locker         *redlock.Locker
			endpoint, name string
			opt            queue.Option
		}{
			"nil locker":  {nil, "store:6379", "q", queue.KeepFirst()},
			"empty name":  {q.locker, "store:6379", "", queue.KeepFirst()},
			"long name":   {q.locker, "store:6379", strings.Repeat("x", 2049), queue.KeepFirst()},
			"endpoint":    {q.locker, "http://:hunter2@store", "q", queue.KeepFirst()},
			"no endpoint": {q.locker, "", "q", queue.KeepFirst()},
			"nil option":  {q.locker, "store:6379", "q", nil},
			"timeout":     {q.locker, "store:6379", "q", queue.WithTimeout(0)},
			"pool option": {q.locker, "store:6379", "q", queue.WithPool(pool.WithDialTimeout(-1))},
		} {
			made, err := queue.New(c.locker, c.endpoint, c.name, c.opt)
			require.ErrorIs(t, err, queue.ErrInvalid, what)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.Nil(t, made, what)
		}
	})
}

func TestALockerThatCannotLockTheQueueIsInvalid(t *testing.T) {
	inBubble(t, func(w *world, good *user) {
		// The prefix is reserved for keys beside the locks.
		q := w.queueOf(w.locker(redlock.WithKeyPrefix("redquorum:")))
		err := q.Enqueue(ctx, []string{"a"}, 0)
		require.ErrorIs(t, err, queue.ErrInvalid)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		assert.Empty(t, w.content())

		good.add(0, "a")
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err = q.Run(limited, nothing)
		require.ErrorIs(t, err, queue.ErrInvalid, "it would never get better")
		require.NoError(t, limited.Err())
		assert.Equal(t, []string{"a"}, w.ids())
	})
}
