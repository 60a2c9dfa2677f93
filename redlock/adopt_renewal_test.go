package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// Renewal goes on while others adopt: it finds the adopter's value and restores missing keys.
func TestAnAdoptionBesideRenewalStandsOrTheOldHolderHasItsLock(t *testing.T) {
	t.Parallel()
	var renewal time.Duration // from the lock until the replies to its first renewal
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		renewed := make(chan struct{}, 100)
		old, _ := c.heldBesideAnother(t, redlock.WithHooks(redlock.Hooks{Renewed: func(*redlock.Lock) { renewed <- struct{}{} }}))
		began := time.Now()
		<-renewed
		renewal = time.Since(began)
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

const renewedTTL = 3 * time.Second

// heldBesideAnother returns a lock that is renewed together with another one, on delayed servers.
func (c *cluster) heldBesideAnother(t *testing.T, opts ...redlock.Option) (lock, other *redlock.Lock) {
	t.Helper()
	holder := c.renewing(append(opts, redlock.WithTTL(renewedTTL))...)
	c.delayed()
	lock, err := holder.TryLock(ctx, "a")
	require.NoError(t, err)
	other, err = holder.TryLock(ctx, "other")
	require.NoError(t, err)
	return lock, other
}
