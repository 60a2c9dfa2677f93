package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestInspectOfASemaphoreShowsWhoHasWhichPermitAndWhoWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		none, err := c.permits("s", 7).Inspect(ctx)
		require.NoError(t, err)
		assert.Equal(t, "s", none.Name)
		assert.Zero(t, none.Permits)
		assert.Empty(t, none.Slots)
		assert.Equal(t, 2, none.Quorum)

		s := c.permits("s", 3, redlock.WithFencing())
		held := map[string]*redlock.Lock{}
		for _, owner := range []string{"a", "b|c:d"} {
			lock, err := s.TryAcquire(ctx, redlock.WithOwner(owner))
			require.NoError(t, err)
			held[lock.Name()] = lock
		}
		settle()
		inspect := func() redlock.SemaphoreStatus {
			t.Helper()
			status, err := c.permits("s", 7).Inspect(ctx) // whatever number it was made with
			require.NoError(t, err)
			require.Equal(t, 3, status.Permits)
			require.Len(t, status.Slots, 3)
			return status
		}
		free := 0
		for i, slot := range inspect().Slots {
			assert.Equal(t, "s#"+string(rune('1'+i)), slot.Name)
			lock := held[slot.Name]
			if lock == nil {
				assert.True(t, slot.Free)
				free++
				continue
			}
			assert.Equal(t, lock.Value(), slot.Value)
			assert.Contains(t, []string{"a", "b|c:d"}, slot.Owner)
			for _, node := range slot.Nodes {
				assert.Equal(t, lock.Fence(), node.Fence)
				assert.InDelta(t, 10, node.TTL.Seconds(), 0.1)
			}
		}
		assert.Equal(t, 1, free)

		last, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		settle()
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		for _, owner := range []string{"first", ""} {
			go func() {
				_, err := s.Acquire(waiting, redlock.WithOwner(owner))
				assert.ErrorIs(t, err, context.Canceled)
			}()
			time.Sleep(20 * time.Millisecond)
		}
		other := c.permits("s", 3)
		go func() {
			_, err := other.Acquire(waiting, redlock.WithOwner("of|another:process"))
			assert.ErrorIs(t, err, context.Canceled)
		}()
		time.Sleep(20 * time.Millisecond)
		var waiters []string
		for _, node := range inspect().Nodes {
			assert.Equal(t, 3, node.Permits)
			assert.Len(t, node.Waiters, node.Waiting)
			waiters = append(waiters, node.Waiters...)
		}
		assert.Equal(t, []string{"first", "of|another:process"}, waiters, "the first of each process, at the pilot only")
		cancel()
		settle()
		require.NoError(t, last.Unlock(ctx))
	})
}

// What most nodes say counts, and only if their votes do.
func TestInspectOfASemaphoreCountsAnswersLikeVotes(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.grown()
		s := c.permits("s", 2, redlock.WithTTL(30*time.Second))
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		settle()
		c.do(0, "DEL", "redquorum:permits:s", "s#1", "s#2") // it was never asked
		c.do(1, "SET", "redquorum:permits:s", "4")
		c.do(2, "SET", "redquorum:permits:s", "2.5")
		c.do(2, "SET", "redquorum:permit:wait:s", "no list")
		status, err := s.Inspect(ctx)
		require.NoError(t, err)
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
		c.servers[4].Stop()
		status, err = s.Inspect(ctx)
		require.NoError(t, err)
		require.Error(t, status.Nodes[4].Err)
		assert.Equal(t, 4, status.Permits, "the larger of two numbers that are as common")
		for _, slot := range status.Slots {
			require.Error(t, slot.Nodes[4].Err)
		}
		c.servers[4].Kill()
		c.servers[4].Restart(false)
		time.Sleep(time.Second)
		c.do(4, "SET", "redquorum:permits:s", "2")
		status, err = s.Inspect(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, status.Nodes[4].Err, pool.ErrQuarantined)
		assert.Equal(t, 2, status.Nodes[4].Permits)
		assert.Equal(t, 4, status.Permits, "it does not count")
		for _, server := range c.servers[:3] {
			server.Kill()
		}
		time.Sleep(time.Second)
		_, err = s.Inspect(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestInspectOfASemaphoreSaysWhenItIsClosed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		s, err := l.Semaphore("s", 1)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		_, err = s.Inspect(ctx)
		require.ErrorIs(t, err, redlock.ErrClosed)
		var none context.Context
		_, err = s.Inspect(none)
		require.ErrorIs(t, err, redlock.ErrInvalid)
	})
}
