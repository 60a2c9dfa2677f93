package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const microsecond = 1e-6

func TestThereIsOneEntryPerTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		began := w.now()
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b", "a"}, time.Second))
		assert.Equal(t, []string{"a", "b"}, w.ids())
		n, err := q.Len(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		for id, score := range w.entries() {
			assert.InDelta(t, began+1, score, microsecond, id)
		}
	})
}

func TestEnqueueingAgainMovesATask(t *testing.T) {
	for name, test := range map[string]struct {
		opts []queue.Option
		due  []float64 // after the first, the second, the third
	}{
		"the last one counts": {nil, []float64{60, 10, 600}},
		"KeepFirst":           {[]queue.Option{queue.KeepFirst()}, []float64{60, 60, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(test.opts...)
				began := w.now()
				for i, delay := range []time.Duration{60, 10, 600} {
					require.NoError(t, q.Enqueue(ctx, []string{"a"}, delay*time.Second))
					assert.InDelta(t, began+test.due[i], w.entries()["a"], microsecond)
					assert.Len(t, w.entries(), 1)
				}
			})
		})
	}
}

func TestScoresAreExactMicroseconds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		for i := range 200 {
			time.Sleep(time.Duration(i*i+1) * time.Microsecond)
			now := w.clock.Wall().UnixMicro()
			delay := time.Duration(i) * 7919 * time.Microsecond
			require.NoError(t, q.Enqueue(ctx, []string{"a"}, delay))
			want := now + delay.Microseconds()
			require.Equal(t, float64(want)/1e6, w.entries()["a"])
			require.Equal(t, fmt.Sprintf("%d.%06d", want/1e6, want%1e6), fmt.Sprintf("%.6f", w.entries()["a"]))
		}
		require.NoError(t, q.Enqueue(ctx, []string{"b"}, 1))
		assert.Equal(t, float64(w.clock.Wall().UnixMicro()+1)/1e6, w.entries()["b"], "a nanosecond is rounded up")
		require.NoError(t, q.Enqueue(ctx, []string{"c"}, 50*365*24*time.Hour))
		want := w.clock.Wall().UnixMicro() + (50 * 365 * 24 * time.Hour).Microseconds()
		assert.Equal(t, fmt.Sprintf("%d.%06d", want/1e6, want%1e6), fmt.Sprintf("%.6f", w.entries()["c"]))
	})
}

func TestPopReturnsWhatIsDueOldestFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		for i, id := range []string{"c", "a", "b", "later"} {
			require.NoError(t, q.Enqueue(ctx, []string{id}, time.Duration(i+1)*time.Second))
		}
		tasks, err := q.Pop(ctx, 10)
		require.NoError(t, err)
		assert.Empty(t, tasks)
		scores := w.entries()
		time.Sleep(3*time.Second + time.Millisecond)

		tasks, err = q.Top(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, []queue.Task{{"c", scores["c"]}, {"a", scores["a"]}, {"b", scores["b"]}}, tasks)
		assert.Len(t, w.entries(), 4, "Top removes nothing")

		tasks, err = q.Pop(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, []queue.Task{{"c", scores["c"]}, {"a", scores["a"]}}, tasks)
		tasks, err = q.Pop(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, idsOf(tasks))
		tasks, err = q.Pop(ctx, 2)
		require.NoError(t, err)
		assert.Empty(t, tasks)
		assert.Equal(t, []string{"later"}, w.ids())
	})
}

func TestAQueueDoesNotTakeOverTheMinimumHoldOfItsLocker(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queueOf(w.locker(redlock.WithMinHold(10 * time.Second)))
		began := w.clock.Now()
		for range 3 {
			require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
			tasks, err := q.Pop(ctx, 1)
			require.NoError(t, err)
			assert.Len(t, tasks, 1)
		}
		assert.Less(t, w.clock.Now().Sub(began), time.Second)
	})
}

func TestATaskIsDueToTheMicrosecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		for i := range 100 {
			time.Sleep(time.Duration(i) * 31 * time.Microsecond)
			require.NoError(t, q.Enqueue(ctx, []string{"a"}, 100*time.Microsecond))
			time.Sleep(99 * time.Microsecond)
			tasks, err := q.Top(ctx, 1)
			require.NoError(t, err)
			require.Empty(t, tasks)
			time.Sleep(time.Microsecond)
			tasks, err = q.Top(ctx, 1)
			require.NoError(t, err)
			require.Len(t, tasks, 1)
		}
	})
}

func TestDequeueLeavesATaskThatWasEnqueuedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b"}, 0))
		seen, err := q.Top(ctx, 1)
		require.NoError(t, err)
		time.Sleep(time.Microsecond)
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))

		removed, err := q.Dequeue(ctx, "a", seen[0].Score)
		require.NoError(t, err)
		assert.False(t, removed)
		removed, err = q.Dequeue(ctx, "a", w.entries()["a"])
		require.NoError(t, err)
		assert.True(t, removed)
		removed, err = q.Dequeue(ctx, "a", w.entries()["b"])
		require.NoError(t, err)
		assert.False(t, removed, "it is gone")
		assert.Equal(t, []string{"b"}, w.ids())
	})
}

func TestRemoveCountsWhatItRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a", "b"}, 0))
		require.NoError(t, q.Enqueue(ctx, []string{"c"}, time.Hour))
		n, err := q.Remove(ctx, "a", "c", "c", "nobody")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, []string{"b"}, w.ids())
	})
}

// An idle worker takes no lock.
func TestPopTakesNoLockIfNothingIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		q := w.queueOf(l)
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, time.Hour))
		before := l.Stats().Acquired
		for range 10 {
			tasks, err := q.Pop(ctx, 1)
			require.NoError(t, err)
			require.Empty(t, tasks)
		}
		assert.Equal(t, before, l.Stats().Acquired)
	})
}
