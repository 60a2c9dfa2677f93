package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/redquorum/redquorum/redlock"
)

func setMaxTTL(d time.Duration) operation {
	return func(cluster *admin.Cluster, ctx context.Context) error { return cluster.SetMaxTTL(ctx, d) }
}

// told counts the masters that were told a version, as their markers say.
func (c *cluster) told(number int) (n int) {
	for _, server := range c.Servers {
		if marker, _, _ := server.Get(pipeline.MemoryKey); strings.Contains(marker, fmt.Sprintf(" version=%d.", number)) {
			n++
		}
	}
	return n
}

// under takes and releases a lock until the function that it returns is called, which tells how
// long at most no attempt was successful.
func (c *cluster) under(l *redlock.Locker) (longest func() time.Duration) {
	var stop atomic.Bool
	most := make(chan time.Duration, 1)
	c.Calls.Go(func() {
		last, gap := time.Now(), time.Duration(0)
		for !stop.Load() {
			if lock, err := l.TryLock(ctx, "load"); err == nil {
				gap, last = max(gap, time.Since(last)), time.Now()
				assert.NoError(c.T, lock.Unlock(ctx))
			}
			time.Sleep(5 * time.Millisecond)
		}
		most <- max(gap, time.Since(last))
	})
	return func() time.Duration { stop.Store(true); return <-most }
}

// In the end, no master is left of those that the lock was acquired at. Nobody is told that a
// master has no vote that is about to have one again.
func TestALockIsHeldWhileAllMembersAreReplaced(t *testing.T) {
	inCluster(t, 3, 3, func(t *testing.T, c *cluster) {
		c.Slow(2 * time.Millisecond)
		short := redlock.WithTTL(3 * time.Second)
		holder, waiter := c.Listing([]int{0, 1, 2}, short), c.Listing([]int{0, 1, 2}, short)
		var barred atomic.Int32
		longest := c.under(c.Among([]int{1, 2, 0}, short, redlock.WithHooks(redlock.Hooks{Node: func(_ string, err error) {
			if err != nil && !errors.Is(err, redlock.ErrNotMember) {
				barred.Add(1)
			}
		}})))
		operator := c.Among([]int{0, 1, 2})
		time.Sleep(virtual.MaxTTL + time.Second)
		lock := c.Lock(holder, "a")
		next := c.Waiting(waiter, "a")
		took := virtual.Elapsed(func() {
			for k, change := range []operation{add(3), remove(0), add(4), remove(1), add(5), remove(2)} {
				c.change(operator, change)
				m, err := admin.Of(operator).Cluster().Members(ctx)
				require.NoError(t, err)
				assert.Equal(t, int64(k+2), m.Version)
				assert.InDelta(t, virtual.MaxTTL, m.Next, float64(time.Second))
			}
		})
		assert.GreaterOrEqual(t, took, 5*virtual.MaxTTL)
		assert.LessOrEqual(t, took, 5*(virtual.MaxTTL+virtual.MaxTTL/20)+time.Second)
		assert.Equal(t, []string{"3", "4", "5"}, c.members(operator))
		assert.LessOrEqual(t, longest(), 100*time.Millisecond)
		assert.Zero(t, barred.Load())
		require.NoError(t, lock.Err())
		assert.Empty(t, next)
		c.Unlock(lock)
		c.Unlock(<-next)
		require.ErrorIs(t, holder.Stats().Nodes[0].Barred, redlock.ErrNotMember)
	})
}

// With one member more, the quorum of two needs the new one, which no list has. It is known from
// who was told, before a quorum of the new version was.
func TestANewMemberIsFoundWithoutAPause(t *testing.T) {
	inCluster(t, 1, 1, func(t *testing.T, c *cluster) {
		c.Slow(2 * time.Millisecond)
		operator, client := c.Among([]int{0}), c.Among([]int{0})
		time.Sleep(virtual.MaxTTL + time.Second)
		longest := c.under(client)
		c.change(operator, add(1))
		time.Sleep(time.Second)
		assert.LessOrEqual(t, longest(), 100*time.Millisecond)
		assert.Equal(t, []string{"0", "1"}, c.members(client))
	})
}

