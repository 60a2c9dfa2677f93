package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// shop is the five masters of a queue's lock, and its store.
type shop struct {
	*cluster.Cluster
	store *redistest.Server
}

func startShop(tb testing.TB) *shop {
	tb.Helper()
	return &shop{cluster.Start(tb, 5), redistest.StartOne(tb)}
}

// queue returns the queue of that name, with a Locker of its own.
func (s *shop) queue(tb testing.TB, name string, opts ...queue.Option) *queue.Queue {
	tb.Helper()
	q, err := queue.New(cluster.NewConnected(tb, s.URLs()), s.store.URL(), name,
		append([]queue.Option{queue.WithTimeout(4 * slack)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, q.Close()) })
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
	require.Len(t, popped, 2)
	assert.Equal(t, []string{"c", "a"}, []string{popped[0].ID, popped[1].ID})
	n, err := q.Remove(ctx, "b", "c")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	n, err = q.Len(ctx)
	require.NoError(t, err)
	assert.Zero(t, n)
}

// A task begins when it is due by the clock of the store, which is that of this machine, and never
// before. How late it is depends on the machine: see BenchmarkQueueDelay.
func TestQueueHonoursDelays(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	late := s.delays(t, sizeOf(t, 100, 2000))
	t.Logf("late by %v at least, %v in the median, %v at most", late[0], late[len(late)/2], late[len(late)-1])
	assert.GreaterOrEqual(t, late[0], time.Duration(0), "too early")
	assert.Empty(t, s.entries(t, cluster.LockName(t)))
}

// BenchmarkQueueDelay reports how late a task begins that a waiting worker knows about.
func BenchmarkQueueDelay(b *testing.B) {
	late := startShop(b).delays(b, max(b.N, 100))
	b.ReportMetric(0, "ns/op") // it is what the delays are
	for unit, d := range map[string]time.Duration{"late-p50-ms": late[len(late)/2], "late-max-ms": late[len(late)-1]} {
		b.ReportMetric(float64(d)/float64(time.Millisecond), unit)
	}
}

// delays enqueues tasks while a worker waits, each with a delay below a second. It returns how late
// each began, sorted.
func (s *shop) delays(tb testing.TB, tasks int) (late []time.Duration) {
	tb.Helper()
	name := cluster.LockName(tb)
	q, worker := s.queue(tb, name), s.queue(tb, name)
	ctx, stop := context.WithTimeout(tb.Context(), time.Minute+time.Duration(tasks)*100*time.Millisecond)
	defer stop()
	var mu sync.Mutex
	var run sync.WaitGroup
	run.Go(func() {
		assert.NoError(tb, worker.Run(ctx, func(_ context.Context, task queue.Task) error {
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
		require.NoError(tb, q.Enqueue(tb.Context(), []string{fmt.Sprint(i)}, time.Duration(i*37%1000)*time.Millisecond))
		time.Sleep(10 * time.Millisecond) // enqueued while the worker waits
	}
	run.Wait()
	require.Len(tb, late, tasks, "not all have been handled")
	slices.Sort(late)
	return late
}

// The store loses replies with a broken connection. No task is lost or delivered twice while
// connections are cut.
func TestQueueLosesNothingWithItsConnections(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	name := cluster.LockName(t)
	q := s.queue(t, name)
	proxy := redistest.NewProxy(t, s.store.Addr())
	l := cluster.NewConnected(t, s.URLs())
	tasks := sizeOf(t, 1000, 10000)
	var ids []string
	for i := range tasks {
		ids = append(ids, fmt.Sprint(i))
	}
	require.NoError(t, q.Enqueue(t.Context(), ids, 0))
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
		worker, err := queue.New(l, proxy.URL(), name, queue.WithTimeout(10*time.Second))
		require.NoError(t, err)
		defer worker.Close()
		all.Go(func() {
			for {
				harm()
				tasks, err := worker.Pop(t.Context(), 1)
				assert.NoError(t, err)
				if err != nil || len(tasks) == 0 {
					return
				}
				mu.Lock()
				for _, task := range tasks {
					popped[task.ID]++
				}
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

// The lock and the queue have the same name. If they share a database, the store says what is
// wrong.
func TestQueueInADatabaseOfTheLockSaysSo(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	l := cluster.NewConnected(t, c.URLs())
	q, err := queue.New(l, c.Masters[0].URL(), "a")
	require.NoError(t, err)
	defer q.Close()
	err = q.Enqueue(t.Context(), []string{"a"}, 0)
	assert.ErrorContains(t, err, "WRONGTYPE")
	apart, err := queue.New(cluster.NewConnected(t, c.URLs(), redlock.WithKeyPrefix("lock:")), c.Masters[0].URL(), "a")
	require.NoError(t, err)
	defer apart.Close()
	require.NoError(t, apart.Enqueue(t.Context(), []string{"a"}, 0))
	other, err := queue.New(l, c.Masters[0].URL()+"/1", "b")
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Enqueue(t.Context(), []string{"a"}, 0))
}
