package acceptance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A lock is renewed for ten times its TTL while one node after another loses its keys.
func TestHoldingGoesOnWhileOneNodeAfterAnotherRestartsEmpty(t *testing.T) {
	t.Parallel()
	const ttl = time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	lock, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	restarts := 0
	for began := time.Now(); time.Since(began) < 10*ttl; restarts++ {
		i := restarts % len(c.Masters)
		must(t, c.Masters[i].Restart())
		restarted := time.Now()
		cluster.Eventually(t, ttl+3*time.Second, func() string {
			if barred := l.Stats().Nodes[i].Barred; time.Since(restarted) < 2*ttl || barred != nil {
				return fmt.Sprintf("node %d votes again: %v", i, barred)
			}
			return ""
		})
		require.NoError(t, lock.Err(), "after %d restarts", restarts+1)
		require.Equal(t, lock.Value(), cluster.Holder(t, c.Masters[i], cluster.LockName(t)), "healed")
	}
	stats := l.Stats()
	t.Logf("%d restarts, %d renewals", restarts, stats.Renewed)
	assert.Zero(t, stats.Lost)
	assert.Greater(t, stats.Renewed, uint64(20))
	c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
	require.NoError(t, lock.Verify(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters...)
}