// A member that is away was not told: only its own removal may begin.
func TestNoChangeBeginsWhileAMemberIsBehind(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		c.Servers[0].Mute(true)
		time.Sleep(10 * time.Second)
		err := add(3)(admin.Of(l).Cluster(), c.Within(30*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "only it can be removed now")
		assert.Zero(t, c.told(2))
		c.change(l, remove(0))
		c.change(l, add(3))
		assert.Equal(t, []string{"1", "2", "3"}, c.members(l))
		c.Servers[0].Mute(false)
		time.Sleep(10 * time.Second)
		lock := c.Lock(l, "a")
		_, err = c.Among([]int{0}, redlock.WithoutDiscovery()).TryLock(ctx, "a")
		require.Error(t, err, "the removed one believes that it is a member")
		c.Unlock(lock)
		c.change(l, add(0)) // it may come back
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
	})
}

// dying makes a change by an operator that dies when a majority has accepted it; if one is set, the
// first master is still told.
func (c *cluster) dying(change operation, one bool) {
	c.T.Helper()
	dead := make([]atomic.Bool, len(c.Servers))
	var accepted atomic.Int32
	for i, server := range c.Servers {
		server.OnChange(func(change fakeredis.Change) {
			lines := strings.Split(change.New, "\n")
			if change.Key != pipeline.RegisterKey || len(lines) < 4 {
				return
			}
			if lines[3] != "-" && accepted.Add(1) == 2 {
				for k := range dead {
					dead[k].Store(k > 0 || !one)
				}
			}
			if one && i == 0 && strings.HasPrefix(lines[1], "2.") {
				dead[0].Store(true)
			}
		})
	}
	operator := c.Among([]int{0, 1, 2}, c.Sparing(dead))
	require.Error(c.T, change(admin.Of(operator).Cluster(), c.Within(30*time.Second)))
	require.GreaterOrEqual(c.T, accepted.Load(), int32(2))
	c.Each(func(n *fakeredis.Node) { n.OnChange(nil) })
}

// The client slept meanwhile, so it knows the version before. Of two members, the one that was told
// stands for an acceptance.
func TestAChangeThatWasBegunIsFinished(t *testing.T) {
	for name, begun := range map[string]struct {
		members int
		told    bool
	}{"by the next operator": {3, false}, "by any client": {3, true}, "by any client, of two": {2, true}} {
		runCluster(t, name, begun.members, 5-begun.members, func(t *testing.T, c *cluster) {
			dead := make([]atomic.Bool, len(c.Servers))
			l := c.Among([]int{0, 1, 2}, c.Sparing(dead))
			virtual.SetAll(dead, true)
			c.dying(add(3), begun.told)
			virtual.SetAll(dead, false)
			time.Sleep(10 * time.Second) // it connects again
			if begun.told {
				assert.Equal(t, begun.members+1, c.told(2))
				c.Unlock(c.Lock(l, "a"))
			} else {
				assert.Zero(t, c.told(2))
				c.Unlock(c.Lock(l, "a"))
				c.change(l, setMaxTTL(virtual.MaxTTL)) // which it is
			}
			assert.Equal(t, append([]string{"0", "1", "2"}[:begun.members], "3"), c.members(l))
			c.change(l, add(4))
			assert.Equal(t, begun.members+2, c.told(3))
		})
	}
}

// What was begun comes first, so nobody chooses another one for the same version. A master that
// forgot what it accepted learns it again.
func TestAnotherChangeDoesNotReplaceOneThatWasBegun(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		runCluster(t, fmt.Sprintf("one forgets %v", forgets), 3, 2, func(t *testing.T, c *cluster) {
			c.Grown()
			c.dying(add(3), false)
			l := c.Among([]int{0, 1, 2})
			if forgets {
				c.Servers[0].Restart(false)
				time.Sleep(2 * virtual.MaxTTL)
				c.Servers[2].Mute(true) // of who accepted, only one is left that remembers
				err := setMaxTTL(virtual.MaxTTL)(admin.Of(l).Cluster(), c.Within(5*time.Second))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Contains(t, []int{2, 3}, c.told(2), "without the master that is muted")
				c.Servers[2].Mute(false)
			}
			c.change(l, add(4))
			assert.Equal(t, 5, c.told(3))
			assert.Equal(t, []string{"0", "1", "2", "3", "4"}, c.members(c.Among([]int{4, 0, 3})))
		})
	}
}

