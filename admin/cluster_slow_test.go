package admin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// However short locks are beside the round trip, what concerns members has the time that it takes:
// a cluster is formed and learned, a member that forgot comes back, and members and MaxTTL change.
func TestMembersAreLookedAfterWhateverTheRoundTrip(t *testing.T) {
	for _, test := range []struct {
		masters           int
		roundTrip, maxTTL time.Duration
		slow              int // so many of them have this round trip
	}{
		{3, 10 * time.Millisecond, 200 * time.Millisecond, 3},
		{3, 60 * time.Millisecond, 200 * time.Millisecond, 3},
		{5, 60 * time.Millisecond, 2 * time.Second, 5},
		{9, 150 * time.Millisecond, 10 * time.Second, 9},
		{5, 260 * time.Millisecond, time.Second, 5},
		{9, 700 * time.Millisecond, 3 * time.Second, 9},
		{3, 900 * time.Millisecond, 4 * time.Second, 3},
		{5, 900 * time.Millisecond, time.Second, 1},
		{9, 400 * time.Millisecond, time.Second, 4},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			inYoungBubble(t, test.masters+1, func(t *testing.T, c *cluster) {
				for i := range test.slow {
					virtual.Delaying(test.roundTrip/2, test.roundTrip/2)(c.Servers[i])
				}
				made := func() *redlock.Locker { // locks end with the node timeout: it is below some round trips
					return c.LockerOf(c.Servers.Endpoints()[:test.masters],
						redlock.WithMaxTTL(test.maxTTL), redlock.WithTTL(test.maxTTL), redlock.WithNodeTimeout(test.maxTTL/4))
				}
				first, other := made(), made()
				c.allVote(first, 30*time.Second)
				c.allVote(other, 30*time.Second)
				c.Each(virtual.Empty, 0)
				time.Sleep(time.Second)
				c.allVote(first, 30*time.Second)
				c.allVote(made(), 30*time.Second)
				for _, change := range []operation{setMaxTTL(10 * time.Millisecond), add(test.masters), remove(0), setMaxTTL(time.Minute)} {
					c.change(first, change)
				}
				m, err := admin.Of(other).Cluster().Members(ctx)
				require.NoError(t, err)
				assert.Equal(t, time.Minute, m.MaxTTL)
			})
		})
	}
}

// allVote requires that all masters of a Locker vote in time.
func (c *cluster) allVote(l *redlock.Locker, within time.Duration) {
	c.T.Helper()
	barred := func(n redlock.NodeStats) bool { return n.Barred != nil || n.State != pool.Up }
	for began := time.Now(); l.Stats().Cluster == "" || slices.ContainsFunc(l.Stats().Nodes, barred); time.Sleep(100 * time.Millisecond) {
		require.Less(c.T, time.Since(began), within, "%+v", l.Stats())
	}
}

func TestAMasterThatDoesNotTellItsClusterInTimeIsNamed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Slow(1100 * time.Millisecond)
		l := c.LockerOf(c.Servers.Endpoints(), redlock.WithPool(pool.WithDialTimeout(20*time.Second), pool.WithDialer(c.Dialer())))
		time.Sleep(time.Minute)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrTimeout)
		for _, n := range l.Stats().Nodes { // the error may have the answer that is missing instead
			assert.ErrorContains(t, n.Barred, "it was asked for the list of members, for 1s")
		}
		c.Slow(0)
		c.allVote(l, time.Minute)
	})
}
