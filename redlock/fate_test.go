package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// A server that answers a script with an error may have run a part of it.
func TestAReleaseIsKeptForANodeWhoseScriptFailedMidway(t *testing.T) {
	for words, kept := range map[string]bool{
		"ERR user_script:12: something went wrong":                      true,
		"NOPERM this user has no permissions to access one of the keys": true,
		"OOM command not allowed when used memory > 'maxmemory'.":       false,
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing(), redlock.WithTTL(time.Minute))
			c.know(l)
			c.servers[0].RefuseWith(words, "EVALSHA")
			for _, later := range c.servers[1:] { // what is refused after the lock was won is not looked at
				later.Delay(func() time.Duration { return time.Millisecond }, nil)
			}
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			c.servers[0].RefuseWith("", "EVALSHA")
			c.do(0, "SET", "a", lock.Value(), "PX", 60000) // as far as it came
			c.servers[0].Kill()
			require.NoError(t, lock.Unlock(ctx))
			time.Sleep(5 * time.Second)
			c.servers[0].Restart(true)
			time.Sleep(5 * time.Second)
			assert.Equal(t, kept, c.holders("a")[0] == "", words)
		})
	}
}