func TestOperatorsAtOnce(t *testing.T) {
	for seed := range uint64(10) {
		runCluster(t, fmt.Sprint(seed), 3, 2, func(t *testing.T, c *cluster) {
			for i, server := range c.Servers {
				server.DelayBetween(0, 5*time.Millisecond, seed+uint64(i))
			}
			var done []<-chan error
			for _, change := range []operation{add(3), add(4), remove(0)} {
				l := c.Among([]int{0, 1, 2})
				done = append(done, c.Ending(func() error { return change(admin.Of(l).Cluster(), c.Within(2*time.Minute)) }))
			}
			for _, end := range done {
				require.NoError(t, <-end)
			}
			l := c.Among([]int{3, 4, 1})
			time.Sleep(time.Second)
			assert.Equal(t, []string{"1", "2", "3", "4"}, c.members(l))
			m, err := admin.Of(l).Cluster().Members(ctx)
			require.NoError(t, err)
			assert.Equal(t, int64(4), m.Version)
		})
	}
}

// The next change is possible again once two of three that forgot are back.
func TestTheMembersChangeAfterAMajorityForgot(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		c.Grown()
		l := c.Among([]int{0, 1, 2})
		c.Each(func(n *fakeredis.Node) { n.Restart(false) }, 0, 1)
		time.Sleep(3 * virtual.MaxTTL)
		c.change(l, add(3))
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
	})
}

func TestALowerMaxTTLHoldsForRenewals(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		holder := c.Listing([]int{0, 1, 2}, redlock.WithTTL(virtual.MaxTTL), redlock.WithMaxTTL(virtual.MaxTTL))
		lock := c.Lock(holder, "a")
		operator := c.Among([]int{0, 1, 2})
		c.change(operator, setMaxTTL(virtual.MaxTTL/2))
		c.change(operator, setMaxTTL(virtual.MaxTTL/4))
		time.Sleep(virtual.MaxTTL)
		require.LessOrEqual(t, lock.Remaining(), virtual.MaxTTL/4)
	})
}

// An operator may come when the master has forgotten that another one has just added it.
func TestAMasterIsAMemberOnceHoweverOftenItIsAdded(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2})
		c.change(l, add(3))
		c.Each(virtual.Empty, 3)
		time.Sleep(time.Second)
		again, cancel := context.WithTimeout(ctx, 2*virtual.MaxTTL)
		defer cancel()
		virtual.EndsOnly(add(3)(admin.Of(c.Among([]int{0, 1, 2})).Cluster(), again))
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
	})
}

// That it is no member is why it is added.
func TestAMasterThatIsAddedAgainIsNotSaidToBeNoMember(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		c.change(c.Among([]int{0, 1, 2, 3}), remove(3))
		operator := admin.Of(c.Among([]int{0, 1, 2})).Cluster().Progress(func(waits string, _ time.Duration) {
			assert.NotContains(t, waits, "not a member")
		})
		require.NoError(t, add(3)(operator, ctx))
	})
}

// Nobody asks a master that is no member for its vote, so nobody sees that it was emptied.
func TestAMasterThatWasRemovedAndEmptiedIsAdded(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3})
		c.change(l, remove(3))
		c.Servers[3].FlushAll()
		c.change(l, add(3))
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
	})
}

// It is told when it is back. Until then there is nothing to ask.
func TestNobodyIsAskedAgainAndAgainWhileAMasterIsAway(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2, 3})
		c.Servers[3].Kill()
		c.change(l, remove(3))
		time.Sleep(2 * virtual.MaxTTL)
		ofRegister := func(args []string) bool { return slices.Contains(args, pipeline.RegisterKey) }
		before := c.Count(ofRegister)
		time.Sleep(time.Minute)
		assert.Equal(t, before, c.Count(ofRegister))
	})
}

