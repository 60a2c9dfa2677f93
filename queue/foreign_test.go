package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const answerKey = "redquorum:queue:last:q"

// foreign is what others may write to the keys beside a queue.
var foreign = [][]any{
	{"SET", "text"}, {"SET", ""}, {"SET", "-1"}, {"SET", "nan"}, {"SET", "inf"}, {"SET", "1e300"}, {"SET", "9007199254740992"}, {"ZADD", 1, "x"},
}

func TestAQueueWorksWhateverOthersWroteBesideIt(t *testing.T) {
	for name, op := range operations {
		for _, key := range []string{fenceKey, answerKey} {
			for _, what := range foreign {
				t.Run(fmt.Sprint(name, key, what), func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						q := w.queue()
						seen := filled(t, q)
						w.do("DEL", key)
						w.do(what[0].(string), append([]any{key}, what[1:]...)...)
						got, err := op.call(q, seen)
						require.NoError(t, err)
						assert.Equal(t, op.want, got)
						assert.Equal(t, op.left, w.ids())
						_, err = q.Top(ctx, 10)
						require.NoError(t, err)
					})
				})
			}
		}
	}
}

// If the newest fence was overwritten, the last change still has it.
func TestALateHolderIsRefusedThoughTheNewestFenceWasOverwritten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		filled(t, q)
		newest := time.Now().Add(5 * time.Second).UnixMicro()
		w.do("SET", answerKey, fmt.Sprint(newest, " ok"))
		w.do("SET", fenceKey, "text")
		require.Error(t, q.Enqueue(ctx, []string{"d"}, 0))
		assert.Equal(t, []string{"a", "b", "c"}, w.ids())
	})
}

func TestAKeyThatIsNotAQueueIsReportedAndLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.do("SET", "Queue:q", "text")
		require.ErrorContains(t, q.Enqueue(ctx, []string{"a"}, 0), "WRONGTYPE")
		assert.Equal(t, []string{"Queue:q"}, w.store.Keys())
	})
}
