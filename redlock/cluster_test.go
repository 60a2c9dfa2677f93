package redlock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// inCluster runs a test on the members of a cluster, and behind them spare masters that no client
// has seen.
func inCluster(t *testing.T, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	inYoungBubble(t, members+spare, func(t *testing.T, c *cluster) {
		c.founded(0, members)
		test(t, c)
	})
}

// founded makes a cluster of the masters from first to before.
func (c *cluster) founded(first, before int) {
	c.t.Helper()
	all := c.servers
	for i := first; i < before; i++ {
		c.servers = all[:before]
		c.admit(i, maxTTL)
		c.servers = all
		for _, key := range []string{pipeline.MemoryKey, membersKey} { // of those before first, none is a member
			text, _, _ := c.servers[i].Get(key)
			for other := range first {
				text = strings.Replace(text, fmt.Sprintf(" redis://node%d:6379=redis://node%[1]d:6379", other), "", 1)
			}
			if first > 0 {
				text = strings.NewReplacer("cluster=C", "cluster=D", "1.first - C", "1.first - D").Replace(text)
			}
			c.do(i, "SET", key, text)
		}
	}
}

// among returns a Locker of some of the masters. It does not renew its locks.
func (c *cluster) among(list []int, opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	opts = append([]redlock.Option{redlock.WithoutRenewal(), redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL)}, opts...)
	return c.listing(list, opts...)
}

func endpoint(i int) string { return fmt.Sprintf("redis://node%d:6379", i) }

// members returns the endpoints of the members as a Locker learns them.
func (c *cluster) members(l *redlock.Locker) (nodes []string) {
	c.t.Helper()
	m, err := l.Cluster().Members(ctx)
	require.NoError(c.t, err)
	for _, member := range m.Members {
		nodes = append(nodes, strings.TrimSuffix(strings.TrimPrefix(member.Endpoint, "redis://node"), ":6379"))
	}
	slices.Sort(nodes)
	return nodes
}

// A lock is held at a bare majority of the members; by its own list, the other client could have a
// quorum.
func TestListsThatDifferExcludeEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		list    []int
	}{
		"another order": {3, []int{2, 1, 0}},
		"one of three":  {3, []int{0}},
		"two of three":  {3, []int{0, 1}},
		"three of five": {5, []int{0, 1, 2}},
		"more":          {3, []int{0, 1, 2, 3, 4}},
		"one replaced":  {3, []int{0, 1, 3}},
		"two replaced":  {3, []int{0, 3, 4}},
		"one and more":  {3, []int{0, 3}},
	} {
		members, list, all := c.members, c.list, []int{0, 1, 2, 3, 4}[:c.members]
		for _, discovery := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/discovery %v", name, discovery), func(t *testing.T) {
				inCluster(t, members, 5-members, func(t *testing.T, c *cluster) {
					time.Sleep(20 * time.Second) // the spare masters are old enough for anything
					var opts []redlock.Option
					if !discovery {
						opts = append(opts, redlock.WithoutDiscovery())
					}
					first, second := c.among(all), c.among(list, opts...)
					c.each(mute, all[:members/2]...)
					lock := c.lock(first, "a")
					c.each(unmute)
					time.Sleep(3 * time.Second)
					_, err := second.TryLock(ctx, "a")
					require.Error(t, err, "two holders")
					require.NoError(t, lock.Err())
					ready := second.Ready(c.within(time.Second))
					if known := len(list) - len(slices.DeleteFunc(slices.Clone(list), func(i int) bool { return i < members })); known <= members/2 {
						require.ErrorIs(t, ready, redlock.ErrNoQuorum, "one master's word is not believed")
						return
					}
					require.NoError(t, ready)
					require.ErrorIs(t, err, redlock.ErrTaken)
					c.unlock(lock)
					settle()
					c.unlock(c.lock(second, "a"))
				})
			})
		}
	}
}

