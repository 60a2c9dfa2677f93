package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// waitingFor starts a call that waits, and returns the channel that gets its lock.
func waitingFor(t *testing.T, acquire func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)) <-chan *redlock.Lock {
	t.Helper()
	got := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := acquire(ctx, "a")
		assert.NoError(t, err)
		got <- lock
	}()
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
	require.Empty(t, got, "it waits")
	return got
}

func TestReadersThatWaitAreServedTogether(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			c.slow(2 * time.Millisecond)
			one, two := c.renewing(), c.renewing()
			writer, err := one.TryLock(ctx, "a")
			require.NoError(t, err)
			var waiting []<-chan *redlock.Lock
			for i := range 10 {
				waiting = append(waiting, waitingFor(t, []*redlock.Locker{one, two}[i%2].RLock))
			}
			time.Sleep(3 * time.Second)
			began := c.clock.Now()
			require.NoError(t, writer.Unlock(ctx))
			for _, got := range waiting {
				lock := <-got
				assert.True(t, lock.Shared())
				defer func() { require.NoError(t, lock.Unlock(ctx)) }()
			}
			assert.Less(t, c.clock.Now().Sub(began), 20*time.Millisecond, "handed over")
		})
	}
}

func TestAWriterThatWaitsIsServedWhateverReadersCome(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			c.slow(2 * time.Millisecond)
			a, b := c.renewing(), c.renewing()
			first := read(t, a, "a")
			writer := waitingFor(t, b.Lock)
			end := c.clock.Now().Add(10 * time.Second)
			var late sync.WaitGroup
			for i := range 20 {
				late.Go(func() {
					time.Sleep(time.Duration(i) * 400 * time.Millisecond)
					lock, err := a.RLock(ctx, "a")
					assert.NoError(t, err)
					assert.Greater(t, c.clock.Now(), end, "it waits behind the writer")
					time.Sleep(time.Second)
					assert.NoError(t, lock.Unlock(ctx))
				})
			}
			time.Sleep(end.Sub(c.clock.Now()))
			require.NoError(t, first.Err())
			require.NoError(t, first.Unlock(ctx))
			lock := <-writer
			assert.Less(t, c.clock.Now().Sub(end), 20*time.Millisecond, "handed over")
			time.Sleep(time.Second)
			require.NoError(t, lock.Unlock(ctx))
			late.Wait()
			assert.Less(t, c.clock.Now().Sub(end), 2200*time.Millisecond, "they were served together")
			settle()
			assert.Zero(t, c.keys())
		})
	}
}

func TestAWriterThatGivesUpLetsReadersIn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.renewing(), c.renewing()
		first := read(t, a, "a")
		ending, cancel := context.WithCancel(ctx)
		var over sync.WaitGroup
		over.Go(func() {
			_, err := b.Lock(ending, "a")
			assert.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(2 * time.Second)
		_, err := a.TryRLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		second := waitingFor(t, a.RLock)
		began := c.clock.Now()
		cancel()
		over.Wait()
		lock := <-second
		assert.Less(t, c.clock.Now().Sub(began), 50*time.Millisecond)
		settle()
		third := read(t, a, "a")
		for _, lock := range []*redlock.Lock{first, lock, third} {
			require.NoError(t, lock.Unlock(ctx))
		}
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestAReaderThatWaitsGivesUpWithItsContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing()
		writer, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for i := range 3 {
			ending, cancel := context.WithTimeout(ctx, time.Second)
			_, err := l.RLock(ending, "a")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, fmt.Sprint(i))
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		require.NoError(t, writer.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys())
		lock, err := l.RLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
	})
}
