package admin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Inspect returns what is known of a name.

func TestInspectShowsALockAndForceUnlockFreesIt(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithKeyPrefix("p:"))
		assert.True(t, c.inspect(l, "a").Free)
		lock := c.Lock(l, "a", redlock.WithOwner("worker 7"))
		virtual.Settle()
		c.Servers[0].Stop()
		c.Do(1, "SET", "p:a", "someone|else")
		status := c.inspect(l, "a")
		assert.Equal(t, lock.Value(), status.Value)
		assert.Equal(t, "worker 7", status.Owner)
		assert.False(t, status.Free)
		assert.Equal(t, 3, status.Quorum)
		require.Len(t, status.Nodes, 5)
		require.Error(t, status.Nodes[0].Err)
		assert.Equal(t, "else", status.Nodes[1].Owner)
		assert.Negative(t, status.Nodes[1].TTL)
		assert.Equal(t, "redis://node2:6379", status.Nodes[2].Endpoint)
		assert.InDelta(t, 10, status.Nodes[2].TTL.Seconds(), 0.1)
		c.Servers[0].Continue()

		require.NoError(t, admin.Of(l).ForceUnlock(ctx, "a"))
		c.LeavesNothing(0)
		took := virtual.Elapsed(func() { <-lock.Done() })
		assert.LessOrEqual(t, took, 4*time.Second)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		c.Each(virtual.Kill, 0, 1, 2)
		time.Sleep(time.Second)
		_, err := admin.Of(l).Inspect(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, admin.Of(l).ForceUnlock(ctx, "a"), redlock.ErrNoQuorum)
	})
}

func TestInspectTellsTheProgramThatHoldsALockAndSinceWhen(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing()
		began := c.Clock.Wall().Truncate(time.Second)
		first := c.Lock(l, "a", redlock.WithFencing())
		next := c.Waiting(c.Locker(), "a")
		time.Sleep(time.Minute)
		status := c.inspect(l, "a")
		program := regexp.QuoteMeta(filepath.Base(os.Args[0]))
		assert.Regexp(t, fmt.Sprintf(`^[^|@]+@[^|:]+:%d %s$`, os.Getpid(), program), status.Owner)
		assert.WithinDuration(t, began, status.Since.Time, 0)
		assert.False(t, status.Since.Waited)
		var waiters []string
		for _, node := range status.Nodes {
			assert.Equal(t, status.Owner, node.Owner)
			assert.Equal(t, first.Fence(), node.Fence)
			assert.Len(t, node.Waiters, node.Waiting)
			waiters = append(waiters, node.Waiters...)
		}
		assert.Equal(t, []string{status.Owner}, waiters, "only at the coordinator")
		c.Unlock(first)
		second := <-next
		virtual.Settle()
		status = c.inspect(l, "a")
		assert.WithinDuration(t, began, status.Since.Time, time.Second)
		assert.True(t, status.Since.Waited, "it has not held the lock all the time")
		c.Unlock(second)
	})
}

func TestInspectShowsReaders(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		readers := []*redlock.Lock{
			c.Read(l, redlock.WithOwner("me"), redlock.WithTTL(5*time.Second)), c.Read(l, redlock.WithTTL(7*time.Second)),
		}
		virtual.Settle()
		c.Do(0, "ZADD", "redquorum:readers:a", 5, "dead", "inf", "no time")
		status := c.inspect(l, "a")
		assert.Equal(t, "readers", status.Owner)
		assert.False(t, status.Free)
		for _, node := range status.Nodes {
			require.Len(t, node.Readers, 2)
			for i, reader := range readers {
				assert.Equal(t, reader.Value(), node.Readers[i].Value)
				assert.InDelta(t, reader.Remaining(), node.Readers[i].TTL, float64(time.Second))
			}
			assert.Equal(t, "me", node.Readers[0].Owner)
		}
		c.Unlock(readers...)
		writer := c.Lock(l, "a")
		status = c.inspect(l, "a")
		assert.Equal(t, writer.Value(), status.Value)
		assert.Empty(t, status.Nodes[0].Readers)
	})
}