// By its list, the other client would have a quorum beside the holder's.
func TestOneMasterThatForbidsItsListDoesNotMakeTheListCount(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		c.each(forbidding(membersKey), 0)
		holder, other := c.among([]int{0, 1, 2}), c.among([]int{0, 3, 4})
		time.Sleep(2 * maxTTL) // the spare masters remember then
		c.servers[0].Mute(true)
		lock := c.lock(holder, "a")
		c.servers[0].Mute(false)
		_, err := other.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NoError(t, lock.Err())
		c.unlock(lock)
		c.unlock(c.lock(c.among([]int{0, 1, 2}), "a")) // the others tell
	})
}

func TestWhoMayNotReadTheListOfMembersCountsByItsOwn(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		c.each(forbidding(membersKey), 0, 1)
		c.servers[2].Kill()
		l := c.among([]int{0, 1, 2})
		c.unlock(c.lock(l, "a"))
		assert.Empty(t, l.Stats().Cluster)
		c.each(func(n *fake.Node) { n.ReplyRaw(nil); n.Disconnect() }, 0, 1)
		time.Sleep(time.Second)
		c.unlock(c.lock(l, "a"))
		assert.Equal(t, "C", l.Stats().Cluster, "it may read the list now")
	})
}

func TestAStaleListFollowsTheMembers(t *testing.T) {
	for _, discovery := range []bool{true, false} {
		t.Run(fmt.Sprintf("discovery %v", discovery), func(t *testing.T) {
			inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
				operator := c.among([]int{0, 1, 2})
				var opts []redlock.Option
				if !discovery {
					opts = append(opts, redlock.WithoutDiscovery())
				}
				stale := c.among([]int{0, 1, 2}, opts...)
				c.unlock(c.lock(stale, "a"))
				require.NoError(t, operator.Cluster().Add(c.within(time.Minute), endpoint(3)))
				require.NoError(t, operator.Cluster().Remove(c.within(time.Minute), memberID("node0:6379")))
				assert.Equal(t, []string{"1", "2", "3"}, c.members(operator))
				time.Sleep(5 * time.Second)
				lock := c.lock(stale, "a")
				settle()
				assert.Equal(t, discovery, c.holders("a")[3] == lock.Value())
				assert.Empty(t, c.holders("a")[0], "no member is asked no more")
				require.ErrorIs(t, stale.Stats().Nodes[0].Barred, redlock.ErrNotMember)
				c.unlock(lock)
				c.servers[1].Kill()
				settle()
				lock, err := stale.TryLock(ctx, "a")
				if !discovery {
					require.ErrorIs(t, err, redlock.ErrNoQuorum, "the list has one member that is up")
					return
				}
				require.NoError(t, err)
				c.unlock(lock)
			})
		})
	}
}

func TestWhoIsNoMemberHasNoVote(t *testing.T) {
	inCluster(t, 3, 4, func(t *testing.T, c *cluster) {
		c.founded(4, 7) // another one
		l := c.among([]int{0, 1, 2, 3, 4})
		c.unlock(c.lock(l, "a"))
		require.ErrorIs(t, l.Stats().Nodes[3].Barred, redlock.ErrNotMember, "it is new, and nothing makes it vote")
		time.Sleep(maxTTL + 2*time.Second) // the spare one remembers then
		c.unlock(c.lock(l, "a"))
		require.ErrorIs(t, l.Stats().Nodes[3].Barred, redlock.ErrNotMember)
		require.ErrorIs(t, l.Stats().Nodes[4].Barred, redlock.ErrOtherCluster)
		c.servers[2].Kill()
		other := c.among([]int{0, 1, 3})
		time.Sleep(2 * maxTTL)
		require.ErrorIs(t, other.Stats().Nodes[2].Barred, redlock.ErrNotMember, "it is not the one that is missing")
		c.each(kill, 0, 1)
		settle()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrNotMember)
		require.ErrorIs(t, err, redlock.ErrOtherCluster)
		err = l.Cluster().Add(c.within(time.Minute), endpoint(5))
		require.ErrorContains(t, err, "no majority of the members of a cluster answers")
	})
}

