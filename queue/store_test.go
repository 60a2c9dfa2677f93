package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

func TestAStoreThatIsAwayFailsCallsInTime(t *testing.T) {
	for fault, harm := range map[string]func(store *fakeredis.Node){
		"killed":  (*fakeredis.Node).Kill,
		"stopped": (*fakeredis.Node).Stop,
		"mute":    func(store *fakeredis.Node) { store.Mute(true) },
	} {
		for name, operation := range operations {
			t.Run(fault+"/"+name, func(t *testing.T) {
				inBubble(t, func(w *world, q *user) {
					seen := q.filled()
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
				}, queue.WithTimeout(300*time.Millisecond))
			})
		}
	}
}

func TestAKeyThatIsNotAQueueIsReportedAtOnceAndLeftAlone(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
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
		assert.Equal(t, []string{"Queue:q"}, w.store.Keys())
	})
}

func TestAnEndedContextIsReported(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		other := w.queue()
		q.filled()
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
		other.add(0, "z")
		_, err = other.Remove(ctx, "x", "z")
		require.NoError(t, err)
		settle()
		assert.Equal(t, []string{"a", "b", "c"}, w.ids())
		assert.NotEqual(t, before, w.content(), "the fences have changed")
	})
}

func TestTheLockIsWaitedForUntilTheContextEnds(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		lock, err := w.locker().Lock(ctx, "Queue:q")
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = q.Enqueue(short, []string{"a"}, 0)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, w.content())
		require.NoError(t, lock.Unlock(ctx))
		q.add(0, "a")
	})
}

