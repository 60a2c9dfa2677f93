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

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Here masters forget in the middle of a change: what they were told of it, or accepted.

// list returns a second version of the cluster's list, as masters keep it.
func list(name string, members ...int) string {
	words := []string{fmt.Sprintf("2.%s 1.first C %d %[2]d", name, virtual.MaxTTL.Milliseconds())}
	for _, i := range members {
		words = append(words, fmt.Sprintf("%s=%[1]s", virtual.Endpoint(i)))
	}
	return strings.Join(words, " ")
}

// tell makes masters members that were told a list of [list] just now.
func (c *cluster) tell(list string, which ...int) {
	version, _, _ := strings.Cut(list, " ")
	for _, i := range which {
		c.Admit(i, virtual.MaxTTL)
		marker, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
		c.Do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, "1.first", version, 1))
		c.Do(i, "SET", pipeline.RegisterKey, fmt.Sprintf("%d\n%s\n- 0\n-\nlearned", c.Clock.Wall().UnixMilli(), list))
	}
}

// accept makes members accept a list under a ballot that is over.
func (c *cluster) accept(list string, which ...int) {
	for _, i := range which {
		text, _, _ := c.Servers[i].Get(pipeline.RegisterKey)
		lines := strings.Split(text, "\n")
		c.Do(i, "SET", pipeline.RegisterKey, strings.Join([]string{lines[0], lines[1], "1.ballot 1", "1.ballot " + list, "learned"}, "\n"))
	}
}

// forgotten is a cluster of four. A majority chose a list, forgot that, and has accepted another
// one since. Who chose the first one tells it late, to the last member and to a new one.
func forgotten(t *testing.T, test func(t *testing.T, c *cluster, since string)) {
	t.Helper()
	inCluster(t, 4, 2, func(t *testing.T, c *cluster) {
		since := list("since", 0, 1, 2, 3, 5)
		c.accept(since, 0, 1, 2)
		c.tell(list("forgotten", 0, 1, 2, 3, 4), 3, 4)
		test(t, c, since)
	})
}

// slow is a connection of a client that takes its time.
type slow struct{ net.Conn }

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Conn.Write(b)
}

// A client finds what the last member was told, and has the promises of the others. Before they
// accept it, two of them are told the other one.
func TestWhatAMajorityForgotIsNotFinishedBesideWhatCounts(t *testing.T) {
	forgotten(t, func(t *testing.T, c *cluster, since string) {
		var promised atomic.Int32
		for _, server := range c.Servers[:3] {
			server.OnChange(func(change fakeredis.Change) {
				if change.Key != pipeline.RegisterKey || strings.Contains(change.New, "\n1.ballot 1\n") || promised.Add(1) != 3 {
					return
				}
				time.AfterFunc(time.Millisecond, func() { c.tell(since, 1, 2, 5) })
			})
		}
		c.Connecting(redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL), redlock.WithPool(pool.WithDialer(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := c.Servers.Dial(ctx, network, address)
				return slow{conn}, err
			})))
		for range 3000 {
			time.Sleep(time.Millisecond)
			require.LessOrEqual(t, len(c.countingRosters()), 1)
		}
		require.GreaterOrEqual(t, promised.Load(), int32(3))
		assert.Equal(t, 6, c.told(2))
	})
}

// Only the first master was told a change. The two others forgot, one after the other, what they
// had accepted, and each rejoined by the word of the other.
func TestAChangeIsFinishedThatOnlyWhoWasToldRemembers(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		c.Grown()
		c.dying(add(3), true)
		c.Among([]int{1, 2}, redlock.WithoutDiscovery())
		for i := range 2 {
			c.Servers[1+i].Restart(false)
			time.Sleep(2 * virtual.MaxTTL)
		}
		assert.Equal(t, 1, c.told(2))
		l := c.Among([]int{0, 1, 2})
		c.change(l, add(4))
		assert.Equal(t, []string{"0", "1", "2", "3", "4"}, c.members(l))
	})
}