// A lock that is held is not reported as free because one of its nodes forgot it.
func TestInspectDoesNotCountWhatAQuarantinedNodeSays(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Grown()
		l := c.Locker(redlock.WithTTL(30 * time.Second))
		c.Servers[2].RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
		lock := c.Lock(l, "a")
		virtual.Settle()
		c.Servers[2].RefuseWith("")
		c.Servers[1].Kill()
		c.Servers[1].Restart(false)
		time.Sleep(time.Second)
		require.NoError(t, lock.Err())
		for name, locker := range map[string]*redlock.Locker{"known before": l, "new to it": c.Locker()} {
			status := c.inspect(locker, "a")
			assert.False(t, status.Free, name)
			assert.Empty(t, status.Value, name)
			assert.Equal(t, lock.Value(), status.Nodes[0].Value)
		}
		require.NoError(t, lock.Err())
	})
}

// inspectPermits returns what is known of the semaphore "s".
func (c *cluster) inspectPermits(l *redlock.Locker) admin.SemaphoreStatus {
	c.T.Helper()
	status, err := admin.Of(l).InspectSemaphore(ctx, "s")
	require.NoError(c.T, err)
	return status
}

func TestInspectOfASemaphoreShowsWhoHasWhichPermitAndWhoWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		operator := c.Locker()
		none := c.inspectPermits(operator)
		assert.Equal(t, "s", none.Name)
		assert.Zero(t, none.Permits)
		assert.Empty(t, none.Slots)
		assert.Equal(t, 2, none.Quorum)

		s, other := c.Permits("s", 2, redlock.WithFencing()), c.Permits("s", 2)
		held := map[string]*redlock.Lock{}
		for _, owner := range []string{"a", "b|c:d"} {
			lock := c.Permit(s, redlock.WithOwner(owner))
			held[lock.Name()] = lock
		}
		virtual.Settle()
		waiting, cancel := context.WithCancel(ctx)
		for _, who := range []struct {
			of    *redlock.Semaphore
			owner string
		}{{s, "first"}, {s, ""}, {other, "of|another:process"}} {
			over := c.Ending(func() error { _, err := who.of.Acquire(waiting, redlock.WithOwner(who.owner)); return err })
			defer func() { require.ErrorIs(t, <-over, context.Canceled) }()
			time.Sleep(20 * time.Millisecond)
		}
		status := c.inspectPermits(operator)
		require.Equal(t, 2, status.Permits)
		require.Len(t, status.Slots, 2)
		for i, slot := range status.Slots {
			assert.Equal(t, "s#"+string(rune('1'+i)), slot.Name)
			lock := held[slot.Name]
			assert.Equal(t, lock.Value(), slot.Value)
			assert.Contains(t, []string{"a", "b|c:d"}, slot.Owner)
			for _, node := range slot.Nodes {
				assert.Equal(t, lock.Fence(), node.Fence)
				assert.InDelta(t, 10, node.TTL.Seconds(), 0.1)
			}
		}
		var waiters []string
		for _, node := range status.Nodes {
			assert.Equal(t, 2, node.Permits)
			assert.Len(t, node.Waiters, node.Waiting)
			waiters = append(waiters, node.Waiters...)
		}
		assert.Equal(t, []string{"first", "of|another:process"}, waiters, "the first of each process, at the coordinator only")
		cancel()
	})
}

