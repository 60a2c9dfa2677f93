package interop

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock"
)

const (
	contentionTime   = 2 * time.Second
	clientsOfEach    = 3
	longestHold      = 2 * time.Millisecond
	shortestRetry    = time.Millisecond // for both kinds, so that neither starves the other
	longestRetry     = 8 * time.Millisecond
	redsyncsAttempts = 1_000_000 // it goes on until its context ends
)

// interval is one tenure of the lock. It lies within the time during which the client certainly
// held it.
type interval struct {
	client     string // the kind of the holder
	begin, end time.Duration
}

// record collects the intervals of many goroutines.
type record struct {
	start time.Time // monotonic

	mu        sync.Mutex // guards the fields below
	intervals []interval
}

// hold works under the client's lock, and records when.
func (r *record) hold(client string) {
	begin := time.Since(r.start)
	time.Sleep(rand.N(longestHold))
	end := time.Since(r.start)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intervals = append(r.intervals, interval{client, begin, end})
}

// overlap returns two intervals of which one began before the other ended.
func overlap(intervals []interval) (first, second interval, found bool) {
	sorted := slices.SortedFunc(slices.Values(intervals), func(a, b interval) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].begin < sorted[i-1].end {
			return sorted[i-1], sorted[i], true
		}
	}
	return interval{}, interval{}, false
}

func TestOverlapIsFound(t *testing.T) {
	for _, c := range []struct {
		name      string
		intervals []interval
		want      bool
	}{
		{"none", nil, false},
		{"one after the other", []interval{{"a", 5, 7}, {"b", 1, 3}, {"a", 3, 5}}, false},
		{"one inside another", []interval{{"a", 1, 9}, {"b", 4, 5}}, true},
		{"by the last moment", []interval{{"b", 4, 9}, {"a", 1, 5}}, true},
	} {
		_, _, found := overlap(c.intervals)
		assert.Equal(t, c.want, found, c.name)
	}
}

func TestBothKindsShareOneNameWithoutOverlap(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), contentionTime)
	defer cancel()
	r := &record{start: time.Now()}
	var clients sync.WaitGroup
	for range clientsOfEach {
		clients.Go(func() { c.contendOurs(ctx, r) })
		clients.Go(func() { c.contendTheirs(ctx, r) })
	}
	clients.Wait()

	first, second, found := overlap(r.intervals)
	assert.False(t, found, "%+v and %+v", first, second)
	tenures := map[string]int{}
	for _, i := range r.intervals {
		tenures[i.client]++
	}
	t.Logf("%v tenures in %v", tenures, contentionTime)
	assert.Positive(t, tenures["redquorum"], "redquorum never had the lock")
	assert.Positive(t, tenures["redsync"], "redsync never had the lock")
	c.requireKey(name, "")
}

func (c *cluster) contendOurs(ctx context.Context, r *record) {
	for {
		lock, err := c.ours.Lock(ctx, name, redlock.WithRetry(shortestRetry, longestRetry))
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				c.t.Errorf("redquorum: %v", err)
			}
			return
		}
		r.hold("redquorum")
		if err := lock.Unlock(ctx); err != nil { // ctx does not cut it short
			c.t.Errorf("redquorum: %v", err)
		}
	}
}

func (c *cluster) contendTheirs(ctx context.Context, r *record) {
	mutex := c.mutex(name, redsync.WithTries(redsyncsAttempts), redsync.WithRetryDelayFunc(func(int) time.Duration {
		return shortestRetry + rand.N(longestRetry-shortestRetry)
	}))
	for ctx.Err() == nil { // an attempt that wins at once does not look at its context
		if err := mutex.LockContext(ctx); err != nil {
			if ctx.Err() == nil {
				c.t.Errorf("redsync: %v", err)
			}
			return
		}
		r.hold("redsync")
		ok, err := mutex.UnlockContext(context.WithoutCancel(ctx))
		if !ok {
			c.t.Errorf("redsync: not released: %v", err)
		}
	}
}