// The others forgot at once, and the client knows the version before.
func TestMastersRejoinAtAVersionThatOnlyOneRemembers(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		c.Grown()
		dead := make([]atomic.Bool, len(c.Servers))
		l := c.Among([]int{0, 1, 2}, c.Sparing(dead))
		c.Unlock(c.Lock(l, "a"))
		virtual.SetAll(dead, true)
		c.dying(add(3), true)
		c.Each(virtual.Empty, 1, 2)
		virtual.SetAll(dead, false)
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(l, "a"))
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
	})
}

// It restarted with that data and is durable, so it looks like the member after a restart. B does
// not list the member itself.
func TestACopyOfADurableMemberDoesNotVoteForIt(t *testing.T) {
	for _, discovery := range []bool{true, false} {
		runCluster(t, fmt.Sprintf("discovery %v", discovery), 3, 1, func(t *testing.T, c *cluster) {
			c.Durable()
			held := c.lockWithout(0, c.Among([]int{0, 1, 2}), redlock.WithTTL(virtual.MaxTTL))
			c.Servers[3].ReplicateFrom(c.Servers[1])
			c.Servers[3].Promote()
			c.Del("a", 3) // it is not the lock that keeps others out
			c.Servers[3].Restart(true)
			b := c.Among([]int{0, 3}, discovering(discovery)...)
			time.Sleep(time.Second)
			c.refused(held, b)
		})
	}
}

// Who dials it by the endpoint of the member as well sees at once that it is that one.
func TestADurableMemberThatRestartedVotesAgainByAnotherName(t *testing.T) {
	for _, discovery := range []bool{true, false} {
		runCluster(t, fmt.Sprintf("discovery %v", discovery), 3, 0, func(t *testing.T, c *cluster) {
			c.Durable()
			c.Servers[0].Restart(true)
			l := c.byAnotherName([]string{"other:6379", "node1:6379", "node2:6379"}, discovering(discovery)...)
			time.Sleep(2 * time.Second)
			assert.Equal(t, discovery, l.Stats().Nodes[0].Barred == nil)
			c.heals(l)
		})
	}
}

// One of them waited for a cluster that it was of before.
func TestAClusterBeginsAgainWhateverItsMastersForgot(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		c.Each(virtual.Empty, 0, 1, 2)
		time.Sleep(time.Second)
		marker, _, _ := c.Servers[2].Get(pipeline.MemoryKey)
		require.Contains(t, marker, " cluster=C ")
		c.Do(2, "SET", pipeline.MemoryKey, strings.Replace(marker, " cluster=C ", " cluster=D ", 1))
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(l, "a"))
	})
}

// Two of three joined a new cluster, and nobody went on. Who finds them has another name for one.
func TestMastersThatWereLeftBehindAreSetBackWhateverTheirNames(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 2 {
			c.Admit(i, virtual.MaxTTL)
			marker, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
			c.Do(i, "SET", pipeline.MemoryKey, fmt.Sprintf("%s joined=%d", marker, c.Clock.Wall().UnixMilli()))
		}
		l := c.byAnotherName([]string{"other:6379", "node1:6379", "node2:6379"})
		time.Sleep(3 * virtual.MaxTTL)
		c.Unlock(c.Lock(l, "a"))
	})
}

func TestAServerThatIsListedTwiceForgetsOnce(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l, err := redlock.New(append(c.Servers.Endpoints(), "redis://alias:6379"), redlock.WithClock(c.Clock), c.Aliased(0, 0),
			redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL))
		require.NoError(t, err)
		defer l.Close()
		virtual.Settle()
		lock := c.Lock(l, "a")
		c.Servers[0].Restart(false)
		time.Sleep(time.Second)
		virtual.Settle()
		require.NoError(t, lock.Err(), "two of three still have it")
		require.NoError(t, lock.Verify(ctx))
	})
}

func TestAMasterThatIsNoMemberForgetsNothing(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3})
		time.Sleep(2 * virtual.MaxTTL)
		lock := c.Lock(l, "a")
		c.Servers[0].Restart(false)
		c.Servers[3].Restart(false)
		time.Sleep(time.Second)
		virtual.Settle()
		require.NoError(t, lock.Err(), "two of three still have it")
		require.NoError(t, lock.Verify(ctx))
	})
}