// Clients with the masters of two clusters in one list must not each take the one that answers
// first.
func TestTheClusterThatAnswersFirstIsNotTaken(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		c.founded(3, 6)
		for _, late := range [][]int{{4, 5}, {1, 2}} {
			c.each(delaying(5*time.Millisecond, 5*time.Millisecond), late...)
			_, err := c.among([]int{0, 1, 2, 3, 4, 5}).TryLock(ctx, "a")
			require.Error(t, err)
			c.each(delaying(0, 0), late...)
			c.each(mute, late...)
			l := c.among([]int{0, 1, 2, 3, 4, 5})
			time.Sleep(time.Second)
			_, err = l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "whoever reaches those that are away may count by the other cluster")
			c.each(unmute)
		}
	})
}

func TestTwoClustersInOneListGrantNothing(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		both := []int{0, 1, 2, 3, 4, 5}
		l := c.among(both)
		c.unlock(c.lock(l, "a")) // there is one cluster
		c.founded(3, 6)
		time.Sleep(time.Minute)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "two clusters, C and D")
		for _, node := range l.Stats().Nodes {
			require.ErrorIs(t, node.Barred, redlock.ErrOtherCluster)
		}
		_, err = l.Cluster().Members(ctx)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		l = c.among(both, redlock.WithCluster("D"))
		assert.Equal(t, []string{"3", "4", "5"}, c.members(l))
		lock := c.lock(l, "a")
		settle()
		assert.Equal(t, []string{"", "", ""}, c.holders("a")[:3])
		c.unlock(lock)
		l = c.among(both)
		time.Sleep(200 * time.Millisecond)
		require.ErrorIs(t, l.Cluster().Add(c.within(time.Minute), endpoint(5)), redlock.ErrInvalid)
		one := c.among([]int{0, 1, 2})
		require.ErrorIs(t, one.Cluster().Add(c.within(time.Minute), endpoint(5)), redlock.ErrOtherCluster)
	})
}

// Somebody has used a server alone, so it is a cluster of its own. A list of it and of too few
// members for a quorum is no reason to count by it.
func TestAServerThatWasUsedAloneGrantsNothingBesideMembers(t *testing.T) {
	inCluster(t, 5, 1, func(t *testing.T, c *cluster) {
		c.founded(5, 6)
		c.unlock(c.lock(c.among([]int{5}), "a"))
		held := c.lock(c.among([]int{0, 1, 2, 3, 4}), "a")
		settle()
		for _, list := range [][]int{{5, 0}, {0, 5}, {5, 0, 1}} {
			l := c.among(list)
			_, err := l.TryLock(ctx, "a")
			require.Error(t, err)
			settle()
			_, err = l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, "two clusters, C and D")
		}
		c.each(mute, 0)
		l := c.among([]int{5, 0})
		_, err := l.TryLock(c.within(5*time.Second), "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "the other one may be of another cluster")
		c.each(unmute, 0)
		c.unlock(held)
	})
}

func TestWithClusterNewMastersAreNoNewOne(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.among([]int{0, 1, 2}, redlock.WithCluster("C"))
		time.Sleep(time.Minute)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrNotMember)
		c.unlock(c.lock(c.among([]int{0, 1, 2}), "a"))
	})
}

