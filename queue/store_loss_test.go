package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
)

// Whichever message to the store is lost, or its answer, the call has its effect exactly once.
func TestALostMessageOrAnswerIsRepeated(t *testing.T) {
	for fault, harm := range map[string]func(store *fake.Node){
		"answer lost":          func(store *fake.Node) { store.LoseReplies(1) },
		"message lost":         func(store *fake.Node) { store.LoseRequests(1) },
		"closed after it":      func(store *fake.Node) { store.CutAfterWrite(1) },
		"answer cut":           func(store *fake.Node) { store.CutReply(3) },
		"killed and restarted": func(store *fake.Node) { store.Restart(true) },
	} {
		for name, operation := range operations {
			messages := 1
			if name == "Pop" {
				messages = 3 // a first query, what is due, the removal
			}
			for message := range messages {
				t.Run(fmt.Sprintf("%s/%s/%d", fault, name, message), func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						q := w.queue()
						filled(t, q)
						_, err := q.Pop(ctx, 3) // so that all scripts are loaded
						require.NoError(t, err)
						seen := filled(t, q)
						var sent atomic.Int32 // each connection calls it by itself
						w.store.OnCommand(func(c fake.Command) {
							if c.Args[0] != "EVALSHA" {
								return
							}
							if int(sent.Add(1)) == message {
								harm(w.store)
							}
						})
						if message == 0 {
							harm(w.store)
						}
						got, err := operation.call(q, seen)
						require.NoError(t, err)
						assert.Equal(t, operation.want, got)
						w.store.OnCommand(nil)
						assert.Equal(t, operation.left, w.ids())
					})
				})
			}
		}
	}
}

// A lost answer is found even if another holder has queried the queue since. If another has changed
// it, the outcome is unknown.
func TestALostAnswerIsFoundOrReportedAsUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(w *world)
		want      error
	}{
		"nobody":       {func(*world) {}, nil},
		"one queried":  {func(w *world) { w.do("SET", fenceKey, 1<<53-1) }, nil},
		"one changed":  {func(w *world) { w.do("SET", fenceKey, 1<<53-1); w.do("DEL", "redquorum:queue:last:q") }, queue.ErrStale},
		"all was lost": {func(w *world) { w.do("FLUSHALL") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue()
				seen := filled(t, q)
				removed, err := q.Dequeue(ctx, "b", seen[1].Score)
				require.NoError(t, err)
				require.True(t, removed)
				w.store.CutAfterWrite(1)
				var begun atomic.Bool
				w.store.OnCommand(func(c fake.Command) {
					if c.Args[0] == "EVALSHA" && !begun.Swap(true) {
						test.meanwhile(w)
					}
				})
				removed, err = q.Dequeue(ctx, "a", seen[0].Score)
				if test.want == nil {
					require.NoError(t, err)
					assert.Equal(t, name != "all was lost", removed)
					return
				}
				require.ErrorIs(t, err, test.want)
				var call *pool.CallError
				require.ErrorAs(t, err, &call)
				assert.Equal(t, pool.Unknown, call.Fate)
				assert.False(t, removed)
			})
		})
	}
}

// If it stays unknown whether the tasks were removed, the caller gets them at least.
func TestTasksInDoubtComeWithTheError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(queue.WithTimeout(500 * time.Millisecond))
		seen := filled(t, q)
		short, cancel := context.WithCancel(ctx)
		var messages atomic.Int32
		w.store.OnCommand(func(c fake.Command) {
			if c.Args[0] != "EVALSHA" {
				return
			}
			if messages.Add(1) == 3 { // first query, due, settle
				w.store.MuteReplies(true)
				cancel() // no longer matters
			}
		})
		began := w.clock.Now()
		tasks, err := q.Pop(short, 2)
		var call *pool.CallError
		require.ErrorAs(t, err, &call)
		assert.Equal(t, pool.Unknown, call.Fate)
		assert.Equal(t, seen[:2], tasks)
		assert.Equal(t, 500*time.Millisecond, w.clock.Now().Sub(began))
		w.store.OnCommand(nil)
		w.store.MuteReplies(false)
		assert.Equal(t, []string{"c"}, w.ids())
	})
}

func TestACancelledPopLosesNothing(t *testing.T) {
	for message := 1; message <= 3; message++ {
		inBubble(t, func(t *testing.T, w *world) {
			q := w.queue()
			filled(t, q)
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			var messages atomic.Int32
			w.store.OnCommand(func(c fake.Command) {
				if c.Args[0] == "EVALSHA" {
					if int(messages.Add(1)) == message {
						cancel()
					}
				}
			})
			tasks, err := q.Pop(short, 2)
			w.store.OnCommand(nil)
			settle()
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				assert.Empty(t, tasks)
				assert.Len(t, w.ids(), 3)
			} else {
				assert.Equal(t, []string{"a", "b"}, idsOf(tasks))
				assert.Equal(t, []string{"c"}, w.ids())
			}
		})
	}
}
