package admin_test

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
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// runCluster is inCluster as a subtest.
func runCluster(t *testing.T, name string, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inCluster(t, members, spare, test) })
}

// discovering are the options of a Locker that follows its cluster, or does not.
func discovering(discovery bool) []redlock.Option {
	if discovery {
		return nil
	}
	return []redlock.Option{redlock.WithoutDiscovery()}
}

// members returns the endpoints of the members as a Locker learns them.
func (c *cluster) members(l *redlock.Locker) (nodes []string) {
	c.T.Helper()
	m, err := admin.Of(l).Cluster().Members(ctx)
	require.NoError(c.T, err)
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
				first, second := c.Among(all), c.Among(list, discovering(discovery)...)
				c.Each(virtual.Mute, all[:members/2]...)
				lock := c.Lock(first, "a")
				c.Each(virtual.Unmute)
				time.Sleep(3 * time.Second)
				_, err := second.TryLock(ctx, "a")
				require.Error(t, err, "two holders")
				require.NoError(t, lock.Err())
				ready := second.Ready(c.Within(time.Second))
				if known := len(list) - len(slices.DeleteFunc(slices.Clone(list), func(i int) bool { return i < members })); known <= members/2 {
					require.ErrorIs(t, ready, redlock.ErrNoQuorum, "one master's word is not believed")
					return
				}
				require.NoError(t, ready)
				require.ErrorIs(t, err, redlock.ErrTaken)
				c.Unlock(lock)
				virtual.Settle()
				c.Unlock(c.Lock(second, "a"))
			})
		}
	}
}

// By its list, the other client would have a quorum beside the holder's.
func TestOneMasterThatForbidsItsListDoesNotMakeTheListCount(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		c.Each(forbidding(pipeline.RegisterKey), 0)
		holder, other := c.Among([]int{0, 1, 2}), c.Among([]int{0, 3, 4})
		time.Sleep(2 * virtual.MaxTTL) // the spare masters remember then
		c.Servers[0].Mute(true)
		lock := c.Lock(holder, "a")
		c.Servers[0].Mute(false)
		c.NoQuorum(other)
		require.NoError(t, lock.Err())
		c.Unlock(lock)
		c.Unlock(c.Lock(c.Among([]int{0, 1, 2}), "a")) // the others tell
	})
}

func TestWhoMayNotReadTheListOfMembersCountsByItsOwn(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		c.Each(forbidding(pipeline.RegisterKey), 0, 1)
		c.Servers[2].Kill()
		l := c.Among([]int{0, 1, 2})
		c.Unlock(c.Lock(l, "a"))
		assert.Empty(t, l.Stats().Cluster)
		c.Each(func(n *fakeredis.Node) { n.ReplyRaw(nil); n.Disconnect() }, 0, 1)
		time.Sleep(time.Second)
		c.Unlock(c.Lock(l, "a"))
		assert.Equal(t, "C", l.Stats().Cluster, "it may read the list now")
	})
}

func TestAStaleListFollowsTheMembers(t *testing.T) {
	for _, discovery := range []bool{true, false} {
		runCluster(t, fmt.Sprintf("discovery %v", discovery), 3, 1, func(t *testing.T, c *cluster) {
			operator := c.Among([]int{0, 1, 2})
			stale := c.Among([]int{0, 1, 2}, discovering(discovery)...)
			c.Unlock(c.Lock(stale, "a"))
			require.NoError(t, admin.Of(operator).Cluster().Add(c.Within(time.Minute), virtual.Endpoint(3)))
			require.NoError(t, admin.Of(operator).Cluster().Remove(c.Within(time.Minute), virtual.MemberID("node0:6379")))
			assert.Equal(t, []string{"1", "2", "3"}, c.members(operator))
			time.Sleep(5 * time.Second)
			lock := c.Lock(stale, "a")
			virtual.Settle()
			assert.Equal(t, discovery, c.Holders("a")[3] == lock.Value())
			assert.Empty(t, c.Holders("a")[0], "no member is asked no more")
			require.ErrorIs(t, stale.Stats().Nodes[0].Barred, redlock.ErrNotMember)
			c.Unlock(lock)
			c.Servers[1].Kill()
			virtual.Settle()
			lock, err := stale.TryLock(ctx, "a")
			if !discovery {
				require.ErrorIs(t, err, redlock.ErrNoQuorum, "the list has one member that is up")
				return
			}
			require.NoError(t, err)
			c.Unlock(lock)
		})
	}
}

func TestWhoIsNoMemberHasNoVote(t *testing.T) {
	inCluster(t, 3, 4, func(t *testing.T, c *cluster) {
		c.Founded(4, 7) // another one
		l := c.Among([]int{0, 1, 2, 3, 4})
		c.Unlock(c.Lock(l, "a"))
		require.ErrorIs(t, l.Stats().Nodes[3].Barred, redlock.ErrNotMember, "it is new, and nothing makes it vote")
		time.Sleep(virtual.MaxTTL + 2*time.Second) // the spare one remembers then
		c.Unlock(c.Lock(l, "a"))
		require.ErrorIs(t, l.Stats().Nodes[3].Barred, redlock.ErrNotMember)
		require.ErrorIs(t, l.Stats().Nodes[4].Barred, redlock.ErrOtherCluster)
		c.Servers[2].Kill()
		other := c.Among([]int{0, 1, 3})
		time.Sleep(2 * virtual.MaxTTL)
		require.ErrorIs(t, other.Stats().Nodes[2].Barred, redlock.ErrNotMember, "it is not the one that is missing")
		c.Each(virtual.Kill, 0, 1)
		virtual.Settle()
		c.NoQuorum(l, redlock.ErrNotMember, redlock.ErrOtherCluster)
		err := admin.Of(l).Cluster().Add(c.Within(time.Minute), virtual.Endpoint(5))
		require.ErrorContains(t, err, "no majority of the members of a cluster answers")
	})
}

