package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// permits returns a semaphore of a Locker that does not renew its locks.
func (c *cluster) permits(name string, n int, opts ...redlock.Option) *redlock.Semaphore {
	c.t.Helper()
	s, err := c.locker(opts...).Semaphore(name, n)
	require.NoError(c.t, err)
	return s
}

func TestASemaphoreLetsItsNumberIn(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			s, other := c.permits("s", 3), c.permits("s", 3)
			var locks []*redlock.Lock
			var names []string
			for range 3 {
				lock, err := s.TryAcquire(ctx)
				require.NoError(t, err)
				locks, names = append(locks, lock), append(names, lock.Name())
			}
			assert.Equal(t, []string{"s#1", "s#2", "s#3"}, uniq(names))
			settle() // until no node has anything beside the three slots
			for _, s := range []*redlock.Semaphore{s, other} {
				_, err := s.TryAcquire(ctx)
				require.ErrorIs(t, err, redlock.ErrTaken)
				assert.ErrorContains(t, err, `acquire "s": 0 granted`)
			}
			require.NoError(t, locks[1].Unlock(ctx))
			settle()
			lock, err := other.TryAcquire(ctx)
			require.NoError(t, err)
			assert.Equal(t, locks[1].Name(), lock.Name(), "the slot that is free")
			for _, lock := range []*redlock.Lock{locks[0], locks[2], lock} {
				require.NoError(t, lock.Verify(ctx))
				require.NoError(t, lock.Unlock(ctx))
				assert.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			}
			settle()
			assert.Equal(t, nodes, c.keys(), "the number of permits on each node")
		})
	}
}

// Per-node counting would let three in.
func TestClientsThatReachDifferentPairsOfNodesHoldNoMoreThanTheNumber(t *testing.T) {
	for range 20 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			held := 0
			for away := range 3 {
				s := c.permits("s", 2)
				c.servers[away].Mute(true)
				lock, err := s.TryAcquire(ctx)
				c.servers[away].Mute(false)
				settle()
				switch {
				case err == nil:
					held++
					assert.NoError(t, lock.Verify(ctx))
				default:
					assert.ErrorIs(t, err, redlock.ErrTaken)
				}
			}
			assert.Equal(t, 2, held)
		})
	}
}

// Each node gives the caller the slot that the two others do not have.
func TestNodesThatGiveDifferentSlotsAreAskedForOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		// Left behind by crashed clients: slots 1, 2 and 3 are taken at one node each.
		for i := range c.servers {
			c.do(i, "SET", fmt.Sprint("s#", i+1), "crashed", "PX", 5000)
			c.do(i, "SET", "redquorum:permits:s", "3", "PX", 60_000)
		}
		s := c.permits("s", 3)
		for range 3 {
			lock, err := s.TryAcquire(ctx)
			require.NoError(t, err)
			settle()
			count := 0
			for slot := range 3 {
				for _, value := range c.holders(fmt.Sprint("s#", slot+1)) {
					if value == lock.Value() {
						count++
						assert.Equal(t, lock.Name(), fmt.Sprint("s#", slot+1), "no other slot")
					}
				}
			}
			assert.GreaterOrEqual(t, count, 2)
		}
		_, err := s.TryAcquire(ctx)
		assert.ErrorIs(t, err, redlock.ErrTaken)
	})
}

func TestTheSlotsOfACrashedHolderAreFreeAtItsTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		s := c.permits("s", 2, redlock.WithTTL(time.Second))
		_, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		_, err = s.TryAcquire(ctx)
		require.NoError(t, err)
		other := c.permits("s", 2)
		began := time.Now()
		for range 2 {
			_, err = other.Acquire(ctx)
			require.NoError(t, err)
		}
		assert.InDelta(t, time.Second, time.Since(began), float64(20*time.Millisecond))
	})
}

