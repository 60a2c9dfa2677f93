package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

var threeNames = []string{"a", "b", "c"}

func TestAnyOfSeveralNamesIsTheFirstThatIsFree(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing())
			mutex, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			var locks []*redlock.Lock
			for _, want := range []string{"b", "c"} {
				lock, err := l.TryLockAny(ctx, threeNames)
				require.NoError(t, err)
				settle()
				assert.Equal(t, want, lock.Name())
				assert.Equal(t, []string{want}, lock.Names())
				assert.NotZero(t, lock.Fence())
				locks = append(locks, lock)
			}
			_, err = l.TryLockAny(ctx, threeNames)
			require.ErrorIs(t, err, redlock.ErrTaken)
			assert.ErrorContains(t, err, `acquire "a": 0 granted`)
			_, err = l.TryLock(ctx, "b")
			require.ErrorIs(t, err, redlock.ErrTaken, "it is a lock like any other")
			require.NoError(t, locks[0].Extend(ctx, 20*time.Second))
			require.NoError(t, locks[0].Verify(ctx))
			require.NoError(t, mutex.Unlock(ctx))
			settle()
			lock, err := l.TryLockAny(ctx, threeNames)
			require.NoError(t, err)
			assert.Equal(t, "a", lock.Name())
			for _, lock := range append(locks, lock) {
				require.NoError(t, lock.Unlock(ctx))
			}
			settle()
			assert.Equal(t, 3*nodes, c.keys(), "the counters")
		})
	}
}

func TestNodesThatGiveDifferentNamesAreAskedForOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i, name := range threeNames {
			c.do(i, "SET", name, "crashed", "PX", 5000)
		}
		l := c.locker()
		for range 3 {
			lock, err := l.TryLockAny(ctx, threeNames)
			require.NoError(t, err)
			settle()
			held := 0
			for _, name := range threeNames {
				for _, value := range c.holders(name) {
					if value == lock.Value() {
						held++
						assert.Equal(t, lock.Name(), name, "no other name")
					}
				}
			}
			assert.GreaterOrEqual(t, held, 2)
		}
		_, err := l.TryLockAny(ctx, threeNames)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.UnlockAll(ctx))
		time.Sleep(6 * time.Second)
		assert.Zero(t, c.keys())
	})
}

func TestWaitersForAnyOfSeveralNamesGetTheFirstThatIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		l := c.locker()
		held := map[string]*redlock.Lock{}
		for _, name := range threeNames {
			lock, err := l.TryLock(ctx, name)
			require.NoError(t, err)
			held[name] = lock
		}
		settle()
		other := c.locker(redlock.WithRetry(time.Minute, time.Minute))
		for _, name := range []string{"b", "a", "c"} {
			got := make(chan *redlock.Lock)
			go func() {
				lock, err := other.LockAny(ctx, threeNames)
				assert.NoError(t, err)
				got <- lock
			}()
			time.Sleep(20 * time.Millisecond)
			assert.Equal(t, 1, other.Stats().Waiting)
			began := time.Now()
			require.NoError(t, held[name].Unlock(ctx))
			lock := <-got
			assert.Less(t, time.Since(began), 5*time.Millisecond, "handed over")
			assert.Equal(t, name, lock.Name())
			held[name] = lock
			time.Sleep(20 * time.Millisecond)
		}
		stats := other.Stats()
		assert.Zero(t, stats.Polls)
		assert.Zero(t, stats.Waiting)
		assert.Equal(t, 3, stats.Held)
		assert.Equal(t, uint64(3), stats.Waits)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := other.LockAny(short, threeNames)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, other.UnlockAll(ctx))
		time.Sleep(3*time.Minute + time.Second)
		assert.Zero(t, c.keys())
	})
}

// Each call gets one lock, also if several names become free at once.
func TestManyWaitersForAnyOfSeveralNamesGetOneEach(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lockers := []*redlock.Locker{c.locker(), c.locker(), c.locker()}
		lock, err := lockers[0].TryLockAll(ctx, threeNames)
		require.NoError(t, err)
		var all sync.WaitGroup
		var mu sync.Mutex
		holding, most := map[string]bool{}, 0
		for i := range 12 {
			all.Go(func() {
				lock, err := lockers[i%3].LockAny(ctx, threeNames)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				assert.False(t, holding[lock.Name()])
				holding[lock.Name()] = true
				most = max(most, len(holding))
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				delete(holding, lock.Name())
				mu.Unlock()
				assert.NoError(t, lock.Unlock(ctx))
			})
		}
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, lock.Unlock(ctx))
		all.Wait()
		assert.Equal(t, 3, most)
		for _, l := range lockers {
			assert.Zero(t, l.Stats().Held)
		}
		settle()
		time.Sleep(3*time.Minute + time.Second)
		assert.Zero(t, c.keys())
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
			lock, err := l.TryLockAny(ctx, threeNames)
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
		}
		for c.clock.Now().Sub(began) < d-100*time.Millisecond {
			_, err := l.TryLockAny(ctx, threeNames)
			require.ErrorIs(t, err, redlock.ErrTaken, "after %v", c.clock.Now().Sub(began))
			time.Sleep(90 * time.Millisecond)
		}
		lock, err := l.LockAny(ctx, threeNames)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, c.clock.Now().Sub(began), d)
		assert.Less(t, c.clock.Now().Sub(began), d+time.Second)
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestBadArgumentsForAnyOfSeveralNamesAreRefused(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		for _, call := range []func(context.Context, []string, ...redlock.LockOption) (*redlock.Lock, error){l.TryLockAny, l.LockAny} {
			for _, names := range [][]string{nil, {""}, {"a", "a"}, {"redquorum:a"}, make([]string, 257)} {
				_, err := call(ctx, names)
				assert.ErrorIs(t, err, redlock.ErrInvalid, "%q", names)
			}
			_, err := call(ctx, threeNames, redlock.WithValue("v"))
			require.ErrorIs(t, err, redlock.ErrInvalid)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, err = call(ended, threeNames)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, l.Close())
		_, err := l.LockAny(ctx, threeNames)
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}
