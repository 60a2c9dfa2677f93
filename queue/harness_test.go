package queue_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

var ctx = context.Background()

const (
	fenceKey  = "redquorum:queue:fence:q"
	answerKey = "redquorum:queue:last:q"
	deadKey   = "redquorum:queue:dead:q"
)

// world is a fake store and three fake masters of the lock, in virtual time.
type world struct {
	t       *testing.T
	clock   *clocktest.Clock
	store   *fakeredis.Node
	masters fakeredis.Cluster
}

// inBubble runs a test in virtual time (see [fakeredis.InBubble]), with a queue of these options.
func inBubble(t *testing.T, test func(w *world, q *user), opts ...queue.Option) {
	t.Helper()
	fakeredis.InBubble(t, 4, func(t *testing.T, clk *clocktest.Clock, nodes fakeredis.Cluster) {
		w := &world{t: t, clock: clk, store: nodes[3], masters: nodes[:3]}
		test(w, w.queue(opts...))
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

// user is one of those who use the queue "q".
type user struct {
	*queue.Queue
	w      *world
	locker *redlock.Locker
}

// queue returns a user with its own Locker.
func (w *world) queue(opts ...queue.Option) *user {
	w.t.Helper()
	return w.queueOf(w.locker(), opts...)
}

func (w *world) queueOf(l *redlock.Locker, opts ...queue.Option) *user {
	w.t.Helper()
	opts = append(opts, queue.WithPool(pool.WithClock(w.clock), w.dialer()))
	q, err := queue.New(l, "store:6379", "q", opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, q.Close()) })
	synctest.Wait()
	return &user{q, w, l}
}

// add enqueues tasks.
func (q *user) add(delay time.Duration, ids ...string) {
	q.w.t.Helper()
	require.NoError(q.w.t, q.Enqueue(ctx, ids, delay))
}

// popped returns the ids of the tasks that Pop returns.
func (q *user) popped(n int) []string {
	q.w.t.Helper()
	tasks, err := q.Pop(ctx, n)
	require.NoError(q.w.t, err)
	return idsOf(tasks)
}

func (q *user) top(n int) []queue.Task {
	q.w.t.Helper()
	tasks, err := q.Top(ctx, n)
	require.NoError(q.w.t, err)
	return tasks
}

// filled fills the queue with a, b and c, and returns them. The store knows all scripts then.
func (q *user) filled() []queue.Task {
	q.w.t.Helper()
	fill := func() {
		for _, id := range []string{"a", "b", "c"} {
			q.add(0, id)
			time.Sleep(time.Millisecond)
		}
	}
	fill()
	require.Len(q.w.t, q.popped(3), 3)
	fill()
	q.w.do("ZADD", deadKey, 1, "dead")
	return q.top(10)
}

// operations are all changes of a queue that is filled, with what they return and leave, and how
// many messages to the store they take.
var operations = map[string]struct {
	call     func(q *user, seen []queue.Task) (any, error)
	want     any
	left     []string
	messages int
}{
	"Enqueue": {func(q *user, _ []queue.Task) (any, error) {
		return nil, q.Enqueue(ctx, []string{"a", "d"}, time.Hour)
	}, nil, []string{"a", "b", "c", "d"}, 1},
	"Add": {func(q *user, _ []queue.Task) (any, error) {
		return nil, q.Add(ctx, []queue.Item{{ID: "a", Payload: []byte("x")}, {ID: "d"}}, time.Hour)
	}, nil, []string{"a", "b", "c", "d"}, 1},
	"Retry": {func(q *user, _ []queue.Task) (any, error) {
		return q.Retry(ctx, "a", "dead", "x")
	}, 1, []string{"a", "b", "c", "dead"}, 1},
	"Drop": {func(q *user, _ []queue.Task) (any, error) {
		return q.Drop(ctx, "a", "dead", "x")
	}, 1, []string{"a", "b", "c"}, 1},
	"Dequeue": {func(q *user, seen []queue.Task) (any, error) {
		return q.Dequeue(ctx, "b", seen[1].Score)
	}, true, []string{"a", "c"}, 1},
	"Remove": {func(q *user, _ []queue.Task) (any, error) {
		return q.Remove(ctx, "a", "b", "x")
	}, 2, []string{"c"}, 1},
	"Pop": {func(q *user, _ []queue.Task) (any, error) { // a look without the lock, what is due, the removal
		tasks, err := q.Pop(ctx, 2)
		return strings.Join(idsOf(tasks), ","), err
	}, "a,b", []string{"c"}, 3},
}

// do sends a command to the store on a connection of its own.
func (w *world) do(name string, args ...any) any {
	w.t.Helper()
	return w.store.Do(w.t, name, args...)
}

// atScript calls f when the store is about to run the nth script from now. Each connection calls it
// by itself.
func (w *world) atScript(nth int, f func()) {
	var ran atomic.Int32
	w.store.OnCommand(func(c fakeredis.Command) {
		if c.Args[0] == "EVALSHA" && int(ran.Add(1)) == nth {
			f()
		}
	})
}

// entries returns the scores of what is in the queue, by id.
func (w *world) entries() map[string]float64 {
	w.t.Helper()
	entries, err := redis.Float64Map(w.do("ZRANGE", "Queue:q", 0, -1, "WITHSCORES"), nil)
	require.NoError(w.t, err)
	return entries
}

func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.entries())) }

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

// now returns the store's time as a score.
func (w *world) now() float64 { return float64(w.clock.Wall().UnixMicro()) / 1e6 }

func idsOf(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

var settle = fakeredis.Settle

// workers is a Run in the background.
type workers struct {
	t    *testing.T
	stop context.CancelFunc
	over chan error
}

// running starts a Run.
func (q *user) running(handler func(context.Context, queue.Task) error, opts ...queue.RunOption) *workers {
	q.w.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := &workers{q.w.t, cancel, make(chan error, 1)}
	go func() { w.over <- q.Run(ctx, handler, opts...) }()
	settle()
	return w
}

// end stops the Run, and expects nil.
func (w *workers) end() {
	w.t.Helper()
	w.stop()
	assert.NoError(w.t, <-w.over)
}

// record keeps the tasks that a handler received, and how late.
type record struct {
	w     *world
	takes time.Duration // of the handler

	mu    sync.Mutex
	tasks []queue.Task
	late  []time.Duration
}

// handle is a handler that succeeds.
func (r *record) handle(_ context.Context, task queue.Task) error {
	r.mu.Lock()
	r.tasks = append(r.tasks, task)
	r.late = append(r.late, time.Duration((r.w.now()-task.Score)*1e6)*time.Microsecond)
	r.mu.Unlock()
	time.Sleep(r.takes)
	return nil
}

func (r *record) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return idsOf(r.tasks)
}
