package scenario_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// adoption is an Adopt that will fail at its node timeout.
type adoption struct {
	c       *cluster.Cluster
	proxies []*redistest.Proxy // of the one that adopts
	lock    *redlock.Lock      // that it would adopt
	failed  chan error
}

// beginAdoption begins an adoption that leaves the value swapped on some nodes until the Adopt
// fails.
func beginAdoption(t *testing.T, swapped int, harm func(proxies []*redistest.Proxy)) *adoption {
	t.Helper()
	const nodeTimeout = patience
	a := &adoption{c: cluster.Start(t, 5), failed: make(chan error, 1)}
	proxies, urls := a.c.BehindProxies(t)
	a.proxies = proxies
	holder := cluster.NewConnected(t, a.c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	taker := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout))
	var err error
	a.lock, err = holder.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	a.c.AwaitHeldEverywhere(t, cluster.LockName(t), a.lock.Value())
	harm(proxies)
	go func() {
		_, err := taker.Adopt(t.Context(), a.lock.Name(), a.lock.Value())
		a.failed <- err
	}()
	cluster.Eventually(t, nodeTimeout/2, func() string {
		if n := len(a.c.Masters) - a.c.Holding(t, cluster.LockName(t), a.lock.Value()); n != swapped {
			return fmt.Sprintf("%d nodes are swapped, there are %d", swapped, n)
		}
		return ""
	})
	return a
}

// The holder releases while a failing Adopt has the value swapped on a minority. What the Adopt
// puts back there is then a key of a finished attempt, and must not live on (S7, S24).
func TestHoldingThatWasReleasedDoesNotComeBackWithAFailedAdopt(t *testing.T) {
	t.Parallel()
	a := beginAdoption(t, 2, func(proxies []*redistest.Proxy) {
		for _, proxy := range proxies[2:] {
			proxy.Drop(redistest.Both, true)
		}
	})
	require.NoError(t, a.lock.Unlock(t.Context()))
	require.ErrorIs(t, <-a.failed, redlock.ErrNoQuorum)
	cluster.RequireClean(t, a.c.Masters...)
}

// All nodes swap the value, and the adopting client gets no reply. Meanwhile the holder verifies
// its lock and learns that it is lost. What the Adopt puts back is then nobody's, on every node
// (S4, S24).
func TestHoldingThatWasLostDoesNotComeBackWithAFailedAdopt(t *testing.T) {
	t.Parallel()
	a := beginAdoption(t, 5, func(proxies []*redistest.Proxy) {
		for _, proxy := range proxies {
			proxy.Drop(redistest.Replies, true)
		}
	})
	require.ErrorIs(t, a.lock.Verify(t.Context()), redlock.ErrLost)
	require.ErrorIs(t, a.lock.Unlock(t.Context()), redlock.ErrLost)
	require.ErrorIs(t, <-a.failed, redlock.ErrNoQuorum)
	for _, proxy := range a.proxies {
		proxy.Heal()
	}
	cluster.RequireClean(t, a.c.Masters...)
}