// While a master that is to be added waits for its turn, somebody tells all masters the present
// version, and another operator begins to add it, too.
func TestACandidateStaysOneWhileItWaits(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l, other := c.Among([]int{0, 1, 2}), c.Among([]int{2, 0, 3, 1})
		c.change(l, setMaxTTL(2*virtual.MaxTTL))
		added := c.Ending(func() error { return add(3)(admin.Of(l).Cluster(), c.Within(2*time.Minute)) })
		time.Sleep(time.Second)
		c.change(other, setMaxTTL(2*virtual.MaxTTL)) // which it is
		require.ErrorIs(t, add(3)(admin.Of(other).Cluster(), c.Within(time.Second)), context.DeadlineExceeded)
		require.NoError(t, <-added)
		assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
		assert.Equal(t, 4, c.told(3))
	})
}

// The second operator reaches the master only when it has become a member, which it does not know.
func TestAMemberIsNoCandidateOfAnOperatorWhoComesLate(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		dead := make([]atomic.Bool, len(c.Servers))
		dead[3].Store(true)
		late := c.Among([]int{0, 1, 2}, c.Sparing(dead))
		done := c.Ending(func() error { return add(3)(admin.Of(late).Cluster(), c.Within(2*time.Minute)) })
		time.Sleep(time.Second)
		l := c.Among([]int{0, 1, 2})
		c.change(l, add(3))
		dead[3].Store(false)
		require.NoError(t, <-done)
		assert.Equal(t, 4, c.told(2))
		c.change(l, setMaxTTL(2*virtual.MaxTTL))
	})
}

// A change was begun that adds a master, which restarts before it is told.
func TestAMasterThatRestartsBeforeItIsToldBecomesTheMemberThatWasBegun(t *testing.T) {
	for name, keys := range map[string]bool{"with its keys": true, "empty": false} {
		runCluster(t, name, 3, 1, func(t *testing.T, c *cluster) {
			c.dying(add(3), false)
			c.Servers[3].Restart(keys)
			l := c.Among([]int{0, 1, 2, 3})
			time.Sleep(2 * time.Second)
			c.change(l, add(3))
			assert.Equal(t, []string{"0", "1", "2", "3"}, c.members(l))
			assert.Equal(t, 4, c.told(2))
		})
	}
}

// Otherwise one that forgot a longer lock could be let back too early, by another one that knows
// only the shorter MaxTTL.
func TestALongerMaxTTLIsInForceWhenAllMembersKnowIt(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		c.Grown()
		dead := make([]atomic.Bool, len(c.Servers))
		list := func(which ...int) *redlock.Locker {
			return c.Among(which, c.Sparing(dead), redlock.WithMaxTTL(time.Hour))
		}
		operator, l := list(0, 1, 2), list(0, 1, 2)
		c.Servers[2].OnChange(func(fakeredis.Change) { dead[2].Store(true) }) // it is asked nothing more
		require.Error(t, setMaxTTL(3*virtual.MaxTTL)(admin.Of(operator).Cluster(), c.Within(5*time.Second)))
		assert.Equal(t, 2, c.told(2))
		longer := redlock.WithTTL(3 * virtual.MaxTTL)
		for _, l := range []*redlock.Locker{l, list(0, 1)} {
			_, err := l.TryLock(ctx, "a", longer)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, "maximum of 10s, until all its members answer and know the new one of 30s")
			c.Unlock(c.Lock(l, "a"))
		}
		c.Servers[2].OnChange(nil)
		dead[2].Store(false)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 3, c.told(2))
		c.Unlock(c.Lock(l, "a", longer))
		for _, later := range []int{0, 1, 2} { // a client that begins now needs all, and waits for the last one
			c.Each(virtual.Delaying(5*time.Millisecond, 5*time.Millisecond), later)
			c.Unlock(c.Lock(list(later, (later+1)%3, (later+2)%3), "a", longer))
			c.Each(virtual.Delaying(0, 0), later)
		}
	})
}
