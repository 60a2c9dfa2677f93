package scenario_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// shop is the masters of a queue's lock, and its store.
type shop struct {
	*cluster.Cluster
	store *redistest.Server
}

func startShop(t *testing.T) *shop {
	t.Helper()
	return &shop{cluster.Start(t, 3), redistest.StartOne(t)}
}

// queue returns the queue of that name, with a Locker of its own.
func (s *shop) queue(t *testing.T, name string, opts ...queue.Option) *queue.Queue {
	t.Helper()
	return s.at(t, s.store.URL(), name, opts...)
}

// at is [shop.queue] with the store at another endpoint.
func (s *shop) at(t *testing.T, store, name string, opts ...queue.Option) *queue.Queue {
	t.Helper()
	q, err := queue.New(cluster.NewConnected(t, s.URLs()), store, name, append([]queue.Option{queue.WithTimeout(aMinute)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// entries returns what is in a queue, by id.
func (s *shop) entries(t *testing.T, name string) map[string]float64 {
	t.Helper()
	entries, err := redis.Float64Map(s.store.Do("ZRANGE", "Queue:"+name, 0, -1, "WITHSCORES"))
	require.NoError(t, err)
	return entries
}

func TestQueueOnRealServers(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	ctx, name := t.Context(), cluster.LockName(t)
	q, first := s.queue(t, name), s.queue(t, name, queue.KeepFirst())

	before := time.Now()
	require.NoError(t, q.Enqueue(ctx, []string{"a", "b", "a"}, time.Minute))
	after := time.Now()
	require.Len(t, s.entries(t, name), 2)
	due := s.entries(t, name)["a"]
	assert.GreaterOrEqual(t, due, float64(before.Add(time.Minute).UnixMicro()-1)/1e6)
	assert.LessOrEqual(t, due, float64(after.Add(time.Minute).UnixMicro()+1)/1e6)
	text, err := redis.String(s.store.Do("ZSCORE", "Queue:"+name, "a"))
	require.NoError(t, err)
	assert.Contains(t, fmt.Sprintf("%.6f", due), text[:len("1700000000.12")], "seconds with a fraction")

	require.NoError(t, first.Enqueue(ctx, []string{"a", "c"}, 0))
	assert.Equal(t, due, s.entries(t, name)["a"])
	require.NoError(t, q.Enqueue(ctx, []string{"a"}, 0))
	assert.Less(t, s.entries(t, name)["a"], due)
	removed, err := q.Dequeue(ctx, "a", due)
	require.NoError(t, err)
	assert.False(t, removed, "an old score")

	top, err := q.Top(ctx, 10)
	require.NoError(t, err)
	popped, err := q.Pop(ctx, 10)
	require.NoError(t, err)
	assert.Equal(t, top, popped)
	assert.Equal(t, []string{"c", "a"}, taskIDs(popped))
	n, err := q.Remove(ctx, "b", "c")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	n, err = q.Len(ctx)
	require.NoError(t, err)
	assert.Zero(t, n)
}

func taskIDs(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// A task begins when it is due by the clock of the store, which is that of this machine, and never
// before. How late it is depends on the machine.
func TestQueueHonoursDelays(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	q, worker := s.queue(t, cluster.LockName(t)), s.queue(t, cluster.LockName(t))
	tasks := sizeOf(t, 50, 2000)
	running, stop := context.WithTimeout(t.Context(), aMinute+time.Duration(tasks)*100*time.Millisecond)
	defer stop()
	var mu sync.Mutex
	var late []time.Duration
	var run sync.WaitGroup
	run.Go(func() {
		assert.NoError(t, worker.Run(running, func(_ context.Context, task queue.Task) error {
			now := float64(time.Now().UnixMicro()) / 1e6
			mu.Lock()
			defer mu.Unlock()
			if late = append(late, time.Duration((now-task.Score)*1e6)*time.Microsecond); len(late) == tasks {
				stop()
			}
			return nil
		}))
	})
	for i := range tasks {
		require.NoError(t, q.Enqueue(t.Context(), []string{fmt.Sprint(i)}, time.Duration(i*37%1000)*time.Millisecond))
		time.Sleep(10 * time.Millisecond) // enqueued while the worker waits
	}
	run.Wait()
	require.Len(t, late, tasks, "not all have been handled")
	slices.Sort(late)
	t.Logf("late by %v at least, %v in the median, %v at most", late[0], late[len(late)/2], late[len(late)-1])
	assert.GreaterOrEqual(t, late[0], time.Duration(0), "too early")
}

// The store loses replies with a broken connection. No task is lost or delivered twice while
// connections are cut.
func TestQueueLosesNothingWithItsConnections(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	name := cluster.LockName(t)
	proxy := redistest.NewProxy(t, s.store.Addr())
	tasks := sizeOf(t, 400, 10000)
	var ids []string
	for i := range tasks {
		ids = append(ids, fmt.Sprint(i))
	}
	require.NoError(t, s.queue(t, name).Enqueue(t.Context(), ids, 0))
	var pops atomic.Int64
	harm := func() { // as often as there is progress, so that it does not keep itself up
		switch pops.Add(1) % 20 {
		case 0:
			proxy.CutAfterRequest()
		case 10:
			proxy.Reset()
		}
	}
	var mu sync.Mutex
	popped := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		worker := s.at(t, proxy.URL(), name)
		all.Go(func() {
			for {
				harm()
				tasks, err := worker.Pop(t.Context(), 1)
				if !assert.NoError(t, err) || len(tasks) == 0 {
					return
				}
				mu.Lock()
				popped[tasks[0].ID]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d cuts", pops.Load()/10)
	assert.Len(t, popped, tasks)
	for id, n := range popped {
		assert.Equal(t, 1, n, id)
	}
	assert.Empty(t, s.entries(t, name))
}

// haltingPoints are where a worker stops in Pop, and what happens to the tasks if it dies there.
// Its messages are a look, the query for due tasks (with its fence), and the removal.
var haltingPoints = []struct {
	at      string
	removed bool
	locked  bool // it has the lock, or had it
}{
	{"before 1", false, false},
	{"after 1", false, false},
	{"before 2", false, true},
	{"after 2", false, true},
	{"before 3", false, true},
	{"after 3", true, true},
}

var haltingTasks = []string{"a", "b", "c"}

// halted enqueues tasks, and starts a worker that halts when it pops them.
func (s *shop) halted(t *testing.T, at string) (*queue.Queue, *child.Process) {
	t.Helper()
	name := cluster.LockName(t)
	q := s.queue(t, name)
	require.NoError(t, q.Enqueue(t.Context(), haltingTasks, 0))
	worker := child.Start(t, child.Command("worker", on(s.Cluster, s.store.URL(), name, at)...))
	require.Equal(t, "at "+at, worker.Next(t))
	return q, worker
}

// A worker that dies in Pop takes tasks with it only if the store has removed them. Then nobody
// else gets them; otherwise the others get all of them.
func TestQueueWorkerIsKilledInPop(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	for _, point := range haltingPoints {
		t.Run(point.at, func(t *testing.T) {
			t.Parallel()
			q, worker := s.halted(t, point.at)
			must(t, worker.Kill())
			_, open := <-worker.Lines()
			require.False(t, open, "it has said nothing more")
			// It waits for the lock of the dead worker.
			require.NoError(t, q.Enqueue(t.Context(), []string{"d"}, 0))
			tasks, err := q.Pop(t.Context(), 10)
			require.NoError(t, err)
			want := append(slices.Clone(haltingTasks), "d")
			if point.removed {
				want = want[3:]
			}
			assert.Equal(t, want, taskIDs(tasks))
		})
	}
}

// A worker was stopped in Pop beyond its TTL, and continues when others have popped. Either it gets
// ErrStale and changes nothing, or it has the tasks and the others do not.
func TestQueueWorkerIsStoppedInPop(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	for _, point := range haltingPoints {
		t.Run(point.at, func(t *testing.T) {
			t.Parallel()
			q, worker := s.halted(t, point.at)
			must(t, worker.Stop())
			tasks, err := q.Pop(t.Context(), 10)
			require.NoError(t, err)
			require.NoError(t, q.Enqueue(t.Context(), []string{"later"}, time.Hour))
			before := s.content(t, cluster.LockName(t))
			must(t, worker.CloseInput())
			must(t, worker.Continue())
			said := worker.Next(t)
			switch {
			case point.removed:
				assert.Empty(t, tasks)
				assert.Equal(t, "popped [a b c] <nil>", said)
			case point.locked:
				assert.Equal(t, haltingTasks, taskIDs(tasks))
				assert.Contains(t, said, "popped [] ")
				assert.Contains(t, said, fence.ErrStale.Error())
			default: // it has the lock now, after the others, and finds nothing
				assert.Equal(t, haltingTasks, taskIDs(tasks))
				assert.Equal(t, "popped [] <nil>", said)
			}
			if point.locked {
				assert.Equal(t, before, s.content(t, cluster.LockName(t)), "a stale worker has changed something")
			}
		})
	}
}

// content returns everything that the store has of a queue.
func (s *shop) content(t *testing.T, name string) map[string]string {
	t.Helper()
	content := map[string]string{}
	for id, score := range s.entries(t, name) {
		content[id] = fmt.Sprintf("%.6f", score)
	}
	for _, key := range []string{"redquorum:queue:fence:", "redquorum:queue:last:"} {
		value, err := redis.String(s.store.Do("GET", key+name))
		require.NoError(t, err)
		content[key] = value
	}
	return content
}

// playWorker pops once, and halts at one of its messages to the store until its input ends.
func playWorker(self *child.Self) {
	store, name, urls := self.Args[0], self.Args[1], self.Args[3:]
	l := childLocker(self, urls, redlock.WithTTL(time.Second))
	halt := newHalt(self, self.Args[2])
	q, err := queue.New(l, store, name, queue.WithTimeout(aMinute),
		queue.WithPool(pool.WithDialer(halt.dial), pool.WithStallTimeout(aMinute), pool.WithIdlePing(aMinute)))
	require.NoError(self, err)
	_, err = q.Top(ctx, 1) // it connects, and loads the scripts
	require.NoError(self, err)
	halt.armed.Store(true)
	tasks, err := q.Pop(ctx, 5)
	self.Tell("popped", taskIDs(tasks), strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
}

// halt stops a process at one of its messages to the store: at "before 2" the second script is
// about to be sent, at "after 2" its reply is there and not yet read. The process says so, and
// continues when its input ends.
type halt struct {
	self          *child.Self
	at            string
	before, after int64
	sent          atomic.Int64
	armed         atomic.Bool
}

func newHalt(self *child.Self, at string) *halt {
	h := &halt{self: self, at: at}
	when, number, _ := strings.Cut(at, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	require.NoError(self, err)
	if when == "before" {
		h.before = n
	} else {
		h.after = n
	}
	return h
}

func (h *halt) wait() {
	h.self.Tell("at", h.at)
	for range h.self.Heard() {
	}
}

func (h *halt) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &haltingConn{conn, h}, nil
}

type haltingConn struct {
	net.Conn
	*halt
}

func (c *haltingConn) Write(p []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(p, []byte("EVALSHA")) && c.sent.Add(1) == c.before {
		c.wait()
	}
	return c.Conn.Write(p)
}

func (c *haltingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() && c.after != 0 && c.sent.Load() == c.after {
		c.sent.Add(1000)
		c.wait()
	}
	return n, err
}
