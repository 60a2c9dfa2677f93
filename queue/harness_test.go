package queue_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

var ctx = context.Background()

// world is a fake store and three fake masters of the lock, in virtual time.
type world struct {
	t       *testing.T
	clock   *clocktest.Clock
	store   *fake.Node
	masters fake.Cluster
}

// inBubble runs a test in virtual time (see [fake.InBubble]).
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	fake.InBubble(t, 4, func(t *testing.T, clk *clocktest.Clock, nodes fake.Cluster) {
		test(t, &world{t: t, clock: clk, store: nodes[3], masters: nodes[:3]})
	})
}

func (w *world) dialer() pool.Option {
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "store:6379" {
			return w.store.Dial(ctx)
		}
		return w.masters.Dial(ctx, network, address)
	})
}

func (w *world) locker(opts ...redlock.Option) *redlock.Locker {
	w.t.Helper()
	standard := []redlock.Option{redlock.WithClock(w.clock), redlock.WithPool(w.dialer())}
	l, err := redlock.New(w.masters.Endpoints(), append(standard, opts...)...)
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
	opts = append(opts, queue.WithPool(pool.WithClock(w.clock), w.dialer()))
	q, err := queue.New(l, "store:6379", "q", opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, q.Close()) })
	synctest.Wait()
	return q
}

// do sends a command to the store on a connection of its own.
func (w *world) do(name string, args ...any) any {
	w.t.Helper()
	return w.store.Do(w.t, name, args...)
}

// entries returns the scores of what is in the queue, by id.
func (w *world) entries() map[string]float64 {
	w.t.Helper()
	entries, err := redis.Float64Map(w.do("ZRANGE", "Queue:q", 0, -1, "WITHSCORES"), nil)
	require.NoError(w.t, err)
	return entries
}

// content returns all that the store holds: the queue, and the value of every other key.
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

// now returns the store's time as a score.
func (w *world) now() float64 { return float64(w.clock.Wall().UnixMicro()) / 1e6 }

func idsOf(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

var settle = fake.Settle
