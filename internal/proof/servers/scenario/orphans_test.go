package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// An orphan is a key that outlives its attempt: a SET that reached the node after its release. All
// locks here live for longTTL, so that expiry cannot clean up.

const (
	delay  = 500 * time.Millisecond
	jitter = 400 * time.Millisecond
)

var directions = map[string]redistest.Direction{
	"requests": redistest.Requests, "replies": redistest.Replies, "both": redistest.Both,
}

func TestDelayedNodeKeepsNoKey(t *testing.T) {
	t.Parallel()
	for name, direction := range directions {
		for _, seed := range []uint64{1, 2} {
			t.Run(fmt.Sprint(name, "/seed ", seed), func(t *testing.T) {
				t.Parallel()
				c := cluster.Start(t, 5)
				proxy := redistest.NewProxy(t, c.Masters[2].Addr())
				urls := c.URLs()
				urls[2] = proxy.URL()
				l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL))
				proxy.Seed(seed)
				proxy.Delay(direction, delay, jitter)
				churn{workers: 8, rounds: 25, hold: 60 * time.Millisecond, seed: seed}.run(t, l)
				cluster.RequireClean(t, c.Masters...)
			})
		}
	}
}

// Here the delayed node is needed for a quorum: attempts win late, or lose and are granted
// afterwards.
func TestDelayedNodeThatIsNeededKeepsNoKey(t *testing.T) {
	t.Parallel()
	for name, direction := range directions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			proxy := redistest.NewProxy(t, c.Masters[2].Addr())
			urls := c.URLs()
			urls[2] = proxy.URL()
			nodeTimeout := delay + jitter*3/4
			if direction == redistest.Both {
				nodeTimeout *= 2
			}
			l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout))
			must(t, c.Masters[0].Kill())
			must(t, c.Masters[1].Kill())
			seed := seedOf(t)
			proxy.Seed(seed)
			proxy.Delay(direction, delay, jitter)
			churn{workers: 100, rounds: 2, hold: 200 * time.Millisecond, losing: true, seed: seed}.run(t, l)
			cluster.RequireClean(t, c.Masters[2:]...)
		})
	}
}

// cut breaks connections of a proxy, each time in one of three ways. Without a connection it does
// nothing: a cut that waits for the next one would only keep the client out.
func cut(rng *rand.Rand, proxy *redistest.Proxy) {
	if proxy.Connections() == 0 {
		return
	}
	switch rng.IntN(3) {
	case 0:
		proxy.CutReplies(rng.IntN(60))
	case 1:
		proxy.CutAfterRequest()
	case 2:
		proxy.Reset()
	}
}

func TestConnectionsLostInTheMiddleLeaveNoKey(t *testing.T) {
	t.Parallel()
	for _, broken := range []int{1, 5} {
		t.Run(fmt.Sprint(broken, " of 5 nodes"), func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			proxies, urls := c.BehindProxies(t)
			l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL))
			seed := seedOf(t)
			stop := disturb(seed, 20*time.Millisecond, func(rng *rand.Rand) { cut(rng, proxies[rng.IntN(broken)]) })
			churn{workers: 8, rounds: 25, hold: 60 * time.Millisecond, seed: seed}.run(t, l)
			cuts := stop()
			for _, proxy := range proxies {
				proxy.Heal()
			}
			t.Logf("%d cuts tried, %d connections", cuts, connects(l))
			cluster.RequireClean(t, c.Masters...)
		})
	}
}

func TestContextThatEndsAtAnyMomentLeavesNoKey(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		proxies, urls := c.BehindProxies(t)
		l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL))
		seed := seedOf(t)
		for i, proxy := range proxies {
			proxy.Seed(seed + uint64(i))
			proxy.Delay(redistest.Both, 500*time.Microsecond, 400*time.Microsecond)
		}
		limit := 3 * time.Millisecond
		if !c.Real {
			limit *= 4 // a miniredis is slower
		}
		churn{workers: 6, rounds: 50, limit: limit, losing: true, seed: seed}.run(t, l)
		cluster.RequireClean(t, c.Masters...)
	})
}

func TestNodeThatIsStoppedNowAndThenKeepsNoKey(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pool.Option{
		"connection kept":     nil,
		"connection given up": {pool.WithStallTimeout(30 * time.Millisecond), pool.WithDialTimeout(50 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(100*time.Millisecond),
				redlock.WithPool(append([]pool.Option{pool.WithClientName("stopped-now-and-then")}, opts...)...))
			seed := seedOf(t)
			// Up to three at once, so that attempts are lost too.
			stops := 0
			stop := disturb(seed, 20*time.Millisecond, func(rng *rand.Rand) {
				first, n := rng.IntN(3), 1+rng.IntN(3)
				for _, m := range c.Masters[first : first+n] {
					assert.NoError(t, m.Stop())
				}
				stops += n
				time.Sleep(upTo(rng, 300*time.Millisecond))
				for _, m := range c.Masters[first : first+n] {
					assert.NoError(t, m.Continue())
				}
			})
			churn{workers: 8, rounds: 25, hold: 120 * time.Millisecond, seed: seed}.run(t, l)
			stop()
			t.Logf("%d stops, %d connections", stops, connects(l))
			cluster.RequireClean(t, c.Masters...)
		})
	}
}

// connects returns how many connections a Locker has made.
func connects(l *redlock.Locker) (n uint64) {
	for _, node := range l.Stats().Nodes {
		n += node.Connects
	}
	return n
}

func TestReleaseThatANodeRefusedIsDeliveredWhenItIsWell(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{busy, readOnly} {
		t.Run(f.name, func(t *testing.T) {
			c := cluster.Start(t, 5)
			l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			lock, err := l.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			cluster.Eventually(t, slack, func() string {
				if n := c.Holding(t, cluster.LockName(t), lock.Value()); n < 5 {
					return fmt.Sprint(n, " nodes hold it")
				}
				return ""
			})
			heal := f.begin(t, c.Masters[4], cluster.LockName(t))
			require.NoError(t, lock.Unlock(t.Context()))
			cluster.RequireClean(t, c.Masters[:4]...)
			heal()
			cluster.RequireClean(t, c.Masters...)
		})
	}
}
