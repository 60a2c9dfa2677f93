package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// addAs adds a master by any endpoint.
func addAs(endpoint string) operation {
	return func(cluster *admin.Cluster, ctx context.Context) error { return cluster.Add(ctx, endpoint) }
}

// A removed master gets the releases that are owed to it, and then no connection. When it is added
// again, it is dialed again.
func TestTheConnectionToARemovedMasterEnds(t *testing.T) {
	withoutDiscovery := []redlock.Option{redlock.WithoutDiscovery()}
	for name, c := range map[string]struct {
		list  []int
		opts  []redlock.Option
		again string // the name by which it is added again
	}{
		"in the list":                         {[]int{0, 1, 2, 3}, nil, virtual.Endpoint(3)},
		"in the list, without discovery":      {[]int{0, 1, 2, 3}, withoutDiscovery, virtual.Endpoint(3)},
		"in the list, then by another name":   {[]int{0, 1, 2, 3}, nil, "redis://alias:6379"},
		"followed":                            {[]int{0, 1, 2}, nil, virtual.Endpoint(3)},
		"followed, then by another name":      {[]int{0, 1, 2}, nil, "redis://alias:6379"},
		"in the list, another name, no other": {[]int{0, 1, 2, 3}, withoutDiscovery, "redis://alias:6379"},
	} {
		list, opts, again := c.list, c.opts, c.again
		runCluster(t, name, 4, 0, func(t *testing.T, c *cluster) {
			operator, l := c.Among([]int{0, 1, 2}, c.Aliased(3, 0)), c.Among(list, append(opts, c.Aliased(3, 0))...)
			time.Sleep(2 * virtual.MaxTTL) // the change need not wait
			connected := func() {
				for name := range strings.SplitSeq("bcdefghijklmnop", "") { // of one of them, it is the coordinator
					first, next := c.Lock(l, name), c.Waiting(l, name)
					c.Unlock(first)
					c.Unlock(<-next)
				}
				assert.Equal(t, 3, c.Servers[3].Connections(), "of the operator and the client, and for its waiters")
			}
			connected()
			lock := c.Lock(l, "a")
			c.change(operator, remove(3))
			time.Sleep(virtual.MaxTTL / 2)
			c.Unlock(lock)
			virtual.Settle()
			assert.Empty(t, c.Holders("a")[3], "it got the release")
			time.Sleep(virtual.MaxTTL)
			assert.Zero(t, c.Servers[3].Connections())
			removed := l.Stats().Nodes[3]
			assert.Equal(t, pool.Closed, removed.State)
			require.ErrorIs(t, removed.Barred, redlock.ErrNotMember)

			c.change(operator, addAs(again))
			time.Sleep(5 * time.Second)
			connected()
			c.Servers[0].Kill()
			virtual.Settle()
			c.Unlock(c.Lock(l, "a")) // three of four
		})
	}
}

// What comes back with its memory must not be taken for a member by others.
func TestARemovedMasterIsToldBeforeItIsLeft(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3})
		c.Servers[3].Mute(true)
		time.Sleep(10 * time.Second)
		c.change(l, remove(3))
		time.Sleep(3 * virtual.MaxTTL)
		assert.Equal(t, 3, c.told(2))
		c.Servers[3].Mute(false)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 4, c.told(2))
		assert.Zero(t, c.Servers[3].Connections())
	})
}

// The client cannot know that the new member is not a master of its list, by another name.
func TestARemovedMasterIsNotDialedForEver(t *testing.T) {
	inCluster(t, 4, 1, func(t *testing.T, c *cluster) {
		operator, l := c.Among([]int{0, 1, 2}), c.Among([]int{0, 1, 2, 3}, redlock.WithoutDiscovery())
		c.change(operator, remove(3))
		time.Sleep(2 * virtual.MaxTTL)
		c.Servers[3].Kill()
		c.change(operator, add(4))
		time.Sleep(5 * time.Second)
		assert.NotEqual(t, pool.Closed, l.Stats().Nodes[3].State)
		time.Sleep(virtual.MaxTTL)
		assert.Equal(t, pool.Closed, l.Stats().Nodes[3].State)
	})
}

func TestCloseDoesNotWaitForAMasterThatWasRemoved(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3})
		time.Sleep(2 * virtual.MaxTTL)
		lock := c.Lock(l, "a")
		c.Servers[3].Kill()
		c.change(l, remove(3))
		c.Unlock(lock)
		assert.Zero(t, virtual.Elapsed(func() { require.NoError(t, l.Close()) }))
	})
}

// A process may live to see more masters than there are positions.
func TestThePositionsOfRemovedMastersAreUsedAgain(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		operator, l := c.Among([]int{0, 1, 2}, c.Aliased(3, 0)), c.Among([]int{0, 1, 2}, c.Aliased(3, 0))
		for i := range 70 {
			name := fmt.Sprintf("redis://alias%d:6379", i)
			c.change(operator, addAs(name))
			m, err := admin.Of(operator).Cluster().Members(ctx)
			require.NoError(t, err)
			added := slices.IndexFunc(m.Members, func(m admin.Member) bool { return m.Endpoint == name })
			c.change(operator, func(cluster *admin.Cluster, ctx context.Context) error {
				return cluster.Remove(ctx, m.Members[added].ID)
			})
		}
		assert.Less(t, len(l.Stats().Nodes), 10)
		c.change(operator, add(3))
		time.Sleep(5 * time.Second)
		c.Servers[0].Kill()
		virtual.Settle()
		c.Unlock(c.Lock(l, "a"))
	})
}