func TestTwoClustersInOneListGrantNothing(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		both := []int{0, 1, 2, 3, 4, 5}
		l := c.Among(both)
		c.Unlock(c.Lock(l, "a")) // there is one cluster
		c.Founded(3, 6)
		time.Sleep(time.Minute)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "two clusters, C and D")
		for _, node := range l.Stats().Nodes {
			require.ErrorIs(t, node.Barred, redlock.ErrOtherCluster)
		}
		_, err = admin.Of(l).Cluster().Members(ctx)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		l = c.Among(both, redlock.WithCluster("D"))
		assert.Equal(t, []string{"3", "4", "5"}, c.members(l))
		lock := c.Lock(l, "a")
		virtual.Settle()
		assert.Equal(t, []string{"", "", ""}, c.Holders("a")[:3])
		c.Unlock(lock)
		l = c.Among(both)
		time.Sleep(200 * time.Millisecond)
		require.ErrorIs(t, admin.Of(l).Cluster().Add(c.Within(time.Minute), virtual.Endpoint(5)), redlock.ErrInvalid)
		one := c.Among([]int{0, 1, 2})
		require.ErrorIs(t, admin.Of(one).Cluster().Add(c.Within(time.Minute), virtual.Endpoint(5)), redlock.ErrOtherCluster)
	})
}

func TestATTLAboveTheClustersIsRefused(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2}, redlock.WithMaxTTL(time.Hour))
		longer := redlock.WithTTL(3 * virtual.MaxTTL)
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, "TTL 30s is above the cluster's maximum of 10s (`redlock members max-ttl 30s` raises it)")
		}
		_, err := l.TryLock(ctx, "a", longer)
		refused(err)
		_, err = l.TryLock(ctx, "a", redlock.WithMinHold(20*time.Second))
		require.ErrorContains(t, err, "minimum hold 20s is above the cluster's maximum of 10s (`redlock members max-ttl 20s` raises it)")
		_, err = l.Lock(c.Within(time.Minute), "a", longer)
		refused(err)
		lock := c.Lock(l, "a")
		refused(lock.Extend(ctx, 3*virtual.MaxTTL))
		require.NoError(t, lock.Extend(ctx, virtual.MaxTTL+time.Millisecond-1), "in whole milliseconds")
		require.NoError(t, lock.Err())
		require.NoError(t, admin.Of(l).Cluster().SetMaxTTL(c.Within(time.Minute), 3*virtual.MaxTTL))
		lock = c.Lock(l, "b")
		require.NoError(t, lock.Extend(ctx, 3*virtual.MaxTTL))
		c.Unlock(lock, c.Lock(l, "c", longer))
		refusal := admin.Of(c.Among([]int{0, 1, 2})).Cluster().SetMaxTTL(ctx, 25*time.Hour)
		require.ErrorIs(t, refusal, redlock.ErrInvalid)
	})
}

// Neither the maximum of a cluster nor its members hold for a Locker that looks at no marker.
func TestWithoutQuarantineNothingOfAClusterHolds(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		member := c.Among([]int{0, 1, 2})
		off := []redlock.Option{redlock.WithQuarantine(redlock.QuarantineOff), redlock.WithMaxTTL(time.Hour)}
		l := c.Among([]int{0, 1, 2}, off...)
		lock := c.Lock(l, "a", redlock.WithTTL(3*virtual.MaxTTL))
		require.NoError(t, lock.Extend(ctx, 4*virtual.MaxTTL))
		_, err := l.TryLock(ctx, "b", redlock.WithTTL(time.Hour+time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrInvalid, "its own maximum does")

		held := c.Lock(member, "c")
		virtual.Settle()
		c.Del("c", 0)
		c.Lock(c.Among([]int{0}, off...), "c")
		require.NoError(t, held.Verify(ctx), "so there are two holders")
	})
}

// Whoever comes while another client forms the cluster waits for it, and is not refused.
func TestWhoComesWhileTheClusterIsFormedWaitsForIt(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		var told []string
		for i := range c.Servers {
			marker, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
			told = append(told, marker)
			c.Do(i, "SET", pipeline.MemoryKey, fmt.Sprintf("%s joined=%d", marker, c.Clock.Wall().UnixMilli()))
		}
		l := c.Connecting()
		time.Sleep(20 * time.Millisecond)
		got := c.Background(func() (*redlock.Lock, error) { return l.TryLock(ctx, "a") })
		time.Sleep(10 * time.Millisecond)
		for i, marker := range told {
			c.Do(i, "SET", pipeline.MemoryKey, marker)
		}
		c.Unlock(<-got)
	})
}

// countingRosters returns the members of each version that a majority of them was told.
func (c *cluster) countingRosters() map[string][]string {
	named, rosters := map[string]int{}, map[string][]string{}
	for _, server := range c.Servers {
		marker, _, _ := server.Get(pipeline.MemoryKey)
		register, _, _ := server.Get(pipeline.RegisterKey)
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
		l := c.Among([]int{0, 1, 2})
		for i := range 3 {
			c.change(l, add(3+i))
		}
		for i := range 3 {
			c.Servers[i].Kill()
			c.change(l, remove(i))
		}
		c.Each(virtual.Empty, 3, 4, 5)
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(l, "a"))
	})
}
