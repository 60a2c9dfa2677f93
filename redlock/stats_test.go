package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// What is stuck shows by its age: how long the oldest lock is held, and the oldest call waits.
func TestStatsTellTheAgesOfTheOldestHoldAndTheOldestWait(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l, other := c.Renewing(), c.Renewing()
		ages := func(l *redlock.Locker) (hold, wait time.Duration) {
			virtual.Settle()
			s := l.Stats()
			return s.OldestHold.Round(time.Second), s.OldestWait.Round(time.Second)
		}
		requireAges := func(l *redlock.Locker, wantHold, wantWait time.Duration) {
			t.Helper()
			hold, wait := ages(l)
			require.Equal(t, wantHold, hold, "hold")
			require.Equal(t, wantWait, wait, "wait")
		}
		requireAges(l, 0, 0)
		office := door.Office.(redlock.LockOption)
		term := c.Lock(l, "office", office)
		c.Calls.Go(func() {
			_, err := other.Lock(c.Within(time.Minute), "office", office)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		time.Sleep(time.Minute / 2)
		requireAges(l, 0, 0)
		requireAges(other, 0, 0)
		c.Calls.Wait()
		require.NoError(t, term.Unlock(ctx))
		first, err := k.all(ctx, l)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		second := c.Lock(l, "another")
		time.Sleep(10 * time.Minute)
		requireAges(l, 11*time.Minute, 0)

		got := make(chan *redlock.Lock, 2)
		for range 2 {
			c.Calls.Go(func() {
				lock, err := k.wait(ctx, other)
				assert.NoError(t, err)
				got <- lock
			})
			time.Sleep(10 * time.Second)
		}
		requireAges(other, 0, 20*time.Second)
		require.NoError(t, first.Unlock(ctx))
		requireAges(l, 20*time.Second+10*time.Minute, 0)
		lock := <-got
		if k.what != "reader" && k.what != "any" { // of which both have one
			requireAges(other, 0, 10*time.Second)
		}
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, (<-got).Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))
		requireAges(l, 0, 0)
		requireAges(other, 0, 0)
	})
}
