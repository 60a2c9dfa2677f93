package admin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// A master that forgot rejoins, whoever asks.
func TestMastersThatForgotComeBackAsTheMembersThatTheyWere(t *testing.T) {
	for name, forget := range map[string]struct {
		masters []int
		same    bool // the cluster is
		how     func(*fakeredis.Node)
	}{
		"one":               {[]int{1}, true, virtual.Empty},
		"two":               {[]int{0, 2}, true, virtual.Empty},
		"three":             {[]int{0, 1, 2}, false, virtual.Empty},
		"one, old snapshot": {[]int{1}, true, (*fakeredis.Node).RestartFromSnapshot},
		"two, old snapshot": {[]int{0, 1}, true, (*fakeredis.Node).RestartFromSnapshot},
	} {
		runCluster(t, name, 3, 0, func(t *testing.T, c *cluster) {
			c.Grown()
			l := c.Among([]int{0, 1, 2})
			before, err := admin.Of(l).Cluster().Members(ctx)
			require.NoError(t, err)
			c.Each((*fakeredis.Node).Save)
			c.Lock(l, "held")
			virtual.Settle()
			c.Each(forget.how, forget.masters...)
			for _, i := range forget.masters {
				assert.Empty(t, c.Holders("held")[i], "it has forgotten")
			}
			time.Sleep(time.Second)
			assert.Equal(t, 3-len(forget.masters), c.told(1), "it does not know what it was told since")
			time.Sleep(virtual.MaxTTL + 5*time.Second)
			for _, l := range []*redlock.Locker{l, c.Among([]int{2, 0, 1})} {
				after, err := admin.Of(l).Cluster().Members(ctx)
				require.NoError(t, err)
				assert.Equal(t, forget.same, after.Cluster == before.Cluster)
				for i, m := range after.Members {
					require.NoError(t, m.Err)
					assert.True(t, m.Voting)
					assert.True(t, !forget.same || m.ID == before.Members[i].ID)
				}
				c.Unlock(c.Lock(l, "a"))
			}
		})
	}
}

// backup returns a function that imports what a server says of itself now: its marker, and its
// register if it is whole. The server does not notice, and keeps its connections.
func (c *cluster) backup(i int, whole bool) (restore func()) {
	c.T.Helper()
	marker, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
	register, _, _ := c.Servers[i].Get(pipeline.RegisterKey)
	return func() {
		c.Do(i, "FLUSHALL")
		c.Do(i, "SET", pipeline.MemoryKey, marker)
		if whole {
			c.Do(i, "SET", pipeline.RegisterKey, register)
		}
	}
}

// A has its lock on n1 and n2. Somebody has seen n2 forget when an old marker of it comes back.
func TestAMarkerThatComesBackIsNotBelieved(t *testing.T) {
	const waits = 65 * time.Second
	for name, when := range map[string]struct {
		after time.Duration
		twice bool
	}{
		"while it waits":        {2 * time.Second, false},
		"while it waits, twice": {2 * time.Second, true},
		"after it has waited":   {waits, false},
	} {
		for _, whole := range []bool{false, true} {
			runBubble(t, fmt.Sprintf("%s/with its register %v", name, whole), 3, func(t *testing.T, c *cluster) {
				a, restore := c.Locker(), c.backup(2, whole)
				var held *redlock.Lock
				if when.after < waits {
					held = c.lockWithout(0, a)
				}
				slept := c.Locker() // for 2 s it asks nobody
				c.Do(2, "FLUSHALL")
				time.Sleep(when.after)
				if held == nil {
					held = c.lockWithout(0, a)
				}
				restore()
				c.refused(held, slept)
				if when.twice {
					time.Sleep(2 * time.Second)
					restore()
				}
				fresh := c.Locker()
				c.refused(held, fresh)
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, fresh.Stats().Nodes[2].Barred, pool.ErrQuarantined)
				time.Sleep(waits)
				for _, l := range []*redlock.Locker{a, slept, fresh} {
					require.NoError(t, l.Stats().Nodes[2].Barred)
				}
				second := c.Lock(fresh, "a")
				virtual.Settle()
				assert.NotEmpty(t, c.Holders("a")[2])
				c.Unlock(second)
			})
		}
	}
}

