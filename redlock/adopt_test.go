package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestAdoptTakesALockOver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		opts := []redlock.Option{redlock.WithTTL(3 * time.Second), redlock.WithFencing()}
		first, second := c.renewing(opts...), c.renewing(opts...)
		old := c.lock(first, "a", redlock.WithOwner("a"))
		settle()
		adopted, err := second.Adopt(ctx, "a", old.Value(), redlock.WithOwner("b"))
		require.NoError(t, err)
		assert.NotEqual(t, old.Value(), adopted.Value())
		assert.Greater(t, adopted.Fence(), old.Fence(), "an adopter has a token of its own")
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
		assert.Equal(t, []string{""}, uniq(c.holders("a")))
	})
}

func TestAFailedAdoptionLeavesTheHolderItsLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(20 * time.Second))
		lock := c.lock(l, "a")
		settle()
		_, err := l.Adopt(ctx, "a", "wrong")
		require.ErrorIs(t, err, redlock.ErrLost)
		_, err = l.Adopt(ctx, "free", lock.Value())
		require.ErrorIs(t, err, redlock.ErrLost)

		c.each(stop, 0, 1, 2)
		_, err = l.Adopt(ctx, "a", lock.Value(), redlock.WithTTL(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.each(resume, 0, 1, 2)
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

func TestAdoptRefusesTheValueThatTheLockHas(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		adopter := c.locker()
		lock := c.lock(c.locker(), "a", redlock.WithValue("v"), redlock.WithOwner("o"))
		settle()
		_, err := adopter.Adopt(ctx, "a", lock.Value(), redlock.WithValue("v"), redlock.WithOwner("o"))
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
		held := c.lock(c.locker(), "a", redlock.WithTTL(10*time.Second))
		adopted, err := c.locker().Adopt(ctx, "a", held.Value(), redlock.WithTTL(time.Second))
		require.NoError(t, err)
		settle()
		for _, server := range c.servers {
			value, left, _ := server.Get("a")
			assert.Equal(t, adopted.Value(), value)
			assert.Greater(t, left, 9*time.Second)
		}
	})
}

func TestALockThatIsGivenBackLivesAsLongAsItWouldHave(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter := c.locker(redlock.WithTTL(2*time.Second)), c.locker()
		c.delayed()
		old := c.lock(holder, "a")
		time.Sleep(10 * time.Millisecond)
		_, err := adopter.Adopt(ctx, "a", old.Value(), redlock.WithTTL(20*time.Second), redlock.WithMinValidity(19797500*time.Microsecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		time.Sleep(10 * time.Millisecond)
		for i, s := range c.servers {
			value, left, _ := s.Get("a")
			assert.Equal(t, old.Value(), value)
			assert.LessOrEqual(t, left, 2*time.Second, "node %d", i)
			assert.Greater(t, left, 1900*time.Millisecond, "node %d", i)
		}
	})
}

func TestAnAdoptionThatCannotBeUndoneLeavesTheLockToNobodyUntilItsTTLEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter, third := c.locker(redlock.WithTTL(10*time.Second)), c.locker(), c.locker()
		c.delayed()
		old := c.lock(holder, "a")
		time.Sleep(100 * time.Millisecond)
		// The values are swapped, but no reply is in.
		few, cancel := context.WithTimeout(ctx, 600*time.Microsecond)
		defer cancel()
		time.AfterFunc(550*time.Microsecond, func() { c.each(mute) })
		_, err := adopter.Adopt(few, "a", old.Value())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, adopter.Close(), redlock.ErrUndelivered)
		c.each(unmute)
		time.Sleep(time.Second)
		require.NotContains(t, c.holders("a"), "")
		require.ErrorIs(t, old.Verify(ctx), redlock.ErrLost)
		c.taken(third, "a")
		time.Sleep(10 * time.Second)
		c.lock(third, "a")
		require.Empty(t, c.notes())
	})
}

const renewedTTL = 3 * time.Second

// heldBesideAnother returns a lock that is renewed together with another one, on delayed servers.
func (c *cluster) heldBesideAnother(t *testing.T, opts ...redlock.Option) (lock, other *redlock.Lock) {
	t.Helper()
	holder := c.renewing(append(opts, redlock.WithTTL(renewedTTL))...)
	c.delayed()
	return c.lock(holder, "a"), c.lock(holder, "other")
}

// Renewal goes on while others adopt: it finds the adopter's value and restores missing keys.
func TestAnAdoptionBesideRenewalStandsOrTheOldHolderHasItsLock(t *testing.T) {
	t.Parallel()
	var renewal time.Duration // from the lock until the replies to its first renewal
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		renewed := make(chan struct{}, 100)
		old, _ := c.heldBesideAnother(t, redlock.WithHooks(redlock.Hooks{Renewed: func(*redlock.Lock) { renewed <- struct{}{} }}))
		renewal = elapsed(func() { <-renewed })
		require.NoError(t, old.Err())
	})
	stood, kept, lost := 0, 0, 0
	for k := 0; k < endTimings; k += endEvery {
		for _, patience := range []time.Duration{300 * time.Microsecond, 900 * time.Microsecond, time.Second} {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				old, other := c.heldBesideAnother(t)
				adopter, third := c.renewing(redlock.WithTTL(renewedTTL)), c.locker()
				time.Sleep(renewal - 2*time.Millisecond + time.Duration(k)*endStep)
				few, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				adopted, failed := adopter.Adopt(few, "a", old.Value())
				for range 20 {
					time.Sleep(201 * time.Millisecond)
					lock, err := third.TryLock(ctx, "a")
					if err != nil {
						require.ErrorIs(t, err, redlock.ErrTaken)
						continue
					}
					require.Error(t, old.Err(), "two holders: %v", failed)
					require.Error(t, failed, "two holders")
					require.NoError(t, lock.Unlock(ctx))
				}
				require.NoError(t, other.Err(), "it is renewed together with the adopted lock")
				switch {
				case failed == nil:
					stood++
					require.ErrorIs(t, old.Err(), redlock.ErrLost)
					require.NoError(t, adopted.Err())
				case old.Err() == nil:
					kept++
				default: // the old holder asked while a majority was swapped
					lost++
					require.Equal(t, make([]string, 5), c.holders("a"))
				}
				require.Empty(t, c.notes())
			})
		}
	}
	t.Logf("%d adoptions stood; of the others, the old holder kept %d and lost %d", stood, kept, lost)
	assert.Positive(t, stood)
	assert.Positive(t, kept)
	assert.Positive(t, lost)
}
