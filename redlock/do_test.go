package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestDoReturnsEveryError(t *testing.T) {
	failure := errors.New("out of stock")
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		require.NoError(t, l.Do(ctx, "a", func(ctx context.Context, lock *redlock.Lock) error {
			assert.Equal(t, "a", lock.Name())
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}))
		err := l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return failure })
		require.ErrorIs(t, err, failure)
		assert.NotErrorIs(t, err, redlock.ErrLost)

		err = l.Do(ctx, "a", func(ctx context.Context, _ *redlock.Lock) error {
			for i := range c.servers {
				c.do(i, "DEL", "a")
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrLost)

		assert.PanicsWithValue(t, "boom", func() {
			//nolint:errcheck // it panics
			_ = l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { panic("boom") })
		})
		settle()
		assert.Zero(t, c.keys(), "a panic releases the lock")

		err = l.Do(ctx, "a", func(context.Context, *redlock.Lock) error {
			c.servers[0].Stop()
			c.servers[1].Stop()
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "the release could not be confirmed")
		c.servers[0].Continue()
		c.servers[1].Continue()

		cancelled, cancel := context.WithCancel(ctx)
		require.NoError(t, l.Do(cancelled, "a", func(ctx context.Context, _ *redlock.Lock) error {
			cancel()
			<-ctx.Done()
			return nil
		}), "the lock is released although its context was cancelled")
	})
}

// It would read as if all of fn had run under the lock.
func TestDoTellsThatCloseReleasedTheLockUnderIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing()
		err := l.Do(ctx, "a", func(context.Context, *redlock.Lock) error { return l.Close() })
		require.ErrorIs(t, err, redlock.ErrClosed)
		assert.NotErrorIs(t, err, redlock.ErrLost)
		require.NoError(t, c.renewing().Do(ctx, "a", func(_ context.Context, lock *redlock.Lock) error { return lock.Unlock(ctx) }))
	})
}
