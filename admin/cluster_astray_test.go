package admin_test

import (
	"context"
	"fmt"
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

// Servers that somebody meets by another name, that say that they are a member and are not, or that
// another cluster has: who may be confused by them, and that it ends.

// A member restarts empty, and somebody uses it alone, or lets it wait.
func TestAMemberThatWasMetByAnotherNameComesHome(t *testing.T) {
	for name, list := range map[string][]string{
		"used alone":   {"node0:6379"},
		"waited alone": {"node0:6379", "nowhere:1"},
		"a third name": {"third:6379"},
	} {
		for _, running := range []bool{true, false} {
			if name == "a third name" && !running {
				continue // who is new cannot know which member that is
			}
			runCluster(t, fmt.Sprint(name, running), 3, 0, func(t *testing.T, c *cluster) {
				c.Grown()
				all := []string{"other:6379", "node1:6379", "node2:6379"}
				fleet := c.byAnotherName(all)
				if !running {
					require.NoError(t, fleet.Close())
				}
				c.Servers[0].Kill()
				time.Sleep(virtual.MaxTTL / 4)
				c.Servers[0].Restart(false)
				alone := c.byAnotherName(list, redlock.WithoutRenewal())
				_, _ = alone.TryLock(ctx, "b") //nolint:errcheck // either way
				time.Sleep(2 * virtual.MaxTTL)
				require.NoError(t, alone.Close())
				if !running {
					fleet = c.byAnotherName(all)
				}
				c.heals(fleet)
				_, err := fleet.TryLock(ctx, "a")
				require.NoError(t, err)
			})
		}
	}
}

func TestAMemberThatWasUsedAloneByAnotherNameStopsNobody(t *testing.T) {
	for _, running := range []bool{true, false} {
		runCluster(t, fmt.Sprint(running), 3, 0, func(t *testing.T, c *cluster) {
			c.Grown()
			fleet := c.Among([]int{0, 1, 2})
			if !running {
				require.NoError(t, fleet.Close())
			}
			c.Servers[1].Restart(false)
			alone := c.byAnotherName([]string{"other1:6379"}, redlock.WithoutRenewal())
			_, _ = alone.TryLock(ctx, "b") //nolint:errcheck // either way
			if !running {
				fleet = c.Among([]int{0, 1, 2})
			}
			time.Sleep(3 * virtual.MaxTTL)
			_, err := fleet.TryLock(ctx, "a")
			require.NoError(t, err)
			c.heals(fleet)
		})
	}
}

// The member forgets, and a former replica of it comes, stays or goes with what the member knew.
func TestACopyOfAMemberDoesNotKeepItOut(t *testing.T) {
	for _, goes := range []bool{true, false} {
		for at := range 6 {
			runCluster(t, fmt.Sprint(goes, at), 3, 1, func(t *testing.T, c *cluster) {
				c.Durable()
				l := c.Among([]int{0, 1, 2, 3})
				copied := c.Servers[3]
				copied.Mute(true)
				copied.ReplicateFrom(c.Servers[0])
				time.Sleep(time.Second)
				copied.Promote()
				copied.Kill()
				copied.Mute(false)
				c.Servers[0].Restart(false)
				time.Sleep(virtual.MaxTTL - 2*time.Second + time.Duration(at)*400*time.Millisecond)
				copied.Restart(true)
				time.Sleep(4 * time.Second)
				if goes {
					copied.Kill()
				}
				time.Sleep(10 * virtual.MaxTTL)
				require.NoError(t, l.Stats().Nodes[0].Barred)
			})
		}
	}
}

func TestAConflictEndsWhenTheOtherClusterIsGone(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3, 4})
		c.Unlock(c.Lock(l, "a"))
		c.Founded(3, 5)
		c.Each((*fakeredis.Node).Disconnect, 3, 4)
		time.Sleep(10 * time.Second)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		c.Each(virtual.Kill, 3, 4)
		time.Sleep(time.Minute)
		c.Unlock(c.Lock(l, "a"))
	})
}

// While it is asked, it may yet answer.
func TestAConflictDoesNotEndWhileTheOtherClusterIsSlow(t *testing.T) {
	inCluster(t, 3, 2, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3, 4})
		c.Unlock(c.Lock(l, "a"))
		c.Founded(3, 5)
		c.Each((*fakeredis.Node).Disconnect, 3, 4)
		time.Sleep(10 * time.Second)
		c.Each(virtual.Delaying(100*time.Millisecond, 100*time.Millisecond), 3, 4)
		for range 1000 {
			_, err := l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrInvalid)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// It belongs to nobody else, and neither of them keeps those from their locks that list it by
