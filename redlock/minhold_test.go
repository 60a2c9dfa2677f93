package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// freeAt waits until fewer than a quorum of the nodes hold a key, and returns when that was, to a
// millisecond. Nobody may acquire the name before.
func (c *cluster) freeAt(key string) clock.Instant {
	c.t.Helper()
	stranger := c.locker()
	for i := range 120_000 {
		held := 0
		for _, value := range c.holders(key) {
			if value != "" {
				held++
			}
		}
		if held <= len(c.servers)/2 {
			return c.clock.Now()
		}
		if i%100 == 0 {
			_, err := stranger.TryLock(ctx, key)
			require.Error(c.t, err)
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatalf("%q is never free", key)
	return 0
}

// lasts requires that a name which was acquired at an instant is taken for d from then on, and free
// within a few milliseconds after: the nodes count in whole ones, from when they run a command.
func (c *cluster) lasts(key string, acquired clock.Instant, d time.Duration) {
	c.t.Helper()
	free := c.freeAt(key).Sub(acquired)
	assert.GreaterOrEqual(c.t, free, d)
	assert.LessOrEqual(c.t, free, d+5*time.Millisecond)
}

func TestANameIsTakenForItsMinimumHoldHoweverEarlyTheLockIsReleased(t *testing.T) {
	const d = 2 * time.Second
	for name, opts := range map[string][]redlock.Option{
		"a short TTL":  {redlock.WithTTL(time.Second)},
		"the same TTL": {redlock.WithTTL(d)},
		"a long TTL":   {redlock.WithTTL(time.Minute)},
		"a token":      {redlock.WithFencing()},
	} {
		for _, nodes := range []int{1, 3, 4} {
			for _, held := range []time.Duration{0, 700 * time.Millisecond, d - 2*time.Millisecond} {
				inBubble(t, nodes, func(t *testing.T, c *cluster) {
					c.slow(100 * time.Microsecond)
					l := c.renewing(append(opts, redlock.WithMinHold(d))...)
					acquired := c.clock.Now()
					lock, err := l.TryLock(ctx, "a")
					require.NoError(t, err)
					time.Sleep(held)
					require.NoError(t, lock.Err(), name)
					assert.Less(t, elapsed(func() { require.NoError(t, lock.Unlock(ctx)) }), time.Millisecond)
					require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
					require.NoError(t, lock.Unlock(ctx), "the second time")
					_, err = l.TryLock(ctx, "a")
					require.ErrorIs(t, err, redlock.ErrTaken, "nobody is exempt")
					c.lasts("a", acquired, d)
					again, err := l.TryLock(ctx, "a", redlock.WithMinHold(0))
					require.NoError(t, err)
					require.NoError(t, again.Unlock(ctx))
					settle()
					time.Sleep(time.Millisecond)
					assert.Empty(t, c.holders("a")[0])
				})
			}
		}
	}
}

func TestALockThatIsHeldForLongerThanItsMinimumIsReleasedAsEver(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 100 * time.Millisecond} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithTTL(time.Second), redlock.WithMinHold(d))
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			_, ttl, _ := c.servers[0].Get("a")
			assert.Equal(t, time.Second, ttl.Round(time.Millisecond), "the TTL is longer")
			time.Sleep(200 * time.Millisecond)
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Zero(t, c.keys())
			_, err = l.TryLock(ctx, "a")
			require.NoError(t, err)
		})
	}
}

// Releases of a value that may be used again run in order, with a script of their own.
func TestALockWithAValueOfTheCallerHasItsMinimumHold(t *testing.T) {
	const d = 2 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock, err := l.TryLock(ctx, "a", redlock.WithValue("mine"))
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		settle()
		assert.Equal(t, []string{"mine"}, uniq(c.holders("a")))
		c.lasts("a", acquired, d)
	})
}

func TestExtendLeavesTheMinimumHold(t *testing.T) {
	const d = 30 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Extend(ctx, time.Second))
		assert.LessOrEqual(t, lock.Remaining(), time.Second, "the validity is as without it")
		settle()
		for _, server := range c.servers {
			_, ttl, _ := server.Get("a")
			assert.GreaterOrEqual(t, c.clock.Now().Add(ttl), acquired.Add(d), "never shorter")
		}
		require.NoError(t, lock.Extend(ctx, 50*time.Second))
		settle()
		_, ttl, _ := c.servers[0].Get("a")
		assert.Equal(t, 50*time.Second, ttl.Round(time.Millisecond), "longer as without it")
		require.NoError(t, lock.Unlock(ctx))
		c.lasts("a", acquired, d)
	})
}