// A master that restarted and is listed alone still has the list of the others.
func TestAPartOfAClusterThatRestartedBecomesNoOther(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		first := c.Among([]int{0, 1, 2})
		c.Each(virtual.Restart, 0)
		alone := c.Among([]int{0}, redlock.WithoutDiscovery())
		time.Sleep(2 * virtual.MaxTTL)
		c.NoQuorum(alone)
		assert.Equal(t, []string{"0", "1", "2"}, c.members(first))
	})
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) { // there is nobody who knew it
		c.Each(virtual.Restart, 0)
		alone := c.Among([]int{0})
		time.Sleep(2 * virtual.MaxTTL)
		_, err := alone.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "redis://node1:6379 and redis://node2:6379")
		c.Unlock(c.Lock(c.Among([]int{0, 1, 2}), "a"))
	})
}

// A master that was removed remembers the list, and is no member who could let others rejoin.
func TestAClusterBeginsAgainWhenOnlyARemovedMasterRemembers(t *testing.T) {
	inCluster(t, 2, 0, func(t *testing.T, c *cluster) {
		var nodes []*pool.Node
		for i := range c.Servers {
			node, err := pool.NewNode(virtual.Endpoint(i), pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
			require.NoError(t, err)
			t.Cleanup(func() { virtual.EndsOnly(node.Close()) })
			nodes = append(nodes, node)
		}
		both, err := redlock.NewFromNodes(nodes, redlock.WithMaxTTL(virtual.MaxTTL)) // it keeps its nodes
		require.NoError(t, err)
		t.Cleanup(func() { virtual.EndsOnly(both.Close()) })
		l := c.Among([]int{1})
		c.change(c.Among([]int{0, 1}), remove(0))
		time.Sleep(time.Second)
		c.Each(virtual.Empty, 1)
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(l, "a"))
	})
}

// An operator has left one behind in the list.
func TestAClusterBeginsAgainBesideACandidate(t *testing.T) {
	for _, later := range []bool{false, true} {
		runCluster(t, fmt.Sprintf("it is listed later %v", later), 3, 1, func(t *testing.T, c *cluster) {
			dying := c.Among([]int{0, 1, 2})
			require.Error(t, add(3)(admin.Of(dying).Cluster(), c.Within(time.Second)), "it waits")
			require.NoError(t, dying.Close())
			c.Each(virtual.Restart, 0, 1, 2)
			list := []int{0, 1, 2, 3}
			if later {
				list = list[:3]
			}
			l := c.Among(list)
			time.Sleep(2 * virtual.MaxTTL)
			c.Unlock(c.Lock(l, "a"))
			if later {
				c.change(l, add(3))
			}
			assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
		})
	}
}

// replaced returns a client that knows node 0 as the only member and sleeps until it is woken, and
// one that has put node 1 in its place.
func (c *cluster) replaced() (slept, l *redlock.Locker, wake func()) {
	c.T.Helper()
	dead := make([]atomic.Bool, len(c.Servers))
	slept = c.Among([]int{0}, c.Sparing(dead))
	c.Unlock(c.Lock(slept, "a"))
	dead[0].Store(true)
	l = c.Among([]int{0, 1})
	c.change(l, add(1))
	c.change(l, remove(0))
	return slept, l, func() { dead[0].Store(false) }
}

// A client knows a master as the only member. It was removed meanwhile, and is about to be added
// again.
func TestARemovedMasterThatIsAddedAgainBecomesNoOtherCluster(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		slept, l, wake := c.replaced()
		require.Error(t, add(0)(admin.Of(l).Cluster(), c.Within(time.Second)), "it waits")
		lock := c.Lock(l, "a")
		wake()
		time.Sleep(3 * time.Second)
		c.NoQuorum(slept)
		c.Unlock(lock)
	})
}

