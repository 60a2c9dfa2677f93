package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const fenceKey = "redquorum:queue:fence:q"

// operations are all that change a queue which has the tasks a, b and c, due, and what they return and leave.
var operations = map[string]struct {
	call func(q *queue.Queue, seen []queue.Task) (any, error)
	want any
	left []string
}{
	"Enqueue": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		return nil, q.Enqueue(ctx, []string{"a", "d"}, time.Hour)
	}, nil, []string{"a", "b", "c", "d"}},
	"Dequeue": {func(q *queue.Queue, seen []queue.Task) (any, error) {
		return q.Dequeue(ctx, "b", seen[1].Score)
	}, true, []string{"a", "c"}},
	"Remove": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		return q.Remove(ctx, "a", "b", "x")
	}, 2, []string{"c"}},
	"Pop": {func(q *queue.Queue, _ []queue.Task) (any, error) {
		tasks, err := q.Pop(ctx, 2)
		return strings.Join(idsOf(tasks), ","), err
	}, "a,b", []string{"c"}},
}

// filled fills the queue, and returns what is in it.
func filled(t *testing.T, q *queue.Queue) []queue.Task {
	t.Helper()
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, q.Enqueue(ctx, []string{id}, 0))
		time.Sleep(time.Millisecond)
	}
	tasks, err := q.Top(ctx, 10)
	require.NoError(t, err)
	return tasks
}

// Whichever of the messages to the store is lost, or its answer, the call does what it should, once.
func TestALostMessageOrAnswerIsMadeGood(t *testing.T) {
	for fault, harm := range map[string]func(store *fakenode.Node){
		"answer lost":          func(store *fakenode.Node) { store.LoseReplies(1) },
		"message lost":         func(store *fakenode.Node) { store.LoseRequests(1) },
		"closed after it":      func(store *fakenode.Node) { store.CutAfterWrite(1) },
		"answer cut":           func(store *fakenode.Node) { store.CutReply(3) },
		"killed and restarted": func(store *fakenode.Node) { store.Restart(true) },
	} {
		for name, operation := range operations {
			messages := 1
			if name == "Pop" {
				messages = 3 // a look, what is due, the removal
			}
			for message := range messages {
				t.Run(fmt.Sprintf("%s/%s/%d", fault, name, message), func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						q := w.queue()
						filled(t, q)
						_, err := q.Pop(ctx, 3) // so that all scripts are known
						require.NoError(t, err)
						seen := filled(t, q)
						sent := 0
						w.store.OnCommand(func(c fakenode.Command) {
							if c.Args[0] != "EVALSHA" {
								return
							}
							if sent++; sent == message {
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

func TestAStoreThatIsAwayIsAnErrorInTime(t *testing.T) {
	for fault, harm := range map[string]func(store *fakenode.Node){
		"killed":  (*fakenode.Node).Kill,
		"stopped": (*fakenode.Node).Stop,
		"mute":    func(store *fakenode.Node) { store.Mute(true) },
	} {
		for name, operation := range operations {
			t.Run(fault+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(queue.WithTimeout(300 * time.Millisecond))
					seen := filled(t, q)
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
				})
			})
		}
	}
}

func TestTheWordsOfTheStoreAreShownAndNothingIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
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
	})
}

func TestAnEndedContextShows(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(), w.queue()
		filled(t, q)
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

		// A change that was given up is refused when it comes behind one of a later holder, and was made before it otherwise.
		w.store.Continue()
		settle()
		require.NoError(t, other.Enqueue(ctx, []string{"z"}, 0))
		_, err = other.Remove(ctx, "x", "z")
		require.NoError(t, err)
		settle()
		assert.Equal(t, []string{"a", "b", "c"}, w.ids())
		assert.NotEqual(t, before, w.content(), "the fences")
	})
}

func TestTheLockIsWaitedForUntilTheContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, l := w.queue(), w.locker()
		lock, err := l.Lock(ctx, "Queue:q")
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = q.Enqueue(short, []string{"a"}, 0)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, w.content())
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
	})
}

// gate lets a number of writes pass, and holds back those that follow until it is opened.
type gate struct {
	net.Conn
	state *gateState
}

type gateState struct {
	mu     sync.Mutex
	left   int // writes that pass; negative: all
	opened chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	g.state.mu.Lock()
	held := g.state.left == 0
	if g.state.left > 0 {
		g.state.left--
	}
	g.state.mu.Unlock()
	if held {
		<-g.state.opened
	}
	return g.Conn.Write(p)
}

