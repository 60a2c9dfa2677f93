package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestAdoptTakesALockOver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		first, second := c.renewing(redlock.WithTTL(3*time.Second)), c.renewing(redlock.WithTTL(3*time.Second))
		old, err := first.TryLock(ctx, "a", redlock.WithOwner("a"))
		require.NoError(t, err)
		settle()
		adopted, err := second.Adopt(ctx, "a", old.Value(), redlock.WithOwner("b"))
		require.NoError(t, err)
		assert.NotEqual(t, old.Value(), adopted.Value())
		settle()
		assert.Equal(t, []string{adopted.Value()}, uniq(c.holders("a")))
		took := elapsed(func() { <-old.Done() })
		assert.LessOrEqual(t, took, time.Second, "the old holder learns of it at its next round")
		require.ErrorIs(t, old.Err(), redlock.ErrLost)
		require.ErrorIs(t, old.Unlock(ctx), redlock.ErrLost)
		time.Sleep(30 * time.Second)
		require.NoError(t, adopted.Err(), "an adopted lock is renewed")
		require.NoError(t, adopted.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestAFailedAdoptionLeavesTheHolderItsLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(20 * time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		_, err = l.Adopt(ctx, "a", "wrong")
		require.ErrorIs(t, err, redlock.ErrLost)
		_, err = l.Adopt(ctx, "free", lock.Value())
		require.ErrorIs(t, err, redlock.ErrLost)

		for _, server := range c.servers[:3] {
			server.Stop()
		}
		_, err = l.Adopt(ctx, "a", lock.Value(), redlock.WithTTL(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, server := range c.servers[:3] {
			server.Continue()
		}
		settle()
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")), "every swap is undone, late ones too")
		for _, server := range c.servers {
			_, left, _ := server.Get("a")
			assert.Greater(t, left, 18*time.Second, "the attempt does not shorten the TTL")
		}
		time.Sleep(time.Minute)
		require.NoError(t, lock.Err())
	})
}

func TestAtMostOneOfSeveralAdoptersWins(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		for i := range 50 {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			var mu sync.Mutex
			var winners []*redlock.Lock
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if adopted, err := l.Adopt(ctx, "a", lock.Value()); err == nil {
						mu.Lock()
						defer mu.Unlock()
						winners = append(winners, adopted)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, len(winners), 1, "attempt %d", i)
			for _, winner := range winners {
				require.NoError(t, winner.Unlock(ctx))
			}
			endsOnly(lock.Unlock(ctx))
			settle()
			require.Zero(t, c.keys())
		}
	})
}

func TestAdoptRefusesTheValueThatTheLockHas(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter := c.locker(), c.locker()
		lock, err := holder.TryLock(ctx, "a", redlock.WithValue("v"), redlock.WithOwner("o"))
		require.NoError(t, err)
		settle()
		_, err = adopter.Adopt(ctx, "a", lock.Value(), redlock.WithValue("v"), redlock.WithOwner("o"))
		require.ErrorIs(t, err, redlock.ErrInvalid, "two clients would hold it")
		require.NoError(t, lock.Verify(ctx))

		adopted, err := adopter.Adopt(ctx, "a", lock.Value(), redlock.WithValue("v"), redlock.WithOwner("p"))
		require.NoError(t, err, "another owner makes another value")
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrLost)
		assert.Equal(t, uint64(1), adopter.Stats().Acquired)
		require.NoError(t, adopted.Unlock(ctx))
	})
}

// The old holder may believe in its lock until then, and nobody else may get it before.
func TestAnAdoptionWithAShorterTTLEndsNoKeyEarlier(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		held, err := c.renewing().TryLock(ctx, "a", redlock.WithTTL(10*time.Second), redlock.WithoutRenewal())
		require.NoError(t, err)
		adopted, err := c.renewing().Adopt(ctx, "a", held.Value(), redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		require.NoError(t, err)
		for _, server := range c.servers {
			value, left, _ := server.Get("a")
			assert.Equal(t, adopted.Value(), value)
			assert.Greater(t, left, 9*time.Second)
		}
	})
}