// It still has the list of those who came after it, so a client that knows no newer one than that
// in which it was alone does not take it for the whole cluster.
func TestARemovedMasterThatRestartedBecomesNoOtherCluster(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		slept, l, wake := c.replaced()
		c.Each(virtual.Restart, 0)
		wake()
		time.Sleep(3 * virtual.MaxTTL)
		lock := c.Lock(l, "a")
		c.NoQuorum(slept)
		c.Unlock(lock)
	})
}

// A master of another cluster that forgot is awaited there.
func TestAMasterOfAnotherClusterThatForgotIsNotAdded(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		c.Founded(3, 6)
		other := c.Among([]int{3, 4, 5})
		c.Each(virtual.Empty, 5)
		time.Sleep(2 * time.Second)
		err := add(5)(admin.Of(c.Among([]int{0, 1, 2})).Cluster(), c.Within(time.Minute))
		require.ErrorIs(t, err, redlock.ErrOtherCluster)
		time.Sleep(2 * virtual.MaxTTL)
		require.NoError(t, other.Stats().Nodes[2].Barred)
	})
}

// Such a master tells no list of members either.
func TestAMarkerThatComesBackDoesNotTellTheMembers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, restore := c.Locker(), c.backup(2, true)
		c.Do(2, "FLUSHALL")
		time.Sleep(10 * time.Second)
		c.Servers[0].Mute(true)
		restore()
		_, err := admin.Of(l).Cluster().Members(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// Somebody asks a master alone that has just forgotten: it becomes a cluster of its own.
func TestAMasterThatWasUsedAloneIsBroughtHome(t *testing.T) {
	for name, seen := range map[string]bool{"nobody has seen it": false, "it waits": true} {
		runCluster(t, name, 3, 0, func(t *testing.T, c *cluster) {
			c.Grown()
			fleet := c.Among([]int{0, 1, 2})
			c.Servers[2].Mute(true)
			lock := c.Lock(fleet, "a")
			c.Servers[2].Mute(false)
			c.Servers[1].Kill()
			time.Sleep(virtual.MaxTTL / 4) // the fleet dials again after a pause
			c.Servers[1].Restart(false)
			if seen {
				time.Sleep(virtual.MaxTTL / 4)
			}
			alone := c.Among([]int{1}, redlock.WithKeyPrefix("probe:"))
			probe, err := alone.TryLock(ctx, "a")
			assert.Equal(t, seen, err != nil, "%v", err)
			_, err = c.Among([]int{0, 1, 2}).TryLock(ctx, "a")
			require.Error(t, err, "two holders")
			require.NoError(t, lock.Err())
			if probe != nil {
				time.Sleep(time.Second)
				require.Error(t, probe.Err(), "it is not its cluster any more")
			}
			time.Sleep(3 * virtual.MaxTTL)
			m, err := admin.Of(fleet).Cluster().Members(ctx)
			require.NoError(t, err)
			assert.Equal(t, "C", m.Cluster)
			for _, one := range m.Members {
				assert.NoError(t, one.Err)
			}
		})
	}
}

// byAnotherName returns a Locker of some of the masters that has another name for the first.
func (c *cluster) byAnotherName(list []string, opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	l := c.LockerOf(list, append(opts, redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL),
		redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.Servers.Dial(ctx, network, strings.NewReplacer("other1", "node1", "other", "node0", "third", "node0").Replace(address))
		})))...)
	virtual.Settle()
	return l
}

// heals requires that all members vote at last.
func (c *cluster) heals(l *redlock.Locker) {
	c.T.Helper()
	time.Sleep(3 * virtual.MaxTTL)
	m, err := admin.Of(l).Cluster().Members(ctx)
	require.NoError(c.T, err)
	for _, one := range m.Members {
		assert.NoError(c.T, one.Err)
	}
}

