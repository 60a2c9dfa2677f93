package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// stall is a pause of this process that makes a test about milliseconds worthless.
const stall = 4 * time.Millisecond

// heartbeat notices stalls of the machine, not of the library.
type heartbeat struct{ last atomic.Pointer[time.Time] }

func newHeartbeat(t *testing.T) *heartbeat {
	t.Helper()
	h := &heartbeat{}
	h.last.Store(&time.Time{})
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for before := time.Now(); ; before = time.Now() {
			select {
			case <-ending:
				return
			case <-time.After(time.Millisecond):
			}
			if now := time.Now(); now.Sub(before) > stall {
				h.last.Store(&now)
			}
		}
	}()
	t.Cleanup(func() {
		close(ending)
		<-ended
	})
	return h
}

// stalled reports whether there was a stall after since, or is one now.
func (h *heartbeat) stalled(since time.Time) bool {
	time.Sleep(2 * stall)
	return h.last.Load().After(since)
}

// A holder that renews is cut off from a majority at any moment of its renewals. Done closes before
// another client, which is not cut off, can get the lock.
func TestHoldingEndsBeforeAnotherCanHoldWhenCutOffFromAMajority(t *testing.T) {
	t.Parallel()
	const ttl, together = time.Second, 10
	c := cluster.Start(t, 5)
	seed, pulse := seedOf(t), newHeartbeat(t)
	other := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(patience))
	var tries sync.WaitGroup
	var next, closest atomic.Int64
	closest.Store(int64(time.Hour))
	n := sizeOf(t, 20, 200)
	for range together {
		tries.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || t.Failed() {
					return
				}
				gap, ok := cutOff(t, c, pulse, other, rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprint(cluster.LockName(t), i), ttl)
				for low := closest.Load(); ok && int64(gap) < low && !closest.CompareAndSwap(low, int64(gap)); {
					low = closest.Load()
				}
			}
		})
	}
	tries.Wait()
	t.Logf("the shortest time between two holders was %v", time.Duration(closest.Load()))
	assert.GreaterOrEqual(t, int(next.Load()), n)
}

// cutOff returns the time from the end of the holder, as seen by a goroutine that waits for Done,
// to the acquisition of the other client.
func cutOff(
	t *testing.T, c *cluster.Cluster, pulse *heartbeat, other *redlock.Locker, rng *rand.Rand, name string, ttl time.Duration,
) (gap time.Duration, ok bool) {
	var proxies []*redistest.Proxy
	var urls []string
	for _, m := range c.Masters {
		proxy, err := redistest.LaunchProxy(m.Addr())
		if !assert.NoError(t, err) {
			return 0, false
		}
		defer proxy.Close()
		proxies, urls = append(proxies, proxy), append(urls, proxy.URL())
	}
	holder, err := redlock.New(urls, redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	if !assert.NoError(t, err) {
		return 0, false
	}
	defer holder.Close()
	lock, err := holder.Lock(t.Context(), name)
	if !assert.NoError(t, err) {
		return 0, false
	}
	ended := make(chan time.Time, 1)
	done := lock.Done()
	go func() {
		<-done
		ended <- time.Now()
	}()
	time.AfterFunc(upTo(rng, ttl), func() {
		for _, i := range rng.Perm(len(proxies))[:3+rng.IntN(3)] {
			proxies[i].Drop(redistest.Both, true)
		}
	})
	next, err := other.Lock(t.Context(), name, redlock.WithRetry(time.Millisecond, 4*time.Millisecond))
	acquired := time.Now()
	left := lock.Remaining()
	if !assert.NoError(t, err) {
		return 0, false
	}
	assert.LessOrEqual(t, left, time.Duration(0), "%s: two hold it", name)
	assert.ErrorIs(t, lock.Err(), redlock.ErrLost)
	end := <-ended
	// Done needs a timer, and two goroutines that get to run.
	if late := end.Sub(acquired); late > 0 {
		report := t.Errorf
		if pulse.stalled(acquired.Add(-50 * time.Millisecond)) {
			report = t.Logf
		}
		report("%s: Done was seen closed %v after the other got the lock", name, late)
	}
	assert.NoError(t, next.Unlock(t.Context()))
	for _, proxy := range proxies {
		proxy.Heal()
	}
	return acquired.Sub(end), true
}
