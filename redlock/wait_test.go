package redlock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestWaitersOfOneLockerGetTheLockInOrder(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		l := c.locker()
		first, err := l.Lock(ctx, "a")
		require.NoError(t, err)
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				lock, err := l.Lock(ctx, "a")
				if assert.NoError(t, err) {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					assert.NoError(t, lock.Unlock(ctx))
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, 10, l.Stats().Waiting)
		require.NoError(t, first.Unlock(ctx))
		all.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		stats := l.Stats()
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.Polls)
		assert.Equal(t, uint64(10), stats.Waits)
		settle()
		time.Sleep(time.Second)
		assert.Zero(t, c.keys())
	})
}

func TestAReleaseHandsTheLockToTheOldestWaiterOfAnyLocker(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		const roundTrip = 2 * time.Millisecond
		c.slow(roundTrip)
		holder := c.locker()
		lock, err := holder.Lock(ctx, "a")
		require.NoError(t, err)
		var got []<-chan *redlock.Lock
		var lockers []*redlock.Locker
		for range 4 {
			l := c.locker()
			lockers = append(lockers, l)
			got = append(got, acquiring(t, l, "a"))
			time.Sleep(20 * time.Millisecond)
		}
		for i := range got {
			released := c.clock.Now()
			require.NoError(t, lock.Unlock(ctx))
			lock = <-got[i]
			require.NotNil(t, lock)
			// Half a round trip to the pilot, half a round trip to the waiter, and one round.
			assert.LessOrEqual(t, c.clock.Now().Sub(released), 2*roundTrip)
			assert.Positive(t, lock.Remaining())
			assert.Zero(t, lockers[i].Stats().Polls)
			assert.Equal(t, uint64(1), lockers[i].Stats().Woken)
			assert.Zero(t, lockers[i].Stats().Split)
		}
		assert.Equal(t, uint64(1), holder.Stats().HandedOver)
		require.NoError(t, lock.Unlock(ctx))
		time.Sleep(time.Second)
		assert.Zero(t, c.keys())
	})
}

func TestAHandOverCostsElevenCommandsAndSixProofs(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		a, b := c.locker(), c.locker()
		lock, err := a.Lock(ctx, "a")
		require.NoError(t, err)
		next := acquiring(t, b, "a")
		time.Sleep(20 * time.Millisecond)
		const rounds = 20
		before, proven := 0, 0
		for i := range rounds {
			if i == 2 { // the first clients are still joining the queue
				before, proven = c.commands(), c.proofs()
			}
			other := []*redlock.Locker{a, b}[i%2]
			require.NoError(t, lock.Unlock(ctx))
			after := acquiring(t, other, "a")
			lock = <-next
			next = after
			time.Sleep(20 * time.Millisecond)
		}
		// A release to all nodes, a round to all nodes, and one request to the pilot.
		assert.Equal(t, (rounds-2)*(5+5+1), c.commands()-before)
		assert.Equal(t, (rounds-2)*(5+1), c.proofs()-proven, "of the round and of the pilot request")
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, (<-next).Unlock(ctx))
	})
}

func TestWaitersTurnToAnotherNodeWhenThePilotIsAway(t *testing.T) {
	for down := range 5 {
		t.Run(fmt.Sprint("node ", down), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				a, b := c.locker(), c.locker()
				lock, err := a.Lock(ctx, "a")
				require.NoError(t, err)
				got := acquiring(t, b, "a")
				time.Sleep(20 * time.Millisecond)
				c.servers[down].Kill()
				time.Sleep(5 * time.Second) // b finds another pilot if this node was the pilot
				released := c.clock.Now()
				require.NoError(t, lock.Unlock(ctx))
				lock = <-got
				assert.Less(t, c.clock.Now().Sub(released), 5*time.Millisecond)
				require.NoError(t, lock.Unlock(ctx))
			})
		})
	}
}
