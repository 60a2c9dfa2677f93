package redlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A lock of a bare majority gets the vote that it lacks before all who wait. They would pass it
// around, because a quorum refuses each of them, and keep it for as long as a master is silent; the
// holder would lose the lock by the silence of one master.
func TestAHolderGetsTheVoteThatItLacksBeforeItsWaiters(t *testing.T) {
	const ttl = 4 * time.Second
	for _, k := range kinds() {
		for node := range 3 { // one of them is the coordinator
			runBubble(t, fmt.Sprintf("%s, node %d", k.what, node), 3, func(t *testing.T, c *cluster) {
				lockers := c.lockers(4, redlock.WithNodeTimeout(ttl/2))
				c.Set(k.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Minute, node)
				lock := c.of(k, c.Renewing(redlock.WithTTL(ttl)))
				if k.what != "permit" {
					k = kinds()[0]
				}
				time.Sleep(ttl / 4)
				c.Each(virtual.Deafen, (node+1)%3)
				c.Del(k.name, node)
				// The first has the vote of the node for the moment.
				for i, ask := range []call{k.try, k.wait, k.wait, k.wait} {
					c.Calls.Go(func() {
						_, err := ask(c.Within(2*ttl), lockers[i])
						assert.Error(t, err)
					})
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(3 * ttl)
				require.NoError(t, lock.Err())
				c.Each(virtual.Undeaf, (node+1)%3)
				require.NoError(t, lock.Unlock(ctx))
			})
		}
	}
}

// Another client may have held the lock between the refusal and the hand-over. So the vote is one
// like that of a node that was healed, from the next round on.
func TestAVoteThatAHolderWasHandedCountsFromTheNextRoundOn(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		c.Set(k.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Minute, 0)
		lock := c.of(k, c.Locker(redlock.WithNodeTimeout(time.Second)))
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		virtual.Settle()
		c.Each(func(n *fakeredis.Node) { n.Do(t, "ZPOPMIN", k.list) }, 0)
		if k.what == "reader" {
			c.Del(k.name, 0)
			reads := c.Servers[0].Do(t, "ZADD", "redquorum:readers:a", c.Clock.Wall().Add(time.Minute).UnixMilli(), lock.Value())
			require.Equal(t, int64(1), reads)
			c.Set(k.name, wire.Marker, time.Minute, 0)
		} else {
			c.Set(k.name, lock.Value(), time.Minute, 0)
		}
		c.Each(virtual.Kill, 1)
		require.ErrorIs(t, lock.Extend(ctx, 20*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		require.NoError(t, lock.Unlock(ctx))
	})
}
