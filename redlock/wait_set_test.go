package redlock_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// lagging is the connection of a process that is slow to read.
type lagging struct{ net.Conn }

func (c lagging) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(5 * time.Millisecond)
	return n, err
}

// lagging returns a Locker whose connections lag.
func (c *cluster) lagging() *redlock.Locker {
	dial := c.dialer()
	return c.locker(redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return lagging{conn}, err
	})))
}

// A client that releases a set and wants one of its names again queues behind the waiter to which
// the release handed that name.
func TestNoClientOvertakesTheWaiterForAnyNameOfASet(t *testing.T) {
	for _, set := range [][]string{{"y"}, {"y", "x"}, {"x", "y"}} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			holder, waiter := c.locker(), c.lagging()
			lock, err := holder.LockAll(ctx, set)
			require.NoError(t, err)
			settle()
			first := acquiring(t, waiter, "y")
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, lock.Unlock(ctx))
			settle()
			// The vote has been handed over, and its message is on the way.
			time.Sleep(time.Millisecond)
			again := acquiring(t, holder, "y")
			select {
			case lock = <-first:
			case <-again:
				require.Fail(t, "overtaken", "%q", set)
			}
			require.NoError(t, lock.Unlock(ctx))
			require.NoError(t, (<-again).Unlock(ctx))
		})
	}
}
