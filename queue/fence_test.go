package queue_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A token far ahead would stay the newest that the store has seen, and block the queue for just as
// long.
func TestAQueueGoesOnAfterTheClockOfOneMasterWasWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
		// The third answers last, so that the first is one of the first two.
		w.masters[2].Delay(func() time.Duration { return time.Millisecond }, nil)
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

// gate lets a number of writes pass, and blocks later ones until it is opened.
type gate struct {
	net.Conn
	state *gateState
}

type gateState struct {
	mu     sync.Mutex
	left   int // writes that may pass; all if negative
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

// A holder that was stopped beyond its TTL, at any point, and goes on after another one has changed
// the queue, is refused.
func TestAHolderThatWritesLateIsRefused(t *testing.T) {
	const ttl = time.Second
	for name, operation := range operations {
		messages := 1
		if name == "Pop" {
			messages = 2 // beside its first query, without the lock
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
						g.left++ // the first query
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
					require.ErrorIs(t, err, redlock.ErrTaken, "it has the lock, not %v", lock)

					require.NoError(t, other.Enqueue(ctx, []string{"other"}, time.Minute))
					// A late holder learns that it is stale even if it would find nothing.
					_, err = other.Remove(ctx, "a", "b", "c")
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

// As long as no other holder has come, a late one is still the newest: its change is in order.
func TestALateHolderWithoutASuccessorIsNotRefused(t *testing.T) {
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
		assert.Equal(t, fake.NoExpiry, left, "a stale holder may come at any time")
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		assert.Greater(t, n, lock.Fence())
	})
}

func TestErrStaleMatchesThatOfPackageFence(t *testing.T) {
	require.ErrorIs(t, queue.ErrStale, fence.ErrStale)
}
