package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A refusal may arrive just as the lock is won without it.
func TestARefusalThatComesWithTheQuorumIsNoted(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, i := range []int{1, 3} {
			c.do(i, "SET", "a", "somebody's", "PX", 3_600_000)
		}
		c.slow(time.Millisecond)
		l := c.locker()
		for range 2000 {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
		}
	})
}