func TestAMasterThatForgotIsBroughtHomeByWhoKnowsItByAnotherName(t *testing.T) {
	runCluster(t, "and dials it", 3, 0, func(t *testing.T, c *cluster) {
		c.Each(virtual.Empty, 0)
		c.heals(c.byAnotherName([]string{"other:6379", "node1:6379", "node2:6379"}))
	})
	runCluster(t, "or reads in its marker who it is", 2, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1})
		c.Each(virtual.Empty, 0)
		time.Sleep(virtual.MaxTTL / 2)
		require.NoError(t, l.Close())
		c.heals(c.byAnotherName([]string{"other:6379", "node1:6379"}))
	})
}

// returned is a cluster of three, of which the last was removed while it was away, and comes back
// with its memory. A client slept through that: of those that were told of it, it hears only some.
func (c *cluster) returned(deaf ...int) (slept *redlock.Locker, dead []atomic.Bool, operator *redlock.Locker, leave func()) {
	c.T.Helper()
	c.Grown()
	dead = make([]atomic.Bool, len(c.Servers))
	slept = c.Among([]int{0, 1, 2}, c.Sparing(dead))
	c.Unlock(c.Lock(slept, "a"))
	virtual.SetAll(dead, true)
	away := make([]atomic.Bool, len(c.Servers))
	away[2].Store(true)
	operator = c.Among([]int{0, 1, 2}, c.Sparing(away))
	return slept, dead, operator, func() {
		virtual.SetAll(away, true)
		virtual.SetAll(dead, false)
		for _, i := range deaf {
			dead[i].Store(true)
		}
	}
}

// B has its lock on n1 and n3, which was added since. N0 forgot, and A hears from n1 what that was
// told.
func TestNoMasterRejoinsByTheWordOfARemovedOneBesideAMember(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		slept, _, operator, leave := c.returned(3)
		c.change(operator, remove(2))
		c.change(operator, add(3))
		away := make([]atomic.Bool, len(c.Servers))
		away[0].Store(true)
		b := c.Among([]int{0, 1, 3}, c.Sparing(away))
		c.Each(virtual.Empty, 0)
		leave()
		time.Sleep(3 * virtual.MaxTTL)
		lock := c.Lock(b, "a")
		c.refused(lock, slept)
		require.NoError(t, lock.Err())
	})
}

// N1 rejoined by the word of the removed master when a client heard nobody else.
func TestMembersThatRejoinedByTheWordOfARemovedOneRejoinAnew(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		slept, dead, operator, leave := c.returned(0)
		c.tell(list("before", 0, 1, 2), 0, 1)
		c.change(operator, remove(2))
		c.Each(virtual.Empty, 1)
		leave()
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(slept, "a"))
		require.Equal(t, []int{2, 0, 1}, []int{c.told(1), c.told(2), c.told(3)})
		dead[0].Store(false)
		c.change(slept, add(3))
		assert.Equal(t, []string{"0", "1", "3"}, c.members(slept))
	})
}

// All members forgot a removal within one quarantine, and the removed master was never told of it.
// A client that knows of the removal can change nothing any more. A new client can.
func TestMastersGoBackToTheListThatARemovedOneRemembers(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		away := make([]atomic.Bool, len(c.Servers))
		away[2].Store(true)
		knew := c.Among([]int{0, 1, 2}, c.Sparing(away))
		c.change(knew, remove(2))
		virtual.SetAll(away, true)
		c.Each(virtual.Empty, 0, 1)
		c.Among([]int{0, 1, 2}) // hears of the list from n2
		time.Sleep(3 * virtual.MaxTTL)
		require.Equal(t, 3, c.told(1))
		virtual.SetAll(away, false)
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(knew, "a"))
		assert.ErrorContains(t, setMaxTTL(2*virtual.MaxTTL)(admin.Of(knew).Cluster(), c.Within(10*time.Second)), "no majority of the members")
		c.change(c.Among([]int{0, 1, 2}), setMaxTTL(2*virtual.MaxTTL))
	})
}
