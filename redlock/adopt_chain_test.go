package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// The second adopter knows the value from Inspect or WithValue. It gives up before or after the
// first one.
func TestAnAdoptionOfAnAdoptionThatFailsLeavesTheOldHolderItsLock(t *testing.T) {
	for k := 0; k < endTimings; k += endEvery {
		for _, patience := range []time.Duration{time.Microsecond, 2 * time.Millisecond} {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				checkAdoptionOfAdoption(t, c, time.Duration(k)*endStep, patience, false)
			})
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				checkAdoptionOfAdoption(t, c, time.Duration(k)*endStep, patience, true)
			})
		}
	}
}

func checkAdoptionOfAdoption(t *testing.T, c *cluster, after, patience time.Duration, releases bool) {
	holder, first, second := c.locker(redlock.WithTTL(10*time.Second)), c.locker(), c.locker()
	c.delayed()
	old, err := holder.TryLock(ctx, "a")
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond)
	over := make(chan error, 1)
	go func() {
		// A round takes a millisecond.
		tooLate := redlock.WithMinValidity(9897500 * time.Microsecond)
		_, err := first.Adopt(ctx, "a", old.Value(), redlock.WithValue("first"), tooLate)
		over <- err
	}()
	time.Sleep(after)
	few, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if releases {
		go func() { _ = old.Unlock(ctx) }() //nolint:errcheck // it may be adopted
	}
	adopted, err := second.Adopt(few, "a", "first")
	failed := <-over
	time.Sleep(time.Second)
	require.Error(t, failed)
	switch {
	case err == nil:
		require.NoError(t, adopted.Verify(ctx))
		require.Error(t, old.Verify(ctx))
	case releases:
		require.Equal(t, make([]string, 5), c.holders("a"), "after %v", after)
	default:
		require.NoError(t, old.Verify(ctx), "after %v: %v, %v", after, err, c.holders("a"))
		require.Equal(t, slices.Repeat([]string{old.Value()}, 5), c.holders("a"), "after %v", after)
	}
	require.Empty(t, c.notes())
}

func TestALockThatIsGivenBackLivesAsLongAsItWouldHave(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter := c.locker(redlock.WithTTL(2*time.Second)), c.locker()
		c.delayed()
		old, err := holder.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		_, err = adopter.Adopt(ctx, "a", old.Value(), redlock.WithTTL(20*time.Second), redlock.WithMinValidity(19797500*time.Microsecond))
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

func TestOneOfTwoAdoptersThatAreCutShortStandsOrTheOldHolderHasItsLock(t *testing.T) {
	for k := 0; k < endTimings; k += endEvery {
		for _, apart := range []time.Duration{0, 300 * time.Microsecond, 700 * time.Microsecond} {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				holder, first, second := c.locker(redlock.WithTTL(10*time.Second)), c.locker(), c.locker()
				c.delayed()
				old, err := holder.TryLock(ctx, "a")
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
				few, cancel := context.WithTimeout(ctx, time.Duration(k)*endStep)
				defer cancel()
				var one *redlock.Lock
				over := make(chan struct{})
				go func() {
					defer close(over)
					one, _ = first.Adopt(few, "a", old.Value()) //nolint:errcheck // nil on error
				}()
				time.Sleep(apart)
				later, cancelLater := context.WithTimeout(ctx, time.Duration(endTimings-k)*endStep)
				defer cancelLater()
				two, _ := second.Adopt(later, "a", old.Value()) //nolint:errcheck // nil on error
				<-over
				time.Sleep(time.Second)
				holders := 0
				for _, lock := range []*redlock.Lock{old, one, two} {
					if lock != nil && lock.Verify(ctx) == nil {
						holders++
					}
				}
				require.Equal(t, 1, holders, "after %v and %v: %v", time.Duration(k)*endStep, apart, c.holders("a"))
				require.Empty(t, c.notes())
			})
		}
	}
}