// mistake; nor does one that comes later.
func TestAClusterOfOneIsLeftOutOfALargerOne(t *testing.T) {
	for name, away := range map[string][]int{"all members": nil, "no majority of them": {1, 2}} {
		runCluster(t, name, 3, 1, func(t *testing.T, c *cluster) {
			list := []int{3, 0, 1, 2}
			running, alone := c.Among(list), c.Among([]int{3})
			time.Sleep(virtual.MaxTTL + 2*time.Second)
			c.Unlock(c.Lock(alone, "b"))
			for _, i := range away {
				c.Servers[i].Kill()
			}
			time.Sleep(time.Minute)
			later := c.Among(list)
			for _, l := range []*redlock.Locker{running, later} {
				time.Sleep(2 * time.Second)
				lock, err := l.TryLock(ctx, "a")
				if away != nil {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, "C", l.Stats().Cluster)
				c.Taken(c.Among([]int{0, 1, 2}), "a")
				c.Unlock(lock)
				require.ErrorIs(t, later.Stats().Nodes[0].Barred, redlock.ErrOtherCluster)
			}
		})
	}
}

func TestAClusterBeginsAgainThoughAMemberHasTwoNames(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		c.Grown()
		c.Each(virtual.Empty, 0)
		l := c.byAnotherName([]string{"other:6379", "node1:6379", "node2:6379"})
		c.heals(l)
		require.Len(t, l.Stats().Nodes, 4)
		c.Each(virtual.Empty, 0, 1, 2)
		time.Sleep(5 * virtual.MaxTTL)
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
	})
}

func TestMembersChangeAfterClocksWereSetBack(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		time.Sleep(2 * virtual.MaxTTL)
		c.Servers[0].SetClock(-5*time.Hour, 1)
		c.Servers[1].SetClock(-5*time.Hour, 1)
		c.change(l, add(3))
		c.Servers[3].SetClock(-5*time.Hour, 1)
		c.change(l, remove(0))
	})
}

func TestAMasterOfAnotherDatabaseIsNotAdded(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		err := addAs("redis://node3:6379/5")(admin.Of(l).Cluster(), c.Within(2*time.Minute))
		require.ErrorIs(t, err, redlock.ErrInvalid)
	})
}

// An endpoint that could not be added is left also if members change meanwhile, and if none were
// known.
func TestAnEndpointInVainIsLeftWhateverComes(t *testing.T) {
	runCluster(t, "change", 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		time.Sleep(2 * virtual.MaxTTL)
		require.ErrorIs(t, admin.Of(l).Cluster().Add(c.Within(100*time.Millisecond), "redis://typo:6379"), context.DeadlineExceeded)
		c.change(l, add(3))
		time.Sleep(5 * virtual.MaxTTL)
		require.NoError(t, admin.Of(l).Init(ctx, false))
		require.ErrorContains(t, l.Stats().Nodes[3].Barred, "it was not added")
	})
	runCluster(t, "none known", 3, 0, func(t *testing.T, c *cluster) {
		c.Each(virtual.Kill, 1, 2)
		l := c.Among([]int{0, 1, 2})
		require.Error(t, admin.Of(l).Cluster().Add(c.Within(3*time.Second), "redis://typo:6379"))
		c.Each(virtual.Restart, 1, 2)
		time.Sleep(8 * virtual.MaxTTL)
		require.NoError(t, admin.Of(l).Init(ctx, false))
	})
}

// The node that is the same server notices when it connects again.
func TestALossThatANodesTwinKnewIsNotCountedLater(t *testing.T) {
	inCluster(t, 1, 0, func(t *testing.T, c *cluster) {
		l := c.LockerOf([]string{virtual.Endpoint(0), "redis://alias:6379"}, c.Aliased(0, 0), redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithTTL(virtual.MaxTTL))
		virtual.Settle()
		c.Unlock(c.Lock(l, "x"))
		c.Servers[0].FlushAll()
		time.Sleep(5 * virtual.MaxTTL)
		lock := c.Lock(l, "a")
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Err())
		c.Servers[0].Disconnect()
		time.Sleep(2 * time.Second)
		assert.NoError(t, lock.Err())
	})
}

func TestWhatNoTimeChangesIsNamed(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		c.Each(forbidding(pipeline.MemoryKey), 0)
		l := c.Among([]int{0, 1, 2})
		time.Sleep(10 * virtual.MaxTTL)
		why := l.Stats().Nodes[0].Barred
		require.ErrorIs(t, why, pool.ErrQuarantined)
		assert.ErrorContains(t, why, "may not read or write redquorum:memory")
	})
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Each(forbidding(pipeline.RegisterKey), 0)
		l := c.Among([]int{0, 1, 2})
		time.Sleep(3 * virtual.MaxTTL)
		assert.ErrorContains(t, l.Stats().Nodes[0].Barred, "may not read or write redquorum:members")
	})
	inYoungBubble(t, 6, func(t *testing.T, c *cluster) {
		c.Founded(3, 6)
		l := c.Among([]int{0, 1, 2, 3})
		time.Sleep(time.Minute)
		assert.ErrorContains(t, l.Stats().Nodes[0].Barred, "the list also has a master of cluster D")
	})
}
