package scenario_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// A lock survives while one node after another loses its keys: a majority of those that granted it,
// and more.
func TestHoldingGoesOnWhileOneNodeAfterAnotherRestartsEmpty(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	lock, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	restarts := sizeOf(t, 3, 10)
	for n := range restarts {
		i := n % len(c.Masters)
		must(t, c.Masters[i].Restart())
		cluster.Eventually(t, ttl+4*slack, func() string { // not before the TTL is over
			if cluster.Holder(t, c.Masters[i], cluster.LockName(t)) != lock.Value() {
				return fmt.Sprintf("node %d is healed", i)
			}
			if node := l.Stats().Nodes[i]; node.State != pool.Up || node.Barred != nil {
				return fmt.Sprintf("node %d votes again: %v, %v", i, node.State, node.Barred)
			}
			return ""
		})
		require.NoError(t, lock.Err(), "after %d restarts", n+1)
	}
	stats := l.Stats()
	t.Logf("%d restarts, %d renewals", restarts, stats.Renewed)
	assert.Zero(t, stats.Lost)
	assert.GreaterOrEqual(t, stats.Renewed, uint64(restarts), "one for each TTL at least")
	c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
	require.NoError(t, lock.Verify(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters...)
}
