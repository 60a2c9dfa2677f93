package redlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

func TestAWaiterThatLeavesAsItGetsTheVoteHandsItOn(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		a, b, d := c.locker(), c.locker(), c.locker()
		lock, err := a.Lock(ctx, "a")
		require.NoError(t, err)
		leaving, cancel := context.WithCancel(ctx)
		defer cancel()
		left := make(chan error, 1)
		go func() {
			_, err := b.Lock(leaving, "a")
			left <- err
		}()
		time.Sleep(20 * time.Millisecond)
		got := acquiring(t, d, "a")
		time.Sleep(20 * time.Millisecond)
		for _, server := range c.servers { // the vote is b's before b knows
			server.OnCommand(func(command fake.Command) {
				if command.Args[0] == "EVALSHA" && len(command.Args) == 6 { // a release
					cancel()
				}
			})
		}
		require.NoError(t, lock.Unlock(ctx))
		require.ErrorIs(t, <-left, context.Canceled)
		time.Sleep(10 * time.Millisecond)
		select {
		case lock := <-got:
			require.NoError(t, lock.Unlock(ctx))
		default:
			t.Error("the vote was not handed on")
			<-got
		}
	})
}

// endedContext says that it has ended, and its Done is not closed yet.
type endedContext struct {
	context.Context //nolint:containedctx // the parent, as in the contexts of the standard library

	ended atomic.Bool
}

func (c *endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// It has no failure to tell of then, only the end of its context.
func TestAWaiterWhoseContextEndsAsItsTurnComesSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, s := range c.servers {
			s.Kill()
		}
		time.Sleep(time.Second)
		lock := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := l.Lock(ctx, "a")
				done <- err
			}()
			synctest.Wait()
			return done
		}
		firstContext, cancel := context.WithCancel(ctx)
		secondContext := &endedContext{Context: ctx}
		first, second := lock(firstContext), lock(secondContext)
		secondContext.ended.Store(true)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.ErrorIs(t, <-second, context.Canceled)
	})
}