func TestATTLAboveTheClustersIsRefused(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l := c.among([]int{0, 1, 2}, redlock.WithMaxTTL(time.Hour))
		longer := redlock.WithTTL(3 * maxTTL)
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, "the cluster's maximum of 10s (`redlock members max-ttl 30s` raises it)")
		}
		_, err := l.TryLock(ctx, "a", longer)
		refused(err)
		_, err = l.Lock(c.within(time.Minute), "a", longer)
		refused(err)
		lock := c.lock(l, "a")
		refused(lock.Extend(ctx, 3*maxTTL))
		require.NoError(t, lock.Err())
		require.NoError(t, l.Cluster().SetMaxTTL(c.within(time.Minute), 3*maxTTL))
		lock = c.lock(l, "b")
		require.NoError(t, lock.Extend(ctx, 3*maxTTL))
		c.unlock(lock, c.lock(l, "c", longer))
		refusal := c.among([]int{0, 1, 2}).Cluster().SetMaxTTL(ctx, 25*time.Hour)
		require.ErrorIs(t, refusal, redlock.ErrInvalid)
	})
}

// A master that forgot rejoins, whoever asks.
func TestMastersThatForgotComeBackAsTheMembersThatTheyWere(t *testing.T) {
	for name, forget := range map[string]struct {
		masters []int
		same    bool // the cluster is
		how     func(*fake.Node)
	}{
		"one":               {[]int{1}, true, empty},
		"two":               {[]int{0, 2}, true, empty},
		"three":             {[]int{0, 1, 2}, false, empty},
		"one, old snapshot": {[]int{1}, true, (*fake.Node).RestartFromSnapshot},
		"two, old snapshot": {[]int{0, 1}, true, (*fake.Node).RestartFromSnapshot},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
				c.grown()
				l := c.among([]int{0, 1, 2})
				before, err := l.Cluster().Members(ctx)
				require.NoError(t, err)
				c.each((*fake.Node).Save)
				c.lock(l, "held")
				settle()
				c.each(forget.how, forget.masters...)
				for _, i := range forget.masters {
					assert.Empty(t, c.holders("held")[i], "it has forgotten")
				}
				time.Sleep(time.Second)
				assert.Equal(t, 3-len(forget.masters), c.told(1), "it does not know what it was told since")
				time.Sleep(maxTTL + 5*time.Second)
				for _, l := range []*redlock.Locker{l, c.among([]int{2, 0, 1})} {
					after, err := l.Cluster().Members(ctx)
					require.NoError(t, err)
					assert.Equal(t, forget.same, after.Cluster == before.Cluster)
					for i, m := range after.Members {
						require.NoError(t, m.Err)
						assert.True(t, m.Voting)
						assert.True(t, !forget.same || m.ID == before.Members[i].ID)
					}
					c.unlock(c.lock(l, "a"))
				}
			})
		})
	}
}

// Who finds a master that forgot may not know the cluster, nor how long its locks last.
func TestAMasterThatForgotWaitsForAsLongAsItsClustersLocksLast(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.each(empty, 2)
		short, err := redlock.New([]string{endpoint(2), "nowhere:1"}, redlock.WithClock(c.clock), redlock.WithPool(pool.WithDialer(c.dialer())),
			redlock.WithTTL(time.Second), redlock.WithMaxTTL(time.Second))
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.NoError(t, short.Close())
		l := c.locker()
		time.Sleep(50 * time.Second)
		require.ErrorIs(t, l.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		time.Sleep(15 * time.Second)
		assert.NoError(t, l.Stats().Nodes[2].Barred)
	})
}

// backup returns a function that imports what a server says of itself now: its marker, and its
// register if it is whole. The server does not notice, and keeps its connections.
func (c *cluster) backup(i int, whole bool) (restore func()) {
	c.t.Helper()
	marker, _, _ := c.servers[i].Get(pipeline.MemoryKey)
	register, _, _ := c.servers[i].Get(membersKey)
	return func() {
		c.do(i, "FLUSHALL")
		c.do(i, "SET", pipeline.MemoryKey, marker)
		if whole {
			c.do(i, "SET", membersKey, register)
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
			t.Run(fmt.Sprintf("%s/with its register %v", name, whole), func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, c *cluster) {
					a, restore := c.locker(), c.backup(2, whole)
					var held *redlock.Lock
					if when.after < waits {
						held = c.lockWithout(0, a)
					}
					slept := c.locker() // for 2 s it asks nobody
					c.do(2, "FLUSHALL")
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
					fresh := c.locker()
					c.refused(held, fresh)
					time.Sleep(2 * time.Second)
					require.ErrorIs(t, fresh.Stats().Nodes[2].Barred, pool.ErrQuarantined)
					time.Sleep(waits)
					for _, l := range []*redlock.Locker{a, slept, fresh} {
						require.NoError(t, l.Stats().Nodes[2].Barred)
					}
					second := c.lock(fresh, "a")
					settle()
					assert.NotEmpty(t, c.holders("a")[2])
					c.unlock(second)
				})
			})
		}
	}
}