// A holder that was stopped beyond its TTL, at any point, and goes on when another has changed the queue, is refused.
func TestAHolderThatWritesLateIsRefused(t *testing.T) {
	const ttl = time.Second
	for name, operation := range operations {
		messages := 1
		if name == "Pop" {
			messages = 2 // besides its look without the lock
		}
		for message := range messages {
			t.Run(fmt.Sprintf("%s/%d", name, message), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					g := &gateState{left: -1, opened: make(chan struct{})}
					l := w.locker(redlock.WithTTL(ttl), redlock.WithoutRenewal())
					dial := pool.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
						conn, err := w.store.Dial(ctx)
						return &gate{conn, g}, err
					})
					late, err := queue.New(l, "store:6379", "q", queue.WithTimeout(time.Minute),
						queue.WithPool(pool.WithClock(w.clock), dial, pool.WithIdlePing(time.Minute)))
					require.NoError(t, err)
					defer late.Close()
					other := w.queue()
					seen := filled(t, late)
					g.mu.Lock()
					g.left = message
					if name == "Pop" {
						g.left++ // the look
					}
					g.mu.Unlock()

					type result struct {
						got any
						err error
					}
					done := make(chan result, 1)
					go func() {
						got, err := operation.call(late, seen)
						done <- result{got, err}
					}()
					time.Sleep(ttl / 2)
					synctest.Wait()
					lock, err := w.locker().TryLock(ctx, "Queue:q")
					require.ErrorIs(t, err, redlock.ErrTaken, "it has the lock, and %v", lock)

					require.NoError(t, other.Enqueue(ctx, []string{"other"}, time.Minute))
					_, err = other.Remove(ctx, "a", "b", "c") // also one who finds nothing is told
					require.NoError(t, err)
					settle()
					before := w.content()
					close(g.opened)
					r := <-done
					require.ErrorIs(t, r.err, queue.ErrStale)
					require.ErrorIs(t, r.err, fence.ErrStale)
					assert.Contains(t, []any{nil, false, 0, ""}, r.got)
					settle()
					assert.Equal(t, before, w.content(), "a stale holder has changed something")
				})
			})
		}
	}
}

// While no other has come, a late holder is the newest still: what it does is in order.
func TestALateHolderWhomNobodyFollowedIsNotRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queueOf(w.locker(redlock.WithTTL(time.Second), redlock.WithoutRenewal()), queue.WithTimeout(time.Minute))
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		w.store.Stop()
		done := make(chan error, 1)
		go func() { done <- q.Enqueue(ctx, []string{"b"}, 0) }()
		time.Sleep(10 * time.Second)
		w.store.Continue()
		require.NoError(t, <-done)
		assert.Equal(t, []string{"a", "b"}, w.ids())
	})
}

func TestTheStoreKeepsTheNewestFenceExactly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		for _, newest := range []int64{1<<53 - 1, 1<<53 - 2, 1 << 52} {
			w.do("SET", fenceKey, newest)
			require.ErrorIs(t, q.Enqueue(ctx, []string{"a"}, 0), queue.ErrStale)
			value, _, _ := w.store.Get(fenceKey)
			assert.Equal(t, strconv.FormatInt(newest, 10), value)
			assert.Empty(t, w.entries())
		}
		l := w.locker(redlock.WithFencing())
		lock, err := l.TryLock(ctx, "Queue:q")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		w.do("SET", fenceKey, lock.Fence())
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		value, left, _ := w.store.Get(fenceKey)
		assert.Equal(t, fakenode.NoExpiry, left, "a stale holder may come at any time")
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		assert.Greater(t, n, lock.Fence())
	})
}

// The answer of what was done is found also where another has looked into the queue since; where another has changed it, nobody knows.
func TestAnAnswerThatIsLostIsFoundOrCalledUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(w *world)
		want      error
	}{
		"nobody":       {func(*world) {}, nil},
		"one looked":   {func(w *world) { w.do("SET", fenceKey, 1<<53-1) }, nil},
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
				first := true
				w.store.OnCommand(func(c fakenode.Command) {
					if c.Args[0] == "EVALSHA" && first {
						first = false
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

// When it stays unknown whether they were removed, the caller has the tasks, at least.
func TestTasksInDoubtComeWithTheError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(queue.WithTimeout(500 * time.Millisecond))
		seen := filled(t, q)
		short, cancel := context.WithCancel(ctx)
		messages := 0
		w.store.OnCommand(func(c fakenode.Command) {
			if c.Args[0] != "EVALSHA" {
				return
			}
			if messages++; messages == 3 { // look, due, settle
				w.store.MuteReplies(true)
				cancel() // does not matter any more
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
			messages := 0
			w.store.OnCommand(func(c fakenode.Command) {
				if c.Args[0] == "EVALSHA" {
					if messages++; messages == message {
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

func TestAClosedQueueSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		q := w.queueOf(l)
		filled(t, q)
		tasks, err := q.Pop(ctx, 3)
		require.NoError(t, err)
		require.Len(t, tasks, 3)
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
		_, err = q.Top(ctx, 1)
		require.ErrorIs(t, err, pool.ErrClosed)
		lock, err := l.TryLock(ctx, "Queue:q")
		require.NoError(t, err, "the Locker stays open, and nothing holds the lock")
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestManyCallersOfOneQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		queues := []*queue.Queue{w.queue(), w.queue(), w.queue()}
		const tasks = 300
		var mu sync.Mutex
		popped := map[string]int{}
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				for j := range tasks / 30 {
					assert.NoError(t, queues[i%3].Enqueue(ctx, []string{fmt.Sprint(i, ".", j)}, 0))
				}
			})
			all.Go(func() {
				for {
					got, err := queues[i%3].Pop(ctx, 1+i%5)
					assert.NoError(t, err)
					mu.Lock()
					for _, id := range idsOf(got) {
						popped[id]++
					}
					over := len(popped) == tasks
					mu.Unlock()
					if over {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		for id, n := range popped {
			assert.Equal(t, 1, n, id)
		}
		assert.Empty(t, w.entries())
	})
}