// A client misses all changes that are made while nothing of it arrives. Of the members that it
// knew, the last one was told the newest list. Without that one, another tells of members that were
// told of others.
func TestAClientThatMissedChangesFindsTheMembers(t *testing.T) {
	for name, killed := range map[string][]int{"one step": {0}, "two steps": {0, 2, 4}} {
		for _, looks := range []bool{false, true} {
			runCluster(t, fmt.Sprintf("%s, looks %v", name, looks), 3, 3, func(t *testing.T, c *cluster) {
				var dead [6]atomic.Bool
				opts := []redlock.Option{c.Sparing(dead[:])}
				if looks {
					opts = append(opts, admin.OnlyLooks())
				}
				operator, l := c.Among([]int{0, 1, 2}), c.Among([]int{0, 1, 2}, opts...)
				require.NoError(t, l.Ready(ctx))
				virtual.SetAll(dead[:], true)
				for _, change := range []operation{add(3), remove(0), add(4), remove(1), add(5), remove(2)} {
					c.change(operator, change)
				}
				assert.Equal(t, int64(1), l.Stats().Version)
				require.NoError(t, operator.Close())
				c.Each(virtual.Kill, killed...)
				virtual.SetAll(dead[:], false)
				time.Sleep(10 * time.Second)
				assert.Equal(t, []string{"3", "4", "5"}, c.members(l))
				if looks {
					return
				}
				lock := c.Lock(l, "a")
				virtual.Settle()
				assert.Equal(t, lock.Value(), c.Holders("a")[5])
				assert.Empty(t, c.Holders("a")[1])
				c.Unlock(lock)
				time.Sleep(2 * virtual.MaxTTL)
				assert.Zero(t, c.Servers[1].Connections(), "it was removed")
			})
		}
	}
}

// Somebody else made the nodes of the list, and closes them. The others are the Locker's.
func TestALockerClosesTheNodesThatItMade(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		node, err := pool.NewNode(virtual.Endpoint(0), pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
		require.NoError(t, err)
		l, err := redlock.NewFromNodes([]*pool.Node{node}, redlock.WithMaxTTL(virtual.MaxTTL))
		require.NoError(t, err)
		c.change(l, add(1))
		require.NoError(t, l.Close())
		virtual.Settle()
		assert.Zero(t, c.Servers[1].Connections())
		assert.NotZero(t, c.Servers[0].Connections())
		require.NoError(t, node.Close())
	})
}

// Also one that tries to reach the new master.
func TestAChangeEndsWithItsLocker(t *testing.T) {
	for name, change := range map[string]operation{
		"add":     addAs("redis://typo:6379"),
		"max TTL": setMaxTTL(2 * virtual.MaxTTL),
	} {
		runCluster(t, name, 3, 1, func(t *testing.T, c *cluster) {
			l := c.Among([]int{0, 1, 2}) // a change must wait: locks may have begun before the last
			limited, cancel := context.WithCancel(ctx)
			done := c.Ending(func() error { return change(admin.Of(l).Cluster(), limited) })
			time.Sleep(3 * time.Second)
			closed := c.Ending(l.Close)
			time.Sleep(time.Minute)
			assert.Len(t, closed, 1, "Close has returned")
			assert.Len(t, done, 1, "and so has the change")
			cancel() // otherwise this would never end
			require.NoError(t, <-closed)
			require.ErrorIs(t, <-done, redlock.ErrClosed)
		})
	}
}

// A bare majority granted it.
func TestALockIsReleasedAfterAMemberWasAdded(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		time.Sleep(2 * virtual.MaxTTL)
		c.Set("a", "somebody", time.Hour, 2)
		lock := c.Lock(l, "a")
		virtual.Settle()
		c.change(l, add(3))
		virtual.Settle()
		require.Positive(t, lock.Remaining())
		require.NoError(t, lock.Unlock(ctx))
		require.Equal(t, []string{"", "", "somebody", ""}, c.Holders("a"))
	})
}

func TestAReleaseFollowsItsSETToAServerThatTurnsOutToBeListedTwice(t *testing.T) {
	for after := range 8 {
		inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
			l, err := redlock.New(append(c.Servers.Endpoints(), "redis://alias:6379"), redlock.WithClock(c.Clock),
				c.Aliased(0, 3*time.Millisecond), redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL), redlock.WithNodeTimeout(5*time.Second))
			require.NoError(t, err)
			defer l.Close()
			lock := c.Lock(l, "a")
			time.Sleep(time.Duration(after) * time.Millisecond)
			require.NoError(t, lock.Unlock(ctx))
			time.Sleep(time.Second)
			assert.Equal(t, []string{"", "", ""}, c.Holders("a"), "%d ms", after)
		})
	}
}

// A bare majority granted it, and one of those is listed twice.
func TestALossIsToldAtTheReleaseByAServerThatTurnsOutToBeListedTwice(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l, err := redlock.New(append(c.Servers.Endpoints(), "redis://alias:6379"), redlock.WithClock(c.Clock),
			c.Aliased(0, 3*time.Millisecond), redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL))
		require.NoError(t, err)
		defer l.Close()
		c.Set("a", "somebody", time.Hour, 2)
		lock := c.Lock(l, "a")
		time.Sleep(time.Second) // it has turned out
		c.Del("a", 1)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
	})
}

// One after the other, each until its position is another one's.
func TestAnEndpointThatCouldNotBeAddedIsLeft(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		for i := range 70 {
			err := admin.Of(l).Cluster().Progress(nil).Add(c.Within(100*time.Millisecond), fmt.Sprintf("redis://nobody%d:6379", i))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(virtual.MaxTTL / 8)
		}
		assert.Less(t, len(l.Stats().Nodes), 30)
		time.Sleep(2 * virtual.MaxTTL)
		require.NoError(t, admin.Of(l).Init(ctx, false), "all masters vote")
		c.change(l, add(3))
	})
}
