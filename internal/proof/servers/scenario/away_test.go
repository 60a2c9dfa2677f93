package scenario_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// outage is a way for masters to go away and come back.
type outage struct {
	name       string
	begin, end func(cluster.Master) error
	keeps      bool // their keys
	givenUp    bool // what the connection of a silent node is, at once
}

var outages = []outage{
	{name: "stopped", begin: cluster.Master.Stop, end: cluster.Master.Continue, keeps: true},
	// The SET is still in the socket of the master. When it continues, the release must come behind
	// that SET, although it goes out on another connection.
	{name: "stopped for long", begin: cluster.Master.Stop, end: cluster.Master.Continue, keeps: true, givenUp: true},
	{name: "killed", begin: cluster.Master.Kill, end: cluster.Master.Restart},
}

func each(t *testing.T, masters []cluster.Master, harm func(cluster.Master) error) {
	t.Helper()
	for _, m := range masters {
		must(t, harm(m))
	}
}

// Two masters of five that are away cost nothing. With a third, nobody acquires, extends or
// releases, and the error names the three. A holder keeps its lock. When they are back, nothing is
// left of what they were sent.
func TestMastersThatAreAwayCostNothingUntilTheyAreAMajority(t *testing.T) {
	t.Parallel()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 5)
			short := 300 * time.Millisecond
			hastily := []redlock.Option{redlock.WithNodeTimeout(short)}
			if o.givenUp {
				hastily = append(hastily, redlock.WithPool(pool.WithStallTimeout(short), pool.WithDialTimeout(short)))
			}
			// On a machine that stands still for a moment, a hasty client gets its lock in the end.
			hasty := connected(t, c.URLs(), hastily...)
			held, err := hasty.Lock(t.Context(), cluster.LockName(t)+"held", redlock.WithoutRenewal())
			require.NoError(t, err)
			calm := connected(t, c.URLs(), redlock.WithNodeTimeout(aMinute/4))
			each(t, c.Masters[:2], o.begin)
			minorityCostsNothing(t, c, calm)
			each(t, c.Masters[2:3], o.begin)
			majorityIsNoQuorum(t, c, hasty, held, o)
			each(t, c.Masters[:3], o.end)
			cluster.RequireClean(t, c.Masters...)
		})
	}
}

// minorityCostsNothing makes calls that would take minutes if any of them waited for the first two
// masters.
func minorityCostsNothing(t *testing.T, c *cluster.Cluster, calm *redlock.Locker) {
	t.Helper()
	ctx := t.Context()
	taken := cluster.LockName(t) + "taken"
	for _, m := range c.Masters[2:] {
		do(t, m, "SET", taken, "another's", "PX", longTTL.Milliseconds())
	}
	began := time.Now()
	for i := range 20 {
		lock := take(t, calm, fmt.Sprint(cluster.LockName(t), i))
		require.NoError(t, lock.Extend(ctx, longTTL))
		require.NoError(t, lock.Verify(ctx))
		give(t, lock)
		_, err := calm.TryLock(ctx, taken)
		require.ErrorIs(t, err, redlock.ErrTaken, "three refusals are enough")
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
	}
	assert.Less(t, time.Since(began), aMinute/4, "not even one call may wait for the nodes that are away")
	for _, m := range c.Masters[2:] {
		assert.Equal(t, "another's", cluster.Holder(t, m, taken))
		do(t, m, "DEL", taken)
	}
}

func majorityIsNoQuorum(t *testing.T, c *cluster.Cluster, hasty *redlock.Locker, held *redlock.Lock, o outage) {
	t.Helper()
	ctx := t.Context()
	for range 2 {
		_, err := hasty.TryLock(ctx, cluster.LockName(t))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has no deadline")
		var failure *redlock.QuorumError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, 3, failure.Need)
		assert.LessOrEqual(t, failure.Granted, 2)
		assert.Zero(t, failure.Refused)
		for _, url := range c.URLs()[:3] {
			assert.ErrorContains(t, err, url+": ")
		}
		awaitGone(t, c.Masters[3:], cluster.LockName(t))
		if o.givenUp || !o.keeps { // the next call meets nodes that are down
			awaitUp(t, hasty, 3, 4)
		}
	}
	require.ErrorIs(t, held.Extend(ctx, longTTL), redlock.ErrNoQuorum)
	require.ErrorIs(t, held.Verify(ctx), redlock.ErrNoQuorum)
	require.NoError(t, held.Err(), "unknown answers neither renew nor lose")
	if o.keeps {
		each(t, c.Masters[:3], o.end)
		await(t, "it is held as before", func() bool { return held.Verify(ctx) == nil })
		each(t, c.Masters[:3], o.begin)
	}
	require.ErrorIs(t, held.Unlock(ctx), redlock.ErrNoQuorum)
	require.ErrorIs(t, held.Err(), redlock.ErrReleased)
}
