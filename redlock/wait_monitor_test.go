package redlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A monitor receives every message but does not wait. Beside it, too, waiters whose process was
// killed are skipped at once. Only where PUBSUB is forbidden as well does a dead waiter get the
// vote, because nothing tells it from the monitor then.
func TestDeadWaitersCostNothingBesideAMonitor(t *testing.T) {
	const roundTrip = 2 * time.Millisecond
	for _, test := range []struct {
		monitored, forbidden bool
		most                 time.Duration
	}{
		{false, false, 2 * roundTrip},
		{true, false, 2 * roundTrip},
		{false, true, 2 * roundTrip},
		{true, true, 2 * time.Second}, // the graces and a poll
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				c.slow(roundTrip)
				for i := range c.servers {
					if test.monitored {
						c.monitor(i)
					}
					if test.forbidden {
						c.servers[i].RefuseWith("NOPERM this user has no permissions to run the 'pubsub|numsub' command", "pubsub")
					}
				}
				lock, err := c.locker().Lock(ctx, "a")
				require.NoError(t, err)
				for i := range c.servers {
					for dead := range 5 {
						c.do(i, "ZADD", "redquorum:wait:a", dead+1, fmt.Sprintf("DEAD%d:value%d", dead, dead))
					}
				}
				got := acquiring(t, c.locker(), "a")
				time.Sleep(20 * time.Millisecond)
				released := c.clock.Now()
				require.NoError(t, lock.Unlock(ctx))
				lock = <-got
				require.NotNil(t, lock)
				assert.LessOrEqual(t, c.clock.Now().Sub(released), test.most)
				require.NoError(t, lock.Unlock(ctx))
			})
		})
	}
}

// monitor subscribes to all channels of a server until the test ends.
func (c *cluster) monitor(i int) {
	network, err := c.servers[i].Dial(ctx)
	require.NoError(c.t, err)
	conn := redis.NewConn(network, 0, 0)
	_, err = conn.Do("PSUBSCRIBE", "*")
	require.NoError(c.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err == nil {
			_, err = conn.Receive()
		}
	}()
	c.t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
}