func TestAClosedQueueReturnsErrClosed(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.filled()
		require.Len(t, q.popped(3), 3)
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
		_, err := q.Top(ctx, 1)
		require.ErrorIs(t, err, pool.ErrClosed)
		lock, err := q.locker.TryLock(ctx, "Queue:q")
		require.NoError(t, err, "the Locker stays open, and nothing holds the lock")
		require.NoError(t, lock.Unlock(ctx))
	})
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
		"one changed":  {func(w *world) { w.do("SET", fenceKey, 1<<53-1); w.do("DEL", answerKey) }, queue.ErrStale},
		"all was lost": {func(w *world) { w.do("FLUSHALL") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				seen := q.filled()
				w.store.CutAfterWrite(1)
				w.atScript(1, func() { test.meanwhile(w) })
				removed, err := q.Dequeue(ctx, "a", seen[0].Score)
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
	inBubble(t, func(w *world, q *user) {
		seen := q.filled()
		short, cancel := context.WithCancel(ctx)
		w.atScript(3, func() { // the removal
			w.store.MuteReplies(true)
			cancel() // no longer matters
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
	}, queue.WithTimeout(500*time.Millisecond))
}

func TestACancelledPopLosesNothing(t *testing.T) {
	for message := 1; message <= 3; message++ {
		inBubble(t, func(w *world, q *user) {
			q.filled()
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			w.atScript(message, cancel)
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

// A token far ahead would stay the newest that the store has seen, and block the queue for just as
// long.
func TestAQueueGoesOnAfterTheClockOfOneMasterWasWrong(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.add(0, "a")
		// The third answers last, so that the first is one of the first two.
		w.masters[2].Delay(func() time.Duration { return time.Millisecond }, nil)
		w.masters[0].SetClock(365*24*time.Hour, 1)
		q.add(0, "b")
		w.masters[0].SetClock(0, 1)
		w.masters[0].Restart(false)
		time.Sleep(11 * time.Minute) // the other counters expire
		q.add(0, "c")
		assert.Equal(t, []string{"a", "b", "c"}, q.popped(10))
	})
}

// A holder that was stopped beyond its TTL, at any point, and goes on after another one has changed
// the queue, is refused.
func TestAHolderThatWritesLateIsRefused(t *testing.T) {
	const ttl = time.Second
	for name, operation := range operations {
		for message := 1; message <= operation.messages; message++ {
			if name == "Pop" && message == 1 {
				continue // it has no lock yet
			}
			t.Run(fmt.Sprintf("%s/%d", name, message), func(t *testing.T) {
				inBubble(t, func(w *world, other *user) {
					late := w.queueOf(w.locker(redlock.WithTTL(ttl), redlock.WithoutRenewal()), queue.WithTimeout(time.Minute))
					seen := late.filled()
					var sent atomic.Int32
					w.store.Delay(func() time.Duration {
						if int(sent.Add(1)) == message {
							return 10 * ttl
						}
						return 0
					}, nil)
					var got any
					done := make(chan error, 1)
					go func() {
						var err error
						got, err = operation.call(late, seen)
						done <- err
					}()
					time.Sleep(ttl / 2)
					lock, err := other.locker.TryLock(ctx, "Queue:q")
					require.ErrorIs(t, err, redlock.ErrTaken, "it has the lock, not %v", lock)

					other.add(time.Minute, "other")
					// A late holder learns that it is stale even if it would find nothing.
					_, err = other.Remove(ctx, "a", "b", "c")
					require.NoError(t, err)
					settle()
					before := w.content()
					require.Empty(t, done, "it has not written yet")
					err = <-done
					require.ErrorIs(t, err, queue.ErrStale)
					require.ErrorIs(t, err, fence.ErrStale)
					assert.Contains(t, []any{nil, false, 0, ""}, got)
					settle()
					assert.Equal(t, before, w.content(), "a stale holder has changed something")
				})
			})
		}
	}
}

func TestTheStoreKeepsTheNewestFenceExactly(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		for _, newest := range []int64{1<<53 - 1, 1<<53 - 2, 1 << 52} {
			w.do("SET", fenceKey, newest)
			require.ErrorIs(t, q.Enqueue(ctx, []string{"a"}, 0), queue.ErrStale)
			value, _, _ := w.store.Get(fenceKey)
			assert.Equal(t, strconv.FormatInt(newest, 10), value)
			assert.Empty(t, w.entries())
		}
		lock, err := w.locker(redlock.WithFencing()).TryLock(ctx, "Queue:q")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		w.do("SET", fenceKey, lock.Fence())
		q.add(0, "a")
		value, left, _ := w.store.Get(fenceKey)
		assert.Equal(t, fakeredis.NoExpiry, left, "a stale holder may come at any time")
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		assert.Greater(t, n, lock.Fence())
	})
}

// foreign is what others may write to the keys beside a queue.
var foreign = [][]any{
	{"HSET", "a", "1 1 1 1"}, {"HSET", "a", "5 5 70000\nx"}, {"SET", "text"}, {"SET", ""}, {"SET", "-1"}, {"SET", "nan"}, {"SET", "inf"}, {"SET", "1e300"}, {"SET", "9007199254740992"}, {"ZADD", 1, "x"},
}

func TestAQueueWorksWhateverOthersWroteBesideIt(t *testing.T) {
	for name, op := range operations {
		for _, key := range []string{fenceKey, answerKey, "redquorum:queue:task:q", "redquorum:queue:running:q", deadKey, "redquorum:queue:letter:q"} {
			for _, what := range foreign {
				t.Run(fmt.Sprint(name, key, what), func(t *testing.T) {
					inBubble(t, func(w *world, q *user) {
						seen := q.filled()
						w.do("DEL", key)
						w.do(what[0].(string), append([]any{key}, what[1:]...)...)
						got, err := op.call(q, seen)
						require.NoError(t, err)
						if key != deadKey { // where there is no dead letter then
							assert.Equal(t, op.want, got)
							assert.Equal(t, op.left, w.ids())
						}
						q.top(10)
						_, err = q.Dead(ctx, 10)
						require.NoError(t, err)
						_, err = q.Count(ctx)
						require.NoError(t, err)
					})
				})
			}
		}
	}
}

// Others' members stop nothing, whatever they are: what cannot be a task moves out of the way.
func TestAQueueWorksWhateverOthersWroteIntoIt(t *testing.T) {
	large := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		members []any // score, member, ...
		tasks   int   // of them
		strange int
	}{
		"larger than a reply": {[]any{0, large, "-inf", large + "y"}, 0, 2},
		"longer than an id":   {[]any{1, strings.Repeat("x", 1025)}, 0, 1},
		"empty":               {[]any{1, ""}, 0, 0}, // which no queue can have: it goes
		"as long as an id":    {[]any{1, strings.Repeat("x", 1024)}, 1, 0},
		"binary":              {[]any{1, "\x00\xff\x1b[2J\r\n"}, 1, 0},
		"odd scores":          {[]any{"-inf", "minus", "inf", "plus", "1e300", "far", "-5.5", "old", "0.1", "tenth"}, 3, 0},
		"very many":           {many(12000), 0, 12000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, q *user) {
				foreign := func() { w.do("ZADD", append([]any{"Queue:q"}, c.members...)...) }
				foreign()
				q.add(0, "a", "b")
				due := q.top(10)
				require.Len(t, due, c.tasks+2)
				first, err := q.Dequeue(ctx, due[0].ID, due[0].Score)
				require.NoError(t, err)
				assert.True(t, first, due[0])
				assert.Len(t, q.popped(10), c.tasks+1)
				assert.Empty(t, q.popped(10))

				foreign()
				q.add(0, "a", "b")
				handled, told := record{w: w}, ""
				run := q.running(handled.handle, queue.WithReport(func(err error) { told += err.Error() }))
				time.Sleep(time.Minute)
				run.end()
				assert.Len(t, handled.ids(), c.tasks+2)
				assert.Equal(t, c.strange > 0, strings.Contains(told, "no task ids"), told)
				var strange int
				for _, at := range w.entries() {
					if math.IsInf(at, 1) {
						strange++
					}
				}
				assert.GreaterOrEqual(t, strange, c.strange)
			})
		})
	}
}

// many returns members that are longer than an id.
func many(n int) (members []any) {
	for i := range n {
		members = append(members, i, fmt.Sprintf("%01025d", i))
	}
	return members
}

func TestAScoreInMillisecondsIsTold(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		var told []string
		run := q.running(nothing, queue.WithReport(func(err error) { told = append(told, err.Error()) }))
		w.do("ZADD", "Queue:q", w.clock.Wall().UnixMilli(), "in\x1bms", "inf", "never")
		q.add(50*365*24*time.Hour, "as late as can be")
		time.Sleep(time.Minute)
		run.end()
		assert.Len(t, told, 1, told)
		assert.Contains(t, told[0], `task "in\x1bms" of "Queue:q" is due in more than 50 years`)
	})
}

// If the newest fence was overwritten, the last change still has it.
func TestALateHolderIsRefusedThoughTheNewestFenceWasOverwritten(t *testing.T) {
	inBubble(t, func(w *world, q *user) {
		q.filled()
		newest := time.Now().Add(5 * time.Second).UnixMicro()
		w.do("SET", answerKey, fmt.Sprint(newest, " ok"))
		w.do("SET", fenceKey, "text")
		require.Error(t, q.Enqueue(ctx, []string{"d"}, 0))
		assert.Equal(t, []string{"a", "b", "c"}, w.ids())
	})
}
