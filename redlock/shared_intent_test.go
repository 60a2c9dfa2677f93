package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The intent of a writer that has left, or died, arrives at all nodes. Whether or not others read,
// it costs a reader that waits no more than its life, and a poll.
func TestAnIntentThatIsLateDelaysReadersByItsLife(t *testing.T) {
	for _, beside := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.renewing()
			if beside {
				reader := read(t, c.renewing(), "a")
				defer func() { require.NoError(t, reader.Unlock(ctx)) }()
			}
			for i := range c.servers {
				c.do(i, "SET", "redquorum:intent:a", "a writer's", "PX", intentLife.Milliseconds())
			}
			took := elapsed(func() {
				lock, err := l.RLock(ctx, "a")
				require.NoError(t, err)
				require.NoError(t, lock.Unlock(ctx))
			})
			assert.GreaterOrEqual(t, took, intentLife-time.Millisecond)
			if beside {
				assert.Less(t, took, intentLife+time.Second)
			} else {
				assert.Less(t, took, intentLife+20*time.Millisecond, "it was told when the intent expires")
			}
		})
	}
}

// The intent of a writer arrives when that writer has the lock, and its release takes it back.
func TestAnIntentThatIsLateEndsWithTheReleaseOfItsWriter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		reader := read(t, c.renewing(), "a")
		got := waitingFor(t, c.renewing().Lock)
		time.Sleep(time.Second)
		require.NoError(t, reader.Unlock(ctx))
		writer := <-got
		for i := range c.servers {
			c.do(i, "SET", "redquorum:intent:a", writer.Value(), "PX", intentLife.Milliseconds())
		}
		require.NoError(t, writer.Unlock(ctx))
		settle()
		require.NoError(t, read(t, c.renewing(), "a").Unlock(ctx), "nobody waits")
		settle()
		assert.Zero(t, c.keys())
	})
}
