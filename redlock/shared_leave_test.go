package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One of two writers that wait leaves. The nodes kept its intent only, and the other's takes its
// place.
func TestAWriterThatLeavesLetsNoReadersInBeforeTheNextWriter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(2 * time.Millisecond)
		first := read(t, c.renewing(), "a")
		writer := waitingFor(t, c.renewing().Lock)
		time.Sleep(time.Second)
		ending, cancel := context.WithCancel(ctx)
		var over sync.WaitGroup
		leaving := c.renewing()
		over.Go(func() {
			_, err := leaving.Lock(ending, "a")
			assert.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(100 * time.Millisecond)
		for i := range c.servers {
			value, _, _ := c.servers[i].Get("redquorum:intent:a")
			assert.NotEmpty(t, value)
		}
		came, stop := c.streamOf("a")
		time.Sleep(100 * time.Millisecond)
		cancel()
		over.Wait()
		time.Sleep(2 * time.Second)
		assert.LessOrEqual(t, came.Load(), int64(4), "only within a round trip")
		require.NoError(t, first.Unlock(ctx))
		lock := <-writer
		require.NoError(t, lock.Unlock(ctx))
		stop()
	})
}
