package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pilot whose reply names a key that the caller did not ask for counts as failed.
func TestAPilotThatNamesAnUnknownKeyIsPassedOver(t *testing.T) {
	for _, reply := range []string{
		"*4\r\n:0\r\n:99\r\n:1000\r\n:0\r\n", "*4\r\n:0\r\n:0\r\n:1000\r\n:0\r\n", "*4\r\n:0\r\n:-9223372036854775808\r\n:1000\r\n:0\r\n",
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker()
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			for _, server := range c.servers {
				server.ReplyRaw(func(cmd []string) []byte {
					// Only wait.lua has that many arguments.
					if cmd[0] == "EVALSHA" && len(cmd) >= 12 {
						return []byte(reply)
					}
					return nil
				})
			}
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err = c.locker().Lock(soon, "a")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NoError(t, lock.Err())
		})
	}
}
