package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/load"
	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// crowdSize is how many wait.
type crowdSize struct {
	waiters, names int
	settle         time.Duration // before they are measured
}

// wait measures a crowd, and fails if it leaves anything behind.
func wait(tb testing.TB, c *cluster, s *size) map[string]float64 {
	tb.Helper()
	var w *waiting
	repeat(tb, func() {
		w = measureWaiting(tb, c, &s.waiting)
		n := float64(s.waiting.waiters)
		if left := w.heapClosed * n; left > heapNoise+heapLeaked*n {
			tb.Fatalf("%.0f bytes of heap are left after Close, %.0f per waiter", left, w.heapClosed)
		}
	})
	return map[string]float64{
		"heap-B/waiter":      w.heap,
		"library-goroutines": float64(w.library),
		"leave-ms":           load.Millis(w.leaving),
	}
}

// More heap than this after Close is a leak. The first is noise of the runtime and of the rest of
// this process (0.7 MB was seen); the second is less per waiter than anything that stands for one.
const (
	heapNoise  = 1.5e6 // bytes
	heapLeaked = 64.0  // bytes per waiter
)

// waiting is what a Locker used while many waited, and after.
type waiting struct {
	heap       float64 // bytes per waiter
	heapClosed float64 // likewise, after Close
	library    int     // goroutines, the most at once
	leaving    time.Duration
}

// goroutinesPerNode bounds the goroutines of a Locker: per node one that reads, one that writes
// and, for a moment, one for deadlines. The rest is for the schedules, which also run for a moment.
const goroutinesPerNode = 6

// leaveTimeout bounds the wait for what has to disappear.
const leaveTimeout = time.Minute

// measureWaiting lets a crowd wait. It fails when anything is left, or a waiter gets a name.
func measureWaiting(tb testing.TB, c *cluster, s *crowdSize) *waiting {
	tb.Helper()
	n, names, settle := s.waiters, s.names, s.settle
	holder := holdNames(tb, c, names)
	goroutinesBefore := goroutinesAtRest()
	locker := c.locker(tb)
	w := &waiting{}
	crowd := newCrowd(locker, n, names)
	makeGoroutines(2 * n)
	heapBefore := load.LiveHeap()

	crowd.start()
	for begin := time.Now(); time.Since(begin) < settle; time.Sleep(load.GoroutineSample) {
		w.library = max(w.library, runtime.NumGoroutine()-n-goroutinesBefore)
	}
	require.Zero(tb, crowd.left.Load(), "everyone waits")
	w.heap = perWaiter(load.LiveHeap(), heapBefore, n)

	w.leaving = crowd.leave()
	require.NoError(tb, crowd.verdict())
	// Calls that are still under way leave keys that go by themselves.
	awaitAtMost(tb, "keys on the servers", nodes*names, func() int { return c.keysLeft(tb) })
	awaitAtMost(tb, "goroutines when the waiters had left", goroutinesBefore+goroutinesPerNode*nodes, runtime.NumGoroutine)
	require.NoError(tb, locker.Close())
	awaitAtMost(tb, "goroutines after Close", goroutinesBefore, runtime.NumGoroutine)
	w.heapClosed = perWaiter(load.LiveHeap(), heapBefore, n)
	runtime.KeepAlive(crowd) // it counted before, too
	require.NoError(tb, holder.Close())
	awaitAtMost(tb, "keys on the servers when both Lockers were closed", 0, func() int { return c.keysLeft(tb) })
	return w
}

// holdNames acquires the names with a Locker of their own, which lives until it is closed.
func holdNames(tb testing.TB, c *cluster, n int) *redlock.Locker {
	tb.Helper()
	locker := c.locker(tb, redlock.WithTTL(maxTTL))
	for i := range n {
		_, err := locker.TryLock(tb.Context(), names[i])
		require.NoError(tb, err)
	}
	return locker
}

// makeGoroutines starts n goroutines at once, and ends them. The runtime never frees what
// describes a goroutine. Made before anything is weighed, it does not count as heap that a waiter
// uses, or leaves.
func makeGoroutines(n int) {
	end := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// goroutinesAtRest returns the number of goroutines, without those that run for a moment.
func goroutinesAtRest() int {
	least := runtime.NumGoroutine()
	for range 20 {
		time.Sleep(time.Millisecond)
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// awaitAtMost waits until a number is small enough.
func awaitAtMost(tb testing.TB, what string, most int, number func() int) {
	tb.Helper()
	masters.Eventually(tb, leaveTimeout, func() string {
		if n := number(); n > most {
			return fmt.Sprintf("%d %s, there were %d", most, what, n)
		}
		return ""
	})
}

func perWaiter(after, before float64, n int) float64 { return (after - before) / float64(n) }

// crowd is the goroutines that wait.
type crowd struct {
	locker  *redlock.Locker
	names   int
	ctxs    []context.Context // one per waiter, made before anything is weighed
	cancels []context.CancelFunc
	errs    []error // by waiter, written by it when it returns
	all     sync.WaitGroup
	left    atomic.Int64 // waiters that have returned
}

func newCrowd(locker *redlock.Locker, n, names int) *crowd {
	c := &crowd{locker: locker, names: names, errs: make([]error, n)}
	for range n {
		ctx, cancel := context.WithCancel(context.Background())
		ctx.Done() // the first call makes the channel, which is not the library's cost
		c.ctxs, c.cancels = append(c.ctxs, ctx), append(c.cancels, cancel)
	}
	return c
}

func (c *crowd) start() {
	for i := range c.ctxs {
		c.all.Go(func() {
			_, c.errs[i] = c.locker.Lock(c.ctxs[i], names[i%c.names])
			c.left.Add(1)
		})
	}
}

// leave ends all contexts, and returns how long it took until every waiter had returned.
func (c *crowd) leave() time.Duration {
	begin := time.Now()
	for _, cancel := range c.cancels {
		cancel()
	}
	c.all.Wait()
	return time.Since(begin)
}

// verdict returns an error unless every waiter returned because of its context.
func (c *crowd) verdict() error {
	for i, err := range c.errs {
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("waiter %d: got %w, want %w", i, err, context.Canceled)
		}
		c.errs[i] = nil // it must not count
	}
	return nil
}
