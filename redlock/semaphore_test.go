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

// permit acquires a permit that must be free.
func (c *cluster) permit(s *redlock.Semaphore, opts ...redlock.LockOption) *redlock.Lock {
	c.t.Helper()
	lock, err := s.TryAcquire(ctx, opts...)
	require.NoError(c.t, err)
	return lock
}

// acquiring is a call of Acquire that waits.
func (c *cluster) acquiring(s *redlock.Semaphore) <-chan *redlock.Lock {
	c.t.Helper()
	return c.queued(func() (*redlock.Lock, error) { return s.Acquire(ctx) })
}

// numbered lets a node know a number of permits, because somebody holds one of them.
func (c *cluster) numbered(n int, node int) {
	c.t.Helper()
	c.set(fmt.Sprint("s#", n), "somebody", time.Minute, node)
	c.set("redquorum:permits:s", fmt.Sprint(n), 10*time.Minute, node)
}

func TestASemaphoreLetsItsNumberIn(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			s, other := c.permits("s", 3), c.permits("s", 3)
			locks := []*redlock.Lock{c.permit(s), c.permit(s), c.permit(s)}
			assert.Equal(t, []string{"s#1", "s#2", "s#3"}, uniq([]string{locks[0].Name(), locks[1].Name(), locks[2].Name()}))
			settle() // until no node has anything beside the three slots
			for _, s := range []*redlock.Semaphore{s, other} {
				_, err := s.TryAcquire(ctx)
				require.ErrorIs(t, err, redlock.ErrTaken)
			}
			c.unlock(locks[1])
			settle()
			lock := c.permit(other)
			assert.Equal(t, locks[1].Name(), lock.Name(), "the slot that is free")
			for _, lock := range []*redlock.Lock{locks[0], locks[2], lock} {
				require.NoError(t, lock.Verify(ctx))
				c.unlock(lock)
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

func TestAnotherNumberOfPermitsIsRefusedWhileOneIsHeld(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.permit(c.permits("s", 2))
		s := c.permits("s", 5)
		for _, acquire := range []func(context.Context, ...redlock.LockOption) (*redlock.Lock, error){s.TryAcquire, s.Acquire} {
			_, err := acquire(ctx)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.ErrorContains(t, err, `semaphore "s" has 2 permits at a quorum of nodes, not 5`)
		}
		c.unlock(lock)
		settle()
		c.unlock(c.permit(s)) // nobody holds one
	})
}

func TestANodeThatKnowsAnotherNumberRefuses(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.numbered(7, 0)
		s := c.permits("s", 1)
		lock := c.permit(s) // the others are a quorum
		c.servers[1].Mute(true)
		_, err := c.permits("s", 1).TryAcquire(ctx)
		require.ErrorIs(t, err, redlock.ErrTaken, "only one node has another number")
		c.servers[1].Mute(false)
		settle()
		_, err = s.Acquire(c.within(time.Second))
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.unlock(lock)
	})
}

// The answers of two nodes show that no slot can have a quorum, and not yet why.
func TestTheAnswerThatTellsAboutAnotherNumberIsAwaited(t *testing.T) {
	for slow := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for i, permits := range []int{1, 7, 7} {
				c.numbered(permits, i)
			}
			s := c.permits("s", 1)
			c.each(delaying(time.Millisecond, 0), slow)
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
		lock, mutex := c.permit(s), c.lock(l, "m")
		for i := range c.servers {
			c.do(i, "PEXPIRE", "redquorum:permits:s", 10_000)
		}
		c.del(lock.Name(), 2) // set again by an extension
		before := c.commands()
		time.Sleep(20 * time.Second)
		assert.Less(t, c.commands()-before, 2*3*60, "in the batches of the mutex")
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, mutex.Verify(ctx))
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders(lock.Name())))
		assert.Equal(t, []string{"2"}, uniq(c.holders("redquorum:permits:s")))
		// A quorum that knows another number has forgotten that it gave this permit.
		c.set("redquorum:permits:s", "7", 10*time.Minute, 0, 1)
		require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrLost)
		require.NoError(t, mutex.Verify(ctx))
	})
}

func TestWaitersForPermitsAreServedInOrderAndWithoutPolling(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		for _, lockers := range []int{1, 4, 8} {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				var semaphores []*redlock.Semaphore
				for range lockers {
					semaphores = append(semaphores, c.permits("s", 2, rarely))
				}
				held := []*redlock.Lock{c.permit(semaphores[0]), c.permit(semaphores[0])}
				var got []<-chan *redlock.Lock
				for i := range 8 {
					got = append(got, c.acquiring(semaphores[i%lockers]))
				}
				for i := range got { // one permit and the other by turns
					began := time.Now()
					c.unlock(held[i%2])
					held[i%2] = <-got[i]
					assert.Less(t, time.Since(began), 5*time.Millisecond)
				}
				c.unlock(held...)
				c.leavesNothing(3*time.Minute + time.Second) // the life of the list
			})
		}
	}
}

// Also if that node is the pilot.
func TestWaitersForPermitsAreServedBesideANodeThatKnowsAnotherNumber(t *testing.T) {
	for other := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.numbered(7, other)
			lock := c.permit(c.permits("s", 1))
			settle()
			var got []<-chan *redlock.Lock
			for range 3 {
				got = append(got, c.acquiring(c.permits("s", 1)))
			}
			began := time.Now()
			for _, next := range got {
				c.unlock(lock)
				lock = <-next
			}
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

// The pilot need not be among the nodes that the first round was decided by.
func TestWaitersForPermitsQueueAtOneNodeWhicheverIsSlow(t *testing.T) {
	var at []int // the nodes where both waiters were
	for slow := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.each(delaying(time.Millisecond, time.Millisecond), slow)
			lock := c.permit(c.permits("s", 1))
			one, two := c.permits("s", 1), c.permits("s", 1)
			time.Sleep(100 * time.Millisecond) // all of them are connected to all nodes
			first, second := c.acquiring(one), c.acquiring(two)
			for i := range c.servers {
				if c.do(i, "ZCARD", "redquorum:permit:wait:s") == int64(2) {
					at = append(at, i)
				}
			}
			c.unlock(lock)
			c.unlock(<-first)
			c.unlock(<-second)
		})
	}
	require.Len(t, at, 3)
	assert.Equal(t, []int{at[0], at[0], at[0]}, at)
}

// Two processes that take turns: the one that has just given its permit back does not overtake.
func TestAHolderThatWantsAPermitAgainQueuesBehindTheWaiter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		semaphores := []*redlock.Semaphore{c.permits("s", 1), c.permits("s", 1)}
		asks := func(i int) <-chan *redlock.Lock {
			return c.background(func() (*redlock.Lock, error) { return semaphores[i%2].Acquire(ctx) })
		}
		lock, next := c.permit(semaphores[0]), asks(1)
		for i := range 20 {
			time.Sleep(20 * time.Millisecond)
			c.unlock(lock)
			again := asks(i)
			lock = <-next
			assert.Empty(t, again, "turn %d", i)
			next = again
		}
		c.unlock(lock)
		c.unlock(<-next)
	})
}
