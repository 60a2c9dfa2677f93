package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

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

// A foreign entry on a wait list does not stop releases or hand-overs.
func TestAForeignEntryOnAWaitListIsPassedOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(), c.locker()
		for _, stranger := range []string{"junk", ":", ":x", "", "x:"} {
			lock, err := a.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			for i := range c.servers {
				c.do(i, "ZADD", "redquorum:wait:a", 1, stranger)
				c.do(i, "SET", "redquorum:waits:a", "")
			}
			next := acquiring(t, b, "a")
			settle()
			require.NoError(t, lock.Unlock(ctx), "%q", stranger)
			lock = <-next
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Equal(t, []string{"", "", ""}, c.holders("a"))
		}
		assert.Zero(t, b.Stats().Polls)
	})
}
