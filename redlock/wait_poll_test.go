package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestALockThatAForeignClientReleasesIsFoundByPolling(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.do(i, "SET", "a", "foreign", "PX", 60000)
		}
		l := c.locker(redlock.WithRetry(100*time.Millisecond, 400*time.Millisecond))
		got := acquiring(t, l, "a")
		time.Sleep(3 * time.Second)
		for i := range c.servers {
			c.do(i, "DEL", "a")
		}
		released := c.clock.Now()
		lock := <-got
		assert.LessOrEqual(t, c.clock.Now().Sub(released), 410*time.Millisecond)
		require.NoError(t, lock.Unlock(ctx))
	})
}