func TestAnotherNumberOfPermitsIsRefusedWhileOneIsHeld(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.permits("s", 2).TryAcquire(ctx)
		require.NoError(t, err)
		s := c.permits("s", 5)
		for _, acquire := range []func(context.Context, ...redlock.LockOption) (*redlock.Lock, error){s.TryAcquire, s.Acquire} {
			_, err = acquire(ctx)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.ErrorContains(t, err, `semaphore "s" has 2 permits at a quorum of nodes, not 5`)
		}
		require.NoError(t, lock.Unlock(ctx))
		settle()
		lock, err = s.TryAcquire(ctx)
		require.NoError(t, err, "nobody holds one")
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestANodeThatKnowsAnotherNumberRefuses(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		knows := func(i int) {
			c.do(i, "SET", "s#7", "somebody", "PX", 60_000)
			c.do(i, "SET", "redquorum:permits:s", "7", "PX", 600_000)
		}
		knows(0)
		s := c.permits("s", 1)
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err, "the others are a quorum")
		c.servers[1].Mute(true)
		_, err = c.permits("s", 1).TryAcquire(ctx)
		require.ErrorIs(t, err, redlock.ErrTaken, "only one node has another number")
		c.servers[1].Mute(false)
		settle()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = s.Acquire(short)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, lock.Unlock(ctx))
	})
}

// The answers of two nodes show that no slot can have a quorum, and not yet why.
func TestTheAnswerThatTellsAboutAnotherNumberIsAwaited(t *testing.T) {
	for slow := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for i, slots := range []string{"1", "7", "7"} {
				c.do(i, "SET", "s#"+slots, "somebody", "PX", 60_000)
				c.do(i, "SET", "redquorum:permits:s", slots, "PX", 60_000)
			}
			s := c.permits("s", 1)
			c.servers[slow].Delay(func() time.Duration { return time.Millisecond }, nil)
			_, err := s.TryAcquire(ctx)
			require.ErrorIs(t, err, redlock.ErrInvalid)
		})
	}
}

func TestAPermitIsRenewedWithTheNumber(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		s, err := l.Semaphore("s", 2)
		require.NoError(t, err)
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		mutex, err := l.TryLock(ctx, "m")
		require.NoError(t, err)
		for i := range c.servers {
			c.do(i, "PEXPIRE", "redquorum:permits:s", 10_000)
		}
		c.do(2, "DEL", lock.Name()) // set again by an extension
		before := c.commands()
		time.Sleep(20 * time.Second)
		assert.Less(t, c.commands()-before, 2*3*60, "in the batches of the mutex")
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, mutex.Verify(ctx))
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders(lock.Name())))
		assert.Equal(t, []string{"2"}, uniq(c.holders("redquorum:permits:s")))
		// A quorum that knows another number has forgotten that it gave this permit.
		for i := range 2 {
			c.do(i, "SET", "redquorum:permits:s", "7", "PX", 600_000)
		}
		require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrLost)
		require.NoError(t, mutex.Verify(ctx))
	})
}

func TestFencingOrdersTheHoldersOfASlot(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		s := c.permits("s", 2, redlock.WithFencing())
		last := map[string]int64{}
		for range 10 {
			lock, err := s.TryAcquire(ctx)
			require.NoError(t, err)
			assert.Greater(t, lock.Fence(), last[lock.Name()])
			last[lock.Name()] = lock.Fence()
			require.NoError(t, lock.Unlock(ctx))
			settle()
		}
	})
}

func TestBadArgumentsForASemaphoreAreRefused(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		for name, permits := range map[string]int{"": 1, string(make([]byte, 4092)): 1, "redquorum:s": 1, "a": 0, "b": -1, "c": 1025} {
			_, err := l.Semaphore(name, permits)
			assert.ErrorIs(t, err, redlock.ErrInvalid, "%.10q %d", name, permits)
		}
		for _, name := range []string{string(make([]byte, 4091)), "s"} {
			s, err := l.Semaphore(name, 1024)
			require.NoError(t, err)
			lock, err := s.TryAcquire(ctx)
			require.NoError(t, err)
			_, err = l.Inspect(ctx, lock.Name())
			require.NoError(t, err)
			for _, acquire := range []func(context.Context, ...redlock.LockOption) (*redlock.Lock, error){s.TryAcquire, s.Acquire} {
				_, err = acquire(ctx, redlock.WithValue("v"))
				require.ErrorIs(t, err, redlock.ErrInvalid)
				_, err = acquire(ctx, redlock.WithMinHold(time.Second))
				require.ErrorIs(t, err, redlock.ErrInvalid)
				_, err = acquire(nil)
				require.ErrorIs(t, err, redlock.ErrInvalid)
			}
		}
	})
}