// A master that restarted and is listed alone still has the list of the others.
func TestAPartOfAClusterThatRestartedBecomesNoOther(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		first := c.among([]int{0, 1, 2})
		c.each(restart, 0)
		alone := c.among([]int{0}, redlock.WithoutDiscovery())
		time.Sleep(2 * maxTTL)
		_, err := alone.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, []string{"0", "1", "2"}, c.members(first))
	})
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) { // there is nobody who knew it
		c.each(restart, 0)
		alone := c.among([]int{0})
		time.Sleep(2 * maxTTL)
		_, err := alone.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "redis://node1:6379 and redis://node2:6379")
		c.unlock(c.lock(c.among([]int{0, 1, 2}), "a"))
	})
}

// A master that was removed remembers the list, and is no member who could let others rejoin.
func TestAClusterBeginsAgainWhenOnlyARemovedMasterRemembers(t *testing.T) {
	inCluster(t, 2, 0, func(t *testing.T, c *cluster) {
		var nodes []*pool.Node
		for i := range c.servers {
			node, err := pool.NewNode(endpoint(i), pool.WithClock(c.clock), pool.WithDialer(c.dialer()))
			require.NoError(t, err)
			t.Cleanup(func() { endsOnly(node.Close()) })
			nodes = append(nodes, node)
		}
		both, err := redlock.NewFromNodes(nodes, redlock.WithMaxTTL(maxTTL)) // it keeps its nodes
		require.NoError(t, err)
		t.Cleanup(func() { endsOnly(both.Close()) })
		l := c.among([]int{1})
		c.change(c.among([]int{0, 1}), remove(0))
		time.Sleep(time.Second)
		c.each(empty, 1)
		time.Sleep(3 * maxTTL)
		c.unlock(c.lock(l, "a"))
	})
}

// An operator has left one behind in the list.
func TestAClusterBeginsAgainBesideACandidate(t *testing.T) {
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("it is listed later %v", later), func(t *testing.T) {
			inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
				dying := c.among([]int{0, 1, 2})
				require.Error(t, add(3)(dying.Cluster(), c.within(time.Second)), "it waits")
				require.NoError(t, dying.Close())
				c.each(restart, 0, 1, 2)
				list := []int{0, 1, 2, 3}
				if later {
					list = list[:3]
				}
				l := c.among(list)
				time.Sleep(2 * maxTTL)
				c.unlock(c.lock(l, "a"))
				if later {
					c.change(l, add(3))
				}
				assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
			})
		})
	}
}

// A client knows a master as the only member. It was removed meanwhile, and is about to be added
// again.
func TestARemovedMasterThatIsAddedAgainBecomesNoOtherCluster(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		dead := make([]atomic.Bool, len(c.servers))
		slept := c.among([]int{0}, c.sparing(dead))
		c.unlock(c.lock(slept, "a"))
		dead[0].Store(true)
		l := c.among([]int{0, 1})
		c.change(l, add(1))
		c.change(l, remove(0))
		require.Error(t, add(0)(l.Cluster(), c.within(time.Second)), "it waits")
		lock := c.lock(l, "a")
		dead[0].Store(false)
		time.Sleep(3 * time.Second)
		_, err := slept.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.unlock(lock)
	})
}

