package redlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release reaches the nodes at different times. The writer that one of them has handed the lock
// to is refused by those that do not know yet that the reader is gone.
func TestAWriterIsServedBeforeLaterReadersHoweverTheReleaseTravels(t *testing.T) {
	for late := range 3 { // the node that the release reaches first
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(200 * time.Microsecond)
			a, b, d := c.renewing(), c.renewing(), c.renewing()
			first := read(t, a, "a")
			writer := waitingFor(t, b.Lock)
			reader := waitingFor(t, d.RLock)
			time.Sleep(3 * time.Second)
			for i, server := range c.servers {
				if i == late {
					continue
				}
				var sent atomic.Bool
				server.Delay(func() time.Duration {
					if sent.CompareAndSwap(false, true) {
						return 5 * time.Millisecond // the release
					}
					return 200 * time.Microsecond
				}, nil)
			}
			go func() { assert.NoError(t, first.Unlock(ctx)) }()
			select {
			case lock := <-writer:
				require.NoError(t, lock.Unlock(ctx))
				lock = <-reader
				require.NoError(t, lock.Unlock(ctx))
			case lock := <-reader:
				assert.Fail(t, "the reader has overtaken the writer")
				require.NoError(t, lock.Unlock(ctx))
				lock = <-writer
				require.NoError(t, lock.Unlock(ctx))
			}
		})
	}
}
