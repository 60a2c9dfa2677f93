package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
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

// runCluster is inCluster as a subtest.
func runCluster(t *testing.T, name string, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inCluster(t, members, spare, test) })
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

// discovering are the options of a Locker that follows its cluster, or does not.
func discovering(discovery bool) []redlock.Option {
	if discovery {
		return nil
	}
	return []redlock.Option{redlock.WithoutDiscovery()}
}

func endpoint(i int) string { return fmt.Sprintf("redis://node%d:6379", i) }

// members returns the endpoints of the members as a Locker learns them.
func (c *cluster) members(l *redlock.Locker) (nodes []string) {
	c.t.Helper()
	m, err := admin.Of(l).Cluster().Members(ctx)
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
			runCluster(t, fmt.Sprintf("%s/discovery %v", name, discovery), members, 5-members, func(t *testing.T, c *cluster) {
				time.Sleep(20 * time.Second) // the spare masters are old enough for anything
				first, second := c.among(all), c.among(list, discovering(discovery)...)
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
		c.noQuorum(other)
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
		c.each(func(n *fakeredis.Node) { n.ReplyRaw(nil); n.Disconnect() }, 0, 1)
		time.Sleep(time.Second)
		c.unlock(c.lock(l, "a"))
		assert.Equal(t, "C", l.Stats().Cluster, "it may read the list now")
	})
}

func TestAStaleListFollowsTheMembers(t *testing.T) {
	for _, discovery := range []bool{true, false} {
		runCluster(t, fmt.Sprintf("discovery %v", discovery), 3, 1, func(t *testing.T, c *cluster) {
			operator := c.among([]int{0, 1, 2})
			stale := c.among([]int{0, 1, 2}, discovering(discovery)...)
			c.unlock(c.lock(stale, "a"))
			require.NoError(t, admin.Of(operator).Cluster().Add(c.within(time.Minute), endpoint(3)))
			require.NoError(t, admin.Of(operator).Cluster().Remove(c.within(time.Minute), memberID("node0:6379")))
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
		c.noQuorum(l, redlock.ErrNotMember, redlock.ErrOtherCluster)
		err := admin.Of(l).Cluster().Add(c.within(time.Minute), endpoint(5))
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
		_, err = admin.Of(l).Cluster().Members(ctx)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		l = c.among(both, redlock.WithCluster("D"))
		assert.Equal(t, []string{"3", "4", "5"}, c.members(l))
		lock := c.lock(l, "a")
		settle()
		assert.Equal(t, []string{"", "", ""}, c.holders("a")[:3])
		c.unlock(lock)
		l = c.among(both)
		time.Sleep(200 * time.Millisecond)
		require.ErrorIs(t, admin.Of(l).Cluster().Add(c.within(time.Minute), endpoint(5)), redlock.ErrInvalid)
		one := c.among([]int{0, 1, 2})
		require.ErrorIs(t, admin.Of(one).Cluster().Add(c.within(time.Minute), endpoint(5)), redlock.ErrOtherCluster)
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
		c.noQuorum(l, redlock.ErrNotMember)
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
			require.ErrorContains(t, err, "TTL 30s is above the cluster's maximum of 10s (`redlock members max-ttl 30s` raises it)")
		}
		_, err := l.TryLock(ctx, "a", longer)
		refused(err)
		_, err = l.TryLock(ctx, "a", redlock.WithMinHold(20*time.Second))
		require.ErrorContains(t, err, "minimum hold 20s is above the cluster's maximum of 10s (`redlock members max-ttl 20s` raises it)")
		_, err = l.Lock(c.within(time.Minute), "a", longer)
		refused(err)
		lock := c.lock(l, "a")
		refused(lock.Extend(ctx, 3*maxTTL))
		require.NoError(t, lock.Err())
		require.NoError(t, admin.Of(l).Cluster().SetMaxTTL(c.within(time.Minute), 3*maxTTL))
		lock = c.lock(l, "b")
		require.NoError(t, lock.Extend(ctx, 3*maxTTL))
		c.unlock(lock, c.lock(l, "c", longer))
		refusal := admin.Of(c.among([]int{0, 1, 2})).Cluster().SetMaxTTL(ctx, 25*time.Hour)
		require.ErrorIs(t, refusal, redlock.ErrInvalid)
	})
}

// Clients that come first have different lists. None of the masters is in two clusters that count.
func TestClientsThatFormClustersAtOnceShareNoMaster(t *testing.T) {
	for name, lists := range map[string][][]int{
		"one in both":   {{0, 1, 2}, {2, 3, 4}},
		"shorter":       {{0, 1, 2}, {1}},
		"another order": {{0, 1, 2}, {2, 0, 1}},
		"three":         {{0, 1, 2}, {2, 3}, {3, 4, 0}},
	} {
		for seed := range uint64(25) { // 5 of them miss majority-joins-a-new-cluster in 1 of 8 runs
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