// What most nodes say counts, and only if their votes do.
func TestInspectOfASemaphoreCountsAnswersLikeVotes(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Grown()
		operator, s := c.Locker(), c.Permits("s", 2, redlock.WithTTL(30*time.Second))
		lock := c.Permit(s)
		virtual.Settle()
		c.Do(0, "DEL", "redquorum:permits:s", "s#1", "s#2") // it was never asked
		c.Do(1, "SET", "redquorum:permits:s", "4")
		c.Do(2, "SET", "redquorum:permits:s", "2.5")
		c.Do(2, "SET", "redquorum:permit:wait:s", "no list")
		status := c.inspectPermits(operator)
		assert.Equal(t, 2, status.Permits)
		var known []int
		for _, node := range status.Nodes {
			known = append(known, node.Permits)
		}
		assert.Equal(t, []int{0, 4, 0, 2, 2}, known)
		for _, slot := range status.Slots {
			if slot.Name == lock.Name() {
				assert.Equal(t, lock.Value(), slot.Value)
			} else {
				assert.True(t, slot.Free)
			}
		}
		c.Servers[4].Stop()
		status = c.inspectPermits(operator)
		require.Error(t, status.Nodes[4].Err)
		assert.Equal(t, 4, status.Permits, "the larger of two numbers that are as common")
		for _, slot := range status.Slots {
			require.Error(t, slot.Nodes[4].Err)
		}
		c.Servers[4].Kill()
		c.Servers[4].Restart(false)
		time.Sleep(time.Second)
		c.Do(4, "SET", "redquorum:permits:s", "2")
		status = c.inspectPermits(operator)
		require.ErrorIs(t, status.Nodes[4].Err, pool.ErrQuarantined)
		assert.Equal(t, 2, status.Nodes[4].Permits)
		assert.Equal(t, 4, status.Permits, "it does not count")
		c.Each(virtual.Kill, 0, 1, 2)
		time.Sleep(time.Second)
		_, err := admin.Of(operator).InspectSemaphore(ctx, "s")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// A node's reply may have 4,096 entries and 1 MiB. Each reader takes two entries.
func TestInspectionsAreAnsweredHoweverMuchThereIs(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, last := c.Locker(), c.Clock.Wall().Add(time.Minute).UnixMilli()
		c.Read(l)
		c.Set("document", strings.Repeat("x", 2<<20), time.Minute)
		for i := range 2100 {
			for node := range c.Servers {
				c.Do(node, "ZADD", "redquorum:readers:a", last+int64(i), fmt.Sprint("r", i))
			}
		}
		readers := c.inspect(l, "a").Nodes[0].Readers
		require.Len(t, readers, 2000, "those that live longest")
		assert.Equal(t, "r2099", readers[len(readers)-1].Value)
		c.inspect(l, "document")
		require.NoError(t, admin.Of(l).ForceUnlock(ctx, "document"))
		c.Unlock(c.Lock(l, "b"))
	})
}

// A slot is a mutex, so another library's client may have it under any value. Many slots with the
// longest values of ours fit into a reply, too.
func TestInspectionsOfASemaphoreAreAnsweredHoweverMuchThereIs(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		s, err := l.Semaphore("s", 2)
		require.NoError(t, err)
		permit, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		virtual.Settle()
		other := map[string]string{"s#1": "s#2", "s#2": "s#1"}[permit.Name()]
		c.Set(other, strings.Repeat("v", 2<<20), time.Minute)
		status, err := admin.Of(l).InspectSemaphore(ctx, "s")
		require.NoError(t, err)
		require.Len(t, status.Slots, 2)
		for _, slot := range status.Slots {
			if slot.Name == other {
				assert.Len(t, slot.Value, 4096)
			} else {
				assert.Equal(t, permit.Value(), slot.Value)
			}
		}
		require.NoError(t, permit.Verify(ctx), "the connections are still up")
	})
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.Do(0, "SET", "redquorum:permits:s", "1024", "PX", 60000)
		for i := range 1024 {
			c.Do(0, "SET", fmt.Sprint("s#", i+1), strings.Repeat("v", 1281), "PX", 60000)
		}
		l := c.Locker()
		status, err := admin.Of(l).InspectSemaphore(ctx, "s")
		require.NoError(t, err)
		assert.Len(t, status.Slots, 1024)
	})
}
