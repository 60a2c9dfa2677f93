package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
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

// The server's words for a script do not name the command that its user may not use.
func TestAMissingRightSaysWhoKnowsIt(t *testing.T) {
	const hint = "(`redlock doctor` says what to allow)"
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, server := range c.servers {
			server.RefuseWith("ERR The user executing the script can't run this command or subcommand", "TIME")
		}
		_, err := l.TryLock(ctx, "a", redlock.WithFencing())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, hint)
		for _, server := range c.servers {
			server.Close()
		}
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotContains(t, err.Error(), hint)
	})
}
