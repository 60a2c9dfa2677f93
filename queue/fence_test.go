package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A token that is far ahead would stay the newest that the store has seen, and block the queue for
// as long.
func TestAQueueGoesOnAfterTheClockOfOneMasterWasWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		w.masters[2].Delay(func() time.Duration { return time.Millisecond }, nil) // the first is among the first two
		w.masters[0].SetClock(365*24*time.Hour, 1)
		require.NoError(t, q.Enqueue(ctx, []string{"b"}, 0))
		w.masters[0].SetClock(0, 1)
		w.masters[0].Restart(false)
		time.Sleep(11 * time.Minute) // the other counters expire
		require.NoError(t, q.Enqueue(ctx, []string{"c"}, 0))
		tasks, err := q.Pop(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, idsOf(tasks))
	})
}