// It still has the list of those who came after it, so a client that knows no newer one than that
// in which it was alone does not take it for the whole cluster.
func TestARemovedMasterThatRestartedBecomesNoOtherCluster(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		dead := make([]atomic.Bool, len(c.servers))
		slept := c.among([]int{0}, c.sparing(dead))
		c.unlock(c.lock(slept, "a"))
		dead[0].Store(true)
		l := c.among([]int{0, 1})
		c.change(l, add(1))
		c.change(l, remove(0))
		c.each(restart, 0)
		dead[0].Store(false)
		time.Sleep(3 * maxTTL)
		lock := c.lock(l, "a")
		_, err := slept.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.unlock(lock)
	})
}

// A master of another cluster that forgot is awaited there.
func TestAMasterOfAnotherClusterThatForgotIsNotAdded(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		c.founded(3, 6)
		other := c.among([]int{3, 4, 5})
		c.each(empty, 5)
		time.Sleep(2 * time.Second)
		err := add(5)(c.among([]int{0, 1, 2}).Cluster(), c.within(time.Minute))
		require.ErrorIs(t, err, redlock.ErrOtherCluster)
		time.Sleep(2 * maxTTL)
		require.NoError(t, other.Stats().Nodes[2].Barred)
	})
}

// Such a master tells no list of members either.
func TestAMarkerThatComesBackDoesNotTellTheMembers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, restore := c.locker(), c.backup(2, true)
		c.do(2, "FLUSHALL")
		time.Sleep(10 * time.Second)
		c.servers[0].Mute(true)
		restore()
		_, err := l.Cluster().Members(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// Somebody asks a master alone that has just forgotten: it becomes a cluster of its own.
func TestAMasterThatWasUsedAloneIsBroughtHome(t *testing.T) {
	for name, seen := range map[string]bool{"nobody has seen it": false, "it waits": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
				c.grown()
				fleet := c.among([]int{0, 1, 2})
				c.servers[2].Mute(true)
				lock := c.lock(fleet, "a")
				c.servers[2].Mute(false)
				c.servers[1].Kill()
				time.Sleep(maxTTL / 4) // the fleet dials again after a pause
				c.servers[1].Restart(false)
				if seen {
					time.Sleep(maxTTL / 4)
				}
				alone := c.among([]int{1}, redlock.WithKeyPrefix("probe:"))
				probe, err := alone.TryLock(ctx, "a")
				assert.Equal(t, seen, err != nil, "%v", err)
				_, err = c.among([]int{0, 1, 2}).TryLock(ctx, "a")
				require.Error(t, err, "two holders")
				require.NoError(t, lock.Err())
				if probe != nil {
					time.Sleep(time.Second)
					require.Error(t, probe.Err(), "it is not its cluster any more")
				}
				time.Sleep(3 * maxTTL)
				m, err := fleet.Cluster().Members(ctx)
				require.NoError(t, err)
				assert.Equal(t, "C", m.Cluster)
				for _, one := range m.Members {
					assert.NoError(t, one.Err)
				}
			})
		})
	}
}

// Clients that come first have different lists. None of the masters is in two clusters that count.
func TestClientsThatFormClustersAtOnceShareNoMaster(t *testing.T) {
	for name, lists := range map[string][][]int{
		"one in both":   {{0, 1, 2}, {2, 3, 4}},
		"shorter":       {{0, 1, 2}, {1}},
		"another order": {{0, 1, 2}, {2, 0, 1}},
		"three":         {{0, 1, 2}, {2, 3}, {3, 4, 0}},
	} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				inYoungBubble(t, 5, func(t *testing.T, c *cluster) {
					for i, server := range c.servers {
						server.DelayBetween(0, 20*time.Millisecond, seed+uint64(i))
					}
					for _, list := range lists {
						c.among(list)
					}
					time.Sleep(2 * maxTTL)
					rosters := c.countingRosters()
					assert.NotEmpty(t, rosters)
					for name, roster := range rosters {
						for other, another := range rosters {
							shared := slices.ContainsFunc(roster, func(e string) bool { return slices.Contains(another, e) })
							assert.False(t, name != other && shared, "%v and %v", roster, another)
						}
					}
				})
			})
		}
	}
}

