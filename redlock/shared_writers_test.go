package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readerHold is for how long the readers of streamOf have the lock.
const readerHold = 300 * time.Millisecond

// streamOf lets readers come one after the other, so that the name always has one if nobody keeps
// them out. Half of them wait. Stop ends them, and must be called. Came counts those that got the
// lock.
func (c *cluster) streamOf(name string) (came *atomic.Int64, stop func()) {
	came = new(atomic.Int64)
	ending, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range 4 {
		l := c.renewing()
		acquire := l.TryRLock
		if i%2 == 0 {
			acquire = l.RLock
		}
		all.Go(func() {
			time.Sleep(time.Duration(i) * readerHold / 4)
			for ending.Err() == nil {
				lock, err := acquire(ending, name)
				if err != nil {
					time.Sleep(3 * time.Millisecond)
					continue
				}
				came.Add(1)
				time.Sleep(readerHold)
				assert.NoError(c.t, lock.Unlock(ctx))
			}
		})
	}
	return came, func() { cancel(); all.Wait() }
}

// A writer of several names keeps new readers out of the name that it waits for.
func TestAWriterOfASetIsServedWhateverReadersCome(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				c.slow(2 * time.Millisecond)
				_, stopA := c.streamOf("a")
				defer stopA()
				_, stopB := c.streamOf("b")
				defer stopB()
				time.Sleep(time.Second)
				l := c.renewing()
				for range 5 {
					ending, cancel := context.WithTimeout(ctx, time.Minute)
					began := c.clock.Now()
					lock, err := l.LockAll(ending, []string{"b", "a"})
					cancel()
					require.NoError(t, err)
					t.Log("waited", c.clock.Now().Sub(began))
					assert.Less(t, c.clock.Now().Sub(began), 20*readerHold)
					require.NoError(t, lock.Unlock(ctx))
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Without messages and lists, the writer polls, and keeps readers out all the same.
func TestAWriterThatMayNotSubscribeIsServedWhateverReadersCome(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, server := range c.servers {
			server.RefuseWith("NOPERM this user has no permissions to run this command", "SUBSCRIBE")
		}
		c.slow(2 * time.Millisecond)
		_, stop := c.streamOf("a")
		defer stop()
		time.Sleep(time.Second)
		began := c.clock.Now()
		ending, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		lock, err := c.renewing().Lock(ending, "a")
		require.NoError(t, err)
		assert.Less(t, c.clock.Now().Sub(began), readerHold+2*time.Second, "a poll")
		require.NoError(t, lock.Unlock(ctx))
	})
}
