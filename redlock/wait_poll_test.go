package redlock_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestTheNextWaiterGetsTheLockOfADeadHolderAsItExpires(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		for i := range c.servers {
			c.do(i, "SET", "a", rand.Text()+"|the dead one", "PX", 5000)
		}
		expiry := c.clock.Now().Add(5 * time.Second)
		l := c.locker()
		lock, err := l.Lock(ctx, "a")
		require.NoError(t, err)
		late := c.clock.Now().Sub(expiry)
		assert.Less(t, late, 20*time.Millisecond)
		assert.LessOrEqual(t, l.Stats().Polls, uint64(5*10+1), "at most one every 100 ms")
		require.NoError(t, lock.Unlock(ctx))
	})
}

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

func TestWaitingWorksWherePubSubIsForbidden(t *testing.T) {
	for _, forbidden := range [][]string{{"SUBSCRIBE"}, {"PUBLISH"}, {"ZADD", "ZPOPMIN", "ZREM", "ZCARD", "ZSCORE"}, {"SUBSCRIBE", "PUBLISH", "ZADD", "ZPOPMIN", "ZREM"}, {"TIME"}} {
		t.Run(strings.Join(forbidden, " "), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				for _, server := range c.servers {
					server.RefuseWith("NOPERM this user has no permissions to run this command", forbidden...)
				}
				c.slow(time.Millisecond)
				a, b := c.locker(), c.locker()
				lock, err := a.Lock(ctx, "a")
				require.NoError(t, err)
				got := acquiring(t, b, "a")
				time.Sleep(2 * time.Second)
				require.NoError(t, lock.Unlock(ctx))
				released := c.clock.Now()
				lock = <-got
				assert.LessOrEqual(t, c.clock.Now().Sub(released), time.Second+50*time.Millisecond)
				require.NoError(t, lock.Unlock(ctx))
			})
		})
	}
}
