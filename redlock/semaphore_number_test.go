package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// Also if that node is the pilot.
func TestWaitersForPermitsAreServedBesideANodeThatKnowsAnotherNumber(t *testing.T) {
	for other := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.do(other, "SET", "s#7", "somebody", "PX", 600_000)
			c.do(other, "SET", "redquorum:permits:s", "7", "PX", 600_000)
			held := takeAll(t, c.permits("s", 1), 1)
			settle()
			semaphores := []*redlock.Semaphore{c.permits("s", 1), c.permits("s", 1), c.permits("s", 1)}
			order := queuing(t, 3, time.Millisecond, func(i int) *redlock.Semaphore { return semaphores[i] })
			began := time.Now()
			require.NoError(t, held[0].Unlock(ctx))
			assert.Len(t, <-order, 3)
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}
