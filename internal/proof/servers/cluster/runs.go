package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// Runs is when something ran that must not run twice at a time.
type Runs struct {
	mu    sync.Mutex // guards spans
	spans []span     // in the order of their ends
}

type span struct {
	from, to time.Time
	token    int64 // 0: without
	by       int   // the Locker, of a load
}

// RequireOneAtATime starts programs that have a Locker each, on the same three masters, and call
// run with their locks held, again and again. It requires that runs exclude each other, that there
// are n of them or more, and n more after a master is killed.
func RequireOneAtATime(t *testing.T, programs, n int, start func(l *redlock.Locker, run func(ctx context.Context))) {
	t.Helper()
	c := Start(t, 3)
	r := &Runs{}
	for range programs {
		start(NewConnected(t, c.URLs()), func(ctx context.Context) { r.run(ctx, span{}) })
	}
	r.await(t, n)
	require.NoError(t, c.Masters[0].Kill())
	r.await(t, r.Len()+n)
	r.requireOneAtATime(t)
}

func (r *Runs) requireOneAtATime(tb testing.TB) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.spans); i++ {
		one, before := r.spans[i], r.spans[i-1]
		assert.False(tb, one.from.Before(before.to), "run %d began before run %d ended", i, i-1)
		assert.True(tb, one.token == 0 || one.token > before.token, "run %d has token %d, the one before %d", i, one.token, before.token)
	}
}

// Load has each Locker take and give back the lock of the test until stopped, and wait for it for
// so long at most before it tries again. The end requires that runs exclude each other and that
// their tokens, if there are some, grow. It returns the longest time in which nobody had the lock.
func Load(tb testing.TB, patience time.Duration, lockers ...*redlock.Locker) (r *Runs, stop func() (longest time.Duration)) {
	tb.Helper()
	r = &Runs{}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for i, l := range lockers {
		workers.Go(func() {
			for ctx.Err() == nil {
				attempt, end := context.WithTimeout(ctx, patience)
				lock, err := l.Lock(attempt, LockName(tb))
				end()
				if err != nil {
					continue
				}
				r.run(lock.Context(context.Background()), span{token: lock.Fence(), by: i})
				_ = lock.Unlock(context.Background()) //nolint:errcheck // a master may be away
			}
		})
	}
	stop = sync.OnceValue(func() (longest time.Duration) {
		cancel()
		workers.Wait()
		r.requireOneAtATime(tb)
		for i := 1; i < len(r.spans); i++ {
			longest = max(longest, r.spans[i].from.Sub(r.spans[i-1].to))
		}
		return longest
	})
	tb.Cleanup(func() { stop() })
	return r, stop
}

// AwaitEach waits until each of so many Lockers of a load has had the lock n times more.
func (r *Runs) AwaitEach(tb testing.TB, lockers, n int) {
	tb.Helper()
	r.mu.Lock()
	before := len(r.spans)
	r.mu.Unlock()
	Eventually(tb, time.Minute, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		times := make([]int, lockers)
		for _, one := range r.spans[before:] {
			times[one.by]++
		}
		if slices.Min(times) < n {
			return fmt.Sprintf("each %d times, they had it %d times", n, times)
		}
		return ""
	})
}

// run takes longer than a lock does, or a load would be one of the machine. It is not counted if
// its context ended meanwhile: then the lock was lost, and others may have it.
func (r *Runs) run(ctx context.Context, one span) {
	one.from = time.Now()
	time.Sleep(50 * time.Millisecond)
	one.to = time.Now()
	if ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spans = append(r.spans, one)
	}
}

// Len returns how many runs there were.
func (r *Runs) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func (r *Runs) await(tb testing.TB, n int) {
	tb.Helper()
	Eventually(tb, time.Minute, func() string {
		if got := r.Len(); got < n {
			return fmt.Sprintf("%d runs, there were %d", n, got)
		}
		return ""
	})
}
