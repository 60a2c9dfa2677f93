package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

var threeNames = []string{"a", "b", "c"}

// any acquires a lock of one of the three names.
func (c *cluster) any(l *redlock.Locker) *redlock.Lock {
	c.t.Helper()
	lock, err := l.TryLockAny(ctx, threeNames)
	require.NoError(c.t, err)
	settle()
	return lock
}

// noneFree requires that all of the three names are taken.
func (c *cluster) noneFree(l *redlock.Locker) {
	c.t.Helper()
	_, err := l.TryLockAny(ctx, threeNames)
	require.ErrorIs(c.t, err, redlock.ErrTaken)
	assert.ErrorContains(c.t, err, `acquire "a": `)
}

func TestAnyOfSeveralNamesIsTheFirstThatIsFree(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing())
			mutex := c.lock(l, "a")
			settle()
			var locks []*redlock.Lock
			for _, want := range []string{"b", "c"} {
				lock := c.any(l)
				assert.Equal(t, want, lock.Name())
				assert.Equal(t, []string{want}, lock.Names())
				assert.NotZero(t, lock.Fence())
				locks = append(locks, lock)
			}
			c.noneFree(l)
			c.unlock(mutex)
			settle()
			lock := c.any(l)
			assert.Equal(t, "a", lock.Name())
			c.unlock(append(locks, lock)...)
			settle()
			assert.Equal(t, 3*nodes, c.keys(), "the counters")
		})
	}
}

// Crashed clients have left something behind at one node each, so each node gives the caller
// another name, or another slot.
func TestNodesThatGiveDifferentNamesAreAskedForOne(t *testing.T) {
	for what, one := range map[string]struct {
		names []string
		try   call
	}{
		"name": {threeNames, func(ctx context.Context, l *redlock.Locker, _ ...redlock.LockOption) (*redlock.Lock, error) {
			return l.TryLockAny(ctx, threeNames)
		}},
		"permit": {[]string{"s#1", "s#2", "s#3"}, func(ctx context.Context, l *redlock.Locker, _ ...redlock.LockOption) (*redlock.Lock, error) {
			s, err := l.Semaphore("s", 3)
			require.NoError(t, err)
			return s.TryAcquire(ctx)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				for i, name := range one.names {
					c.set(name, "crashed", 5*time.Second, i)
				}
				c.set("redquorum:permits:s", "3", time.Minute)
				l := c.locker()
				for range 3 {
					lock, err := one.try(ctx, l)
					require.NoError(t, err)
					settle()
					held := 0
					for _, name := range one.names {
						for _, value := range c.holders(name) {
							if value == lock.Value() {
								held++
								assert.Equal(t, lock.Name(), name, "no other one")
							}
						}
					}
					assert.GreaterOrEqual(t, held, 2)
				}
				_, err := one.try(ctx, l)
				require.ErrorIs(t, err, redlock.ErrTaken)
				require.NoError(t, l.UnlockAll(ctx))
				c.leavesNothing(6 * time.Second)
			})
		})
	}
}

func TestWaitersForAnyOfSeveralNamesGetTheFirstThatIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		l, other := c.locker(), c.locker(rarely)
		held := map[string]*redlock.Lock{}
		for _, name := range threeNames {
			held[name] = c.lock(l, name)
		}
		settle()
		for _, name := range []string{"b", "a", "c"} {
			got := c.queued(func() (*redlock.Lock, error) { return other.LockAny(ctx, threeNames) })
			began := time.Now()
			c.unlock(held[name])
			lock := <-got
			assert.Less(t, time.Since(began), 5*time.Millisecond, "handed over")
			assert.Equal(t, name, lock.Name())
			held[name] = lock
			time.Sleep(20 * time.Millisecond)
		}
		stats := other.Stats()
		assert.Equal(t, []uint64{0, 3}, []uint64{stats.Polls, stats.Waits})
		assert.Equal(t, []int{0, 3}, []int{stats.Waiting, stats.Held})
		require.NoError(t, other.UnlockAll(ctx))
		c.leavesNothing(3*time.Minute + time.Second)
	})
}

// Each call gets one lock, also if several names become free at once.
func TestManyWaitersForAnyOfSeveralNamesGetOneEach(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		b := c.busy(3, 10*time.Millisecond)
		lockers := []*redlock.Locker{c.locker(), c.locker(), c.locker()}
		set, err := lockers[0].TryLockAll(ctx, b.names)
		require.NoError(t, err)
		for i := range 12 {
			b.all.Go(func() {
				if lock, err := lockers[i%3].LockAny(ctx, b.names); assert.NoError(t, err) {
					b.have(lock, b.hold)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		c.unlock(set)
		assert.Less(t, elapsed(b.all.Wait), 12/3*b.hold+20*time.Millisecond, "three at a time")
		for _, l := range lockers {
			assert.Zero(t, l.Stats().Held)
		}
		c.leavesNothing(3*time.Minute + time.Second)
	})
}

// All three names are taken for their minimum hold, one after the other. Then nobody gets one until
// the first of them is free, also if its TTL has ended before.
func TestAnyOfSeveralNamesStaysTakenForItsMinimumHold(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		const d = 3 * time.Second
		l := c.locker(redlock.WithTTL(time.Second), redlock.WithMinHold(d))
		began := c.clock.Now()
		for range threeNames {
			c.unlock(c.any(l))
		}
		for c.clock.Now().Sub(began) < d-100*time.Millisecond {
			c.noneFree(l)
			time.Sleep(90 * time.Millisecond)
		}
		lock, err := l.LockAny(ctx, threeNames)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, c.clock.Now().Sub(began), d)
		assert.Less(t, c.clock.Now().Sub(began), d+time.Second)
		c.unlock(lock)
	})
}

func TestBadNamesAndNumbersToChooseFromAreRefused(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, names := range [][]string{nil, {""}, {"a", "a"}, {"redquorum:a"}, make([]string, 257)} {
			_, err := l.TryLockAny(ctx, names)
			require.ErrorIs(t, err, redlock.ErrInvalid, "%q", names)
			_, err = l.LockAny(ctx, names)
			require.ErrorIs(t, err, redlock.ErrInvalid, "%q", names)
		}
		for name, permits := range map[string]int{"": 1, string(make([]byte, 4092)): 1, "redquorum:s": 1, "a": 0, "b": -1, "c": 1025} {
			_, err := l.Semaphore(name, permits)
			require.ErrorIs(t, err, redlock.ErrInvalid, "%.10q %d", name, permits)
		}
		s, err := l.Semaphore(string(make([]byte, 4091)), 1024)
		require.NoError(t, err, "the limits themselves are valid")
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		c.inspect(l, lock.Name())
		var none context.Context
		_, err = s.Inspect(none)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.NoError(t, l.Close())
		_, err = s.Inspect(ctx)
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}
