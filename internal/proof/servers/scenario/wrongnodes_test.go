package scenario_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// wrongNodes makes n nodes that do not grant the lock of that name. Behind them may be masters,
// which must be left without a key.
type wrongNodes func(t *testing.T, name string, n int) (urls []string, behind []cluster.Master)

// onMinoritiesAndOnThree runs a test with one, two and three wrong nodes of five. The others are
// the healthy ones.
func onMinoritiesAndOnThree(t *testing.T, healthy []cluster.Master, words string, wrong wrongNodes) {
	t.Helper()
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint(n, " of 5"), func(t *testing.T) {
			urls, behind := wrong(t, cluster.LockName(t), n)
			for _, m := range healthy[n:] {
				urls = append(urls, m.URL())
			}
			if n < 3 {
				othersDecide(t, urls)
			} else {
				wrongOnesAreNamed(t, urls, n, words)
			}
			cluster.Eventually(t, cluster.CleanWithin, func() (left string) {
				for _, m := range slices.Concat(healthy[n:], behind) {
					if value := cluster.Holder(t, m, cluster.LockName(t)); value != "" {
						left += m.Addr() + " still holds " + value + "\n"
					}
				}
				return left
			})
		})
	}
}

// trusting lets servers vote that have just been started. Among wrong ones they look like a
// minority that restarted.
var trusting = redlock.WithQuarantine(redlock.QuarantineOff)

// othersDecide asserts that the healthy nodes grant and release locks as if the wrong ones did not
// exist.
func othersDecide(t *testing.T, urls []string) {
	t.Helper()
	const nodeTimeout = 1500 * time.Millisecond
	l := cluster.NewLocker(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout), trusting)
	for range 3 {
		began := time.Now()
		lock, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), longTTL))
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		assert.Less(t, time.Since(began), nodeTimeout, "nothing may wait for the wrong ones")
	}
}

// wrongOnesAreNamed asserts the error of a TryLock whose first n nodes, a majority, are wrong.
func wrongOnesAreNamed(t *testing.T, urls []string, n int, words string) {
	t.Helper()
	const nodeTimeout = 1500 * time.Millisecond // the right ones take less on a busy machine, too
	l := cluster.NewLocker(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout), trusting)
	for range 2 {
		began := time.Now()
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		assert.Less(t, time.Since(began), nodeTimeout+slack)
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		requireNodesSay(t, err, urls[:n], words)
	}
}

func TestNodesThatAreNoRedisAreOutvotedAndNamed(t *testing.T) {
	t.Parallel()
	healthy := cluster.Start(t, 5).Masters
	for _, i := range impostors {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			onMinoritiesAndOnThree(t, healthy, i.words, func(t *testing.T, _ string, n int) (urls []string, behind []cluster.Master) {
				for range n {
					urls = append(urls, i.atOnce(t))
				}
				return urls, nil
			})
		})
	}
	for name, start := range map[string]struct {
		url   func(*testing.T) string
		words string
	}{"HTTP server": {webServer, `protocol error.*HTTP/1\.1`}, "nobody": {nobody, `connection refused`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onMinoritiesAndOnThree(t, healthy, start.words, func(t *testing.T, _ string, n int) (urls []string, behind []cluster.Master) {
				for range n {
					urls = append(urls, start.url(t))
				}
				return urls, nil
			})
		})
	}
}

func TestNodesThatGoMadAreOutvotedAndNamedAndKeepNoKey(t *testing.T) {
	t.Parallel()
	healthy := cluster.Start(t, 5).Masters
	for _, i := range impostors {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			mad := cluster.Start(t, 3).Masters
			onMinoritiesAndOnThree(t, healthy, i.words, func(t *testing.T, _ string, n int) (urls []string, behind []cluster.Master) {
				for _, m := range mad[:n] {
					urls = append(urls, i.afterSet(t, m))
				}
				return urls, mad[:n]
			})
		})
	}
}

func TestNodesInABadStateAreOutvotedAndNamed(t *testing.T) {
	t.Parallel()
	healthy := cluster.Start(t, 5).Masters
	for _, f := range []fault{wrongType, readOnly, noAuth, outOfMemory, busy, loading} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			onMinoritiesAndOnThree(t, healthy, f.words, func(t *testing.T, name string, n int) (urls []string, behind []cluster.Master) {
				for _, m := range cluster.Start(t, n, redistest.WithArgs(f.args...)).Masters {
					f.begin(t, m, name)
					urls = append(urls, m.URL())
				}
				return urls, nil
			})
		})
	}
}

// The state begins when the Locker is connected: the error is the answer of the node, not that of a
// dial.
func TestNodesThatFallIntoABadStateAreOutvotedAndNamed(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{wrongType, readOnly, outOfMemory, busy} {
		t.Run(f.name, func(t *testing.T) {
			c := cluster.Start(t, 5, redistest.WithArgs(f.args...))
			l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			cluster.RequireUp(t, l, func(node redlock.NodeStats) bool { return node.Barred == nil })
			for n, m := range c.Masters[:3] {
				lock, err := l.TryLock(t.Context(), cluster.LockName(t))
				require.NoError(t, err, "%d nodes are %s", n, f.name)
				require.NoError(t, lock.Unlock(t.Context()))
				cluster.RequireClean(t, c.Masters[n:]...)
				f.begin(t, m, cluster.LockName(t))
			}
			_, err := l.TryLock(t.Context(), cluster.LockName(t))
			t.Log(err)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			requireNodesSay(t, err, c.URLs()[:3], f.words)
			cluster.RequireClean(t, c.Masters[3:]...)
		})
	}
}

func TestScriptFlushCostsNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	for n := range 6 {
		lock, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		for _, m := range c.Masters[:n] {
			do(t, m, "SCRIPT", "FLUSH")
		}
		require.NoError(t, lock.Extend(t.Context(), longTTL))
		for _, m := range c.Masters[:n] {
			do(t, m, "SCRIPT", "FLUSH")
		}
		require.NoError(t, lock.Unlock(t.Context()), "%d nodes forgot the scripts", n)
		cluster.RequireClean(t, c.Masters...)
	}
}
