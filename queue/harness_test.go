package queue_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

var ctx = context.Background()

// world is a fake store and three fake masters of the lock, in virtual time.
type world struct {
	t       *testing.T
	clock   *clocktest.Clock
	store   *fakenode.Node
	masters []*fakenode.Node
}

// inBubble runs a test in virtual time. A goroutine that the test leaves running fails it, because
// synctest waits for all of them.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, clock: clocktest.New()}
		w.store = fakenode.New(w.clock)
		t.Cleanup(w.store.Close) // runs after those of the queues, which are created later
		for range 3 {
			master := fakenode.New(w.clock)
			t.Cleanup(master.Close)
			w.masters = append(w.masters, master)
		}
		test(t, w)
	})
}

func (w *world) dialer() pool.Option {
	return pool.WithDialer(func(ctx context.Context, _, address string) (net.Conn, error) {
		if address == "store:6379" {
			return w.store.Dial(ctx)
		}
		var i int
		if _, err := fmt.Sscanf(address, "node%d:6379", &i); err != nil {
			return nil, err
		}
		return w.masters[i].Dial(ctx)
	})
}

func (w *world) locker(opts ...redlock.Option) *redlock.Locker {
	w.t.Helper()
	opts = append([]redlock.Option{redlock.WithClock(w.clock), redlock.WithPool(w.dialer())}, opts...)
	l, err := redlock.New([]string{"node0:6379", "node1:6379", "node2:6379"}, opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, l.Close()) })
	synctest.Wait()
	return l
}

// queue returns the queue "q", with its own Locker.
func (w *world) queue(opts ...queue.Option) *queue.Queue {
	w.t.Helper()
	return w.queueOf(w.locker(), opts...)
}

func (w *world) queueOf(l *redlock.Locker, opts ...queue.Option) *queue.Queue {
	w.t.Helper()
	q, err := queue.New(l, "store:6379", "q", append(opts, queue.WithPool(pool.WithClock(w.clock), w.dialer()))...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, q.Close()) })
	synctest.Wait()
	return q
}

// do sends a command to the store over its own connection.
func (w *world) do(name string, args ...any) any {
	w.t.Helper()
	network, err := w.store.Dial(ctx)
	require.NoError(w.t, err)
	conn := redis.NewConn(network, 0, 0)
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	require.NoError(w.t, err)
	return reply
}

// entries returns the scores in the queue, by id.
func (w *world) entries() map[string]float64 {
	w.t.Helper()
	entries, err := redis.Float64Map(w.do("ZRANGE", "Queue:q", 0, -1, "WITHSCORES"), nil)
	require.NoError(w.t, err)
	return entries
}

// content returns everything in the store: the queue, and the value of every other key.
func (w *world) content() map[string]any {
	w.t.Helper()
	content := map[string]any{}
	for _, key := range w.store.Keys() {
		value, _, _ := w.store.Get(key)
		content[key] = value
	}
	for id, score := range w.entries() {
		content["Queue:q "+id] = score
	}
	return content
}

func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.entries())) }

// now returns the time of the store as a score.
func (w *world) now() float64 { return float64(w.clock.Wall().UnixMicro()) / 1e6 }

func idsOf(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// settle lets the background come to rest, in a moment of virtual time.
func settle() {
	time.Sleep(time.Microsecond)
	synctest.Wait()
}