// Whoever comes while another client forms the cluster waits for it, and is not refused.
func TestWhoComesWhileTheClusterIsFormedWaitsForIt(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		var told []string
		for i := range c.servers {
			marker, _, _ := c.servers[i].Get(pipeline.MemoryKey)
			told = append(told, marker)
			c.do(i, "SET", pipeline.MemoryKey, fmt.Sprintf("%s joined=%d", marker, c.clock.Wall().UnixMilli()))
		}
		l := c.connecting()
		time.Sleep(20 * time.Millisecond)
		got := c.background(func() (*redlock.Lock, error) { return l.TryLock(ctx, "a") })
		time.Sleep(10 * time.Millisecond)
		for i, marker := range told {
			c.do(i, "SET", pipeline.MemoryKey, marker)
		}
		c.unlock(<-got)
	})
}

// countingRosters returns the members of each version that a majority of them was told.
func (c *cluster) countingRosters() map[string][]string {
	named, rosters := map[string]int{}, map[string][]string{}
	for _, server := range c.servers {
		marker, _, _ := server.Get(pipeline.MemoryKey)
		register, _, _ := server.Get(membersKey)
		lines := strings.Split(register, "\n")
		if len(lines) < 2 || strings.Contains(marker, " joined=") || !strings.HasPrefix(marker, "active ") {
			continue
		}
		words := strings.Split(lines[1], " ")
		if name := words[2] + " " + words[0]; strings.Contains(marker, " version="+words[0]) {
			named[name]++
			rosters[name] = nil
			for _, word := range words[5:] {
				_, endpoint, _ := strings.Cut(word, "=")
				rosters[name] = append(rosters[name], endpoint)
			}
		}
	}
	for name, roster := range rosters {
		if named[name] <= len(roster)/2 {
			delete(rosters, name)
		}
	}
	return rosters
}

// The masters of its list die before they are removed, and those that took their places forget.
func TestAClientFollowsItsClusterIntoANewOne(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		l := c.among([]int{0, 1, 2})
		for i := range 3 {
			c.change(l, add(3+i))
		}
		for i := range 3 {
			c.servers[i].Kill()
			c.change(l, remove(i))
		}
		c.each(empty, 3, 4, 5)
		time.Sleep(3 * maxTTL)
		c.unlock(c.lock(l, "a"))
	})
}

// byAnotherName returns a Locker of some of the masters that has another name for the first.
func (c *cluster) byAnotherName(list []string, opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	l := c.made(list, append(opts, redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL),
		redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.servers.Dial(ctx, network, strings.Replace(address, "other", "node0", 1))
		})))...)
	settle()
	return l
}

// heals requires that all members vote at last.
func (c *cluster) heals(l *redlock.Locker) {
	c.t.Helper()
	time.Sleep(3 * maxTTL)
	m, err := l.Cluster().Members(ctx)
	require.NoError(c.t, err)
	for _, one := range m.Members {
		assert.NoError(c.t, one.Err)
	}
}

func TestAMasterThatForgotIsBroughtHomeByWhoKnowsItByAnotherName(t *testing.T) {
	t.Run("and dials it", func(t *testing.T) {
		inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
			c.each(empty, 0)
			c.heals(c.byAnotherName([]string{"other:6379", "node1:6379", "node2:6379"}))
		})
	})
	t.Run("or reads in its marker who it is", func(t *testing.T) {
		inCluster(t, 2, 0, func(t *testing.T, c *cluster) {
			l := c.among([]int{0, 1})
			c.each(empty, 0)
			time.Sleep(maxTTL / 2)
			require.NoError(t, l.Close())
			c.heals(c.byAnotherName([]string{"other:6379", "node1:6379"}))
		})
	})
}