func TestRenewalGoesOnAsWithoutAMinimumHold(t *testing.T) {
	for _, d := range []time.Duration{0, 20 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(d))
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			for range 50 {
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, lock.Err())
				assert.Greater(t, lock.Remaining(), 1900*time.Millisecond)
				assert.Less(t, lock.Remaining(), 3*time.Second)
			}
			assert.InDelta(t, 25, l.Stats().Renewed, 2)
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Zero(t, c.keys())
		})
	}
}

func TestAllNamesOfASetAreTakenForTheMinimumHold(t *testing.T) {
	const d = 3 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock, err := l.TryLockAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		_, err = l.TryLockAll(ctx, []string{"b", "c"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		settle()
		assert.Equal(t, []string{"", "", ""}, c.holders("c"), "a set that was refused leaves nothing")
		c.lasts("b", acquired, d)
		_, err = l.TryLockAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
	})
}

func TestUnlockAllAndCloseLeaveTheMinimumHold(t *testing.T) {
	const d = 3 * time.Second
	for name, end := range map[string]func(*redlock.Locker) error{
		"UnlockAll": func(l *redlock.Locker) error { return l.UnlockAll(ctx) },
		"Close":     (*redlock.Locker).Close,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.renewing(redlock.WithTTL(20 * time.Second))
				acquired := c.clock.Now()
				lock, err := l.TryLock(ctx, "a", redlock.WithMinHold(d))
				require.NoError(t, err)
				_, err = l.TryLock(ctx, "b")
				require.NoError(t, err)
				assert.Less(t, elapsed(func() { require.NoError(t, end(l)) }), time.Millisecond)
				require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
				settle()
				assert.Equal(t, []string{"", "", ""}, c.holders("b"))
				c.lasts("a", acquired, d)
			})
		})
	}
}

func TestAMinimumHoldShowsInInspectAndNotInHooks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		released := 0
		l := c.renewing(redlock.WithMinHold(time.Second), redlock.WithHooks(redlock.Hooks{Released: func(*redlock.Lock) { released++ }}))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		status, err := l.Inspect(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, lock.Value(), status.Value)
		assert.Equal(t, time.Second, status.Nodes[0].TTL)
		assert.Zero(t, l.Stats().Held)
		assert.Zero(t, l.Stats().Lost)
		assert.Zero(t, l.Stats().HandedOver)
		settle()
		assert.Equal(t, 1, released)
	})
}

func TestForceUnlockEndsAMinimumHold(t *testing.T) {
	for _, released := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, operator := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(time.Minute)), c.locker()
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			if released {
				require.NoError(t, lock.Unlock(ctx))
			}
			settle()
			require.NoError(t, operator.ForceUnlock(ctx, "a"))
			settle()
			assert.Zero(t, c.keys())
			time.Sleep(5 * time.Second) // the holder renews the lock, and finds out
			if !released {
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			}
			assert.Zero(t, c.keys())
			_, err = operator.TryLock(ctx, "a")
			require.NoError(t, err)
		})
	}
}

func TestAMinimumHoldDoesNotTravelWithAnAdoption(t *testing.T) {
	for _, d := range []time.Duration{0, 4 * time.Second, 50 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, heir := c.renewing(redlock.WithMinHold(30*time.Second)), c.renewing()
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			time.Sleep(time.Second)
			adopted := c.clock.Now()
			taken, err := heir.Adopt(ctx, "a", lock.Value(), redlock.WithMinHold(d))
			require.NoError(t, err)
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			require.NoError(t, taken.Verify(ctx))
			require.NoError(t, taken.Unlock(ctx))
			c.lasts("a", adopted, d)
		})
	}
}

func TestAnAdoptionThatFailsGivesTheRestBack(t *testing.T) {
	const d = 5 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l, heir := c.locker(redlock.WithTTL(30*time.Second), redlock.WithMinHold(d)), c.locker()
		acquired := c.clock.Now()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[1].Mute(true)
		c.servers[2].Mute(true)
		time.AfterFunc(10*time.Millisecond, func() { _ = lock.Unlock(ctx) }) //nolint:errcheck // the value was swapped
		_, err = heir.Adopt(ctx, "a", lock.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		c.servers[1].Mute(false)
		c.servers[2].Mute(false)
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")))
		c.lasts("a", acquired, d)
	})
}
