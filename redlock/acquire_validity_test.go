package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestValidityCountsFromBeforeTheFirstByte(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		l := c.locker(redlock.WithDrift(0.01, 2*time.Millisecond))
		for i, server := range c.servers {
			delay := time.Duration(100*(i+1)) * time.Millisecond
			server.Delay(func() time.Duration { return delay }, nil)
		}
		began := time.Now()
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		assert.Equal(t, 200*time.Millisecond, time.Since(began), "the second of three decides")
		assert.Equal(t, 10*time.Second-200*time.Millisecond-102*time.Millisecond, lock.Remaining())
		assert.WithinDuration(t, began.Add(10*time.Second-102*time.Millisecond), lock.Until(), 0)
		<-lock.Done()
		assert.Equal(t, 10*time.Second-102*time.Millisecond, time.Since(began), "exactly")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		for i := range 2 {
			_, left, ok := c.servers[i].Get("a")
			assert.True(t, ok && left > 0, "every node that granted it still has it")
		}
	})
}

func TestARoundLongerThanTheTTLHasNoValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		l := c.locker()
		for _, server := range c.servers {
			server.Delay(nil, func() time.Duration { return 10 * time.Millisecond })
		}
		// Between the SETs and their replies.
		time.AfterFunc(5*time.Millisecond, func() { c.clock.Suspend(11 * time.Second) })
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		l := c.locker(redlock.WithNodeTimeout(time.Second))
		for _, server := range c.servers {
			server.Delay(func() time.Duration { return 9 * time.Millisecond }, nil)
		}
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		time.Sleep(18 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, c.keys())

		_, err = l.TryLock(ctx, "a", redlock.WithTTL(time.Second), redlock.WithMinValidity(time.Second-12*time.Millisecond-9*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity, "the remaining validity must exceed the minimum")
		time.Sleep(20 * time.Millisecond)
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Second), redlock.WithMinValidity(time.Second-12*time.Millisecond-9*time.Millisecond-1))
		require.NoError(t, err)
		assert.Equal(t, time.Second-21*time.Millisecond, lock.Remaining())
	})
}
