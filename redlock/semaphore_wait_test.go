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

// takeAll takes all permits of a semaphore.
func takeAll(t *testing.T, s *redlock.Semaphore, n int) (locks []*redlock.Lock) {
	t.Helper()
	for range n {
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		locks = append(locks, lock)
	}
	return locks
}

// queuing starts waiters one after the other, each on the semaphore that of returns for it. They
// hold their permit for a while; the order in which they got it is sent once all are done.
func queuing(t *testing.T, n int, hold time.Duration, of func(i int) *redlock.Semaphore) <-chan []int {
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			lock, err := of(i).Acquire(ctx)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			time.Sleep(hold)
			assert.NoError(t, lock.Unlock(ctx))
		})
		time.Sleep(10 * time.Millisecond)
	}
	done := make(chan []int, 1)
	go func() {
		all.Wait()
		done <- order
	}()
	return done
}

func TestWaitersForPermitsAreServedInOrderAndWithoutPolling(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		for _, lockers := range []int{1, 4, 8} {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				var all []*redlock.Locker
				var semaphores []*redlock.Semaphore
				for range lockers {
					l := c.locker(redlock.WithRetry(time.Minute, time.Minute))
					s, err := l.Semaphore("s", 2)
					require.NoError(t, err)
					all, semaphores = append(all, l), append(semaphores, s)
				}
				held := takeAll(t, semaphores[0], 2)
				order := queuing(t, 8, 0, func(i int) *redlock.Semaphore { return semaphores[i%lockers] })
				began := time.Now()
				require.NoError(t, held[0].Unlock(ctx))
				assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, <-order)
				assert.Less(t, time.Since(began), 100*time.Millisecond)
				require.NoError(t, held[1].Unlock(ctx))
				for _, l := range all {
					stats := l.Stats()
					assert.Zero(t, stats.Polls)
					assert.Zero(t, stats.Waiting)
					assert.Zero(t, stats.Held)
				}
				time.Sleep(3*time.Minute + time.Second) // the life of the list
				assert.Equal(t, nodes, c.keys(), "the number of permits on each node")
			})
		}
	}
}

func TestReleasedPermitsAreHandedOverAtOnce(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		const roundTrip = 2 * time.Millisecond
		c.slow(roundTrip)
		l := c.locker()
		s, err := l.Semaphore("s", 3)
		require.NoError(t, err)
		held := takeAll(t, s, 3)
		settle()
		waiting := c.permits("s", 3, redlock.WithRetry(time.Minute, time.Minute))
		got := make(chan *redlock.Lock, 3)
		for range 3 {
			go func() {
				lock, err := waiting.Acquire(ctx)
				assert.NoError(t, err)
				got <- lock
			}()
			time.Sleep(10 * roundTrip)
		}
		began := time.Now()
		require.NoError(t, held[1].Unlock(ctx))
		lock := <-got
		// The release, the message, and the round that confirms.
		assert.LessOrEqual(t, time.Since(began), 2*roundTrip)
		assert.Equal(t, held[1].Name(), lock.Name())
		assert.NotZero(t, l.Stats().HandedOver)
		require.NoError(t, held[0].Unlock(ctx))
		require.NoError(t, held[2].Unlock(ctx))
		<-got
		<-got
		assert.Less(t, time.Since(began), 20*roundTrip)
	})
}

func TestAWaiterForAPermitThatGivesUpLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		s, other := c.permits("s", 1), c.permits("s", 1)
		held := takeAll(t, s, 1)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := other.Acquire(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.ErrorContains(t, err, `acquire "s"`)
		settle()
		for i := range c.servers {
			assert.Zero(t, c.do(i, "EXISTS", "redquorum:permit:wait:s"))
		}
		require.NoError(t, held[0].Unlock(ctx))
		settle()
		_, err = s.TryAcquire(ctx)
		require.NoError(t, err, "nothing was handed to it")
	})
}

func TestALostMessageAboutAPermitIsMadeUpForByAPoll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, server := range c.servers {
			server.RefuseWith("NOPERM this user has no permissions", "PUBLISH", "SUBSCRIBE")
		}
		s, other := c.permits("s", 2), c.permits("s", 2)
		held := takeAll(t, s, 2)
		order := queuing(t, 1, 0, func(int) *redlock.Semaphore { return other })
		require.NoError(t, held[0].Unlock(ctx))
		began := time.Now()
		assert.Equal(t, []int{0}, <-order)
		assert.LessOrEqual(t, time.Since(began), 300*time.Millisecond, "the first poll")
	})
}

func TestWaitersForPermitsSurviveTheLossOfTheirPilot(t *testing.T) {
	for away := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			s := c.permits("s", 2)
			held := takeAll(t, s, 2)
			semaphores := []*redlock.Semaphore{c.permits("s", 2), c.permits("s", 2), c.permits("s", 2)}
			order := queuing(t, 3, 0, func(i int) *redlock.Semaphore { return semaphores[i] })
			c.servers[away].Kill()
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			for _, lock := range held {
				require.NoError(t, lock.Unlock(ctx))
			}
			assert.Len(t, <-order, 3)
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

func TestHooksAndStatsTellOfPermits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		var holder, waiter diary
		hooks := waiter.calls()
		hooks.Refused = func(name string, _ error) { waiter.note("refused %s", name) }
		a, b := c.locker(holder.hooks()), c.locker(redlock.WithHooks(hooks))
		mine, err := a.Semaphore("s", 1)
		require.NoError(t, err)
		others, err := b.Semaphore("s", 1)
		require.NoError(t, err)
		first, err := mine.TryAcquire(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"acquired s#1"}, holder.take())
		order := queuing(t, 1, 0, func(int) *redlock.Semaphore { return others })
		require.NoError(t, first.Unlock(ctx))
		<-order
		settle()
		assert.Equal(t, []string{"released s#1", "handed s"}, holder.take())
		assert.Equal(t, []string{"refused s", "waiting s", "acquired s#1", "waited s#1", "released s#1"}, waiter.take())
		assert.Equal(t, uint64(1), a.Stats().HandedOver)
		stats := b.Stats()
		assert.Equal(t, []uint64{1, 1, 1}, []uint64{stats.Acquired, stats.Waits, stats.Woken})
	})
}

func TestClosingALockerGivesItsPermitsToOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		s, err := l.Semaphore("s", 2)
		require.NoError(t, err)
		held := takeAll(t, s, 2)
		waits := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx)
			waits <- err
		}()
		other := c.permits("s", 2, redlock.WithRetry(time.Minute, time.Minute))
		order := queuing(t, 2, time.Second, func(int) *redlock.Semaphore { return other })
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-waits, redlock.ErrClosed)
		require.ErrorIs(t, held[0].Err(), redlock.ErrReleased)
		_, err = s.TryAcquire(ctx)
		require.ErrorIs(t, err, redlock.ErrClosed)
		assert.Len(t, <-order, 2)
	})
}

// The pilot need not be among the nodes that the first round was decided by.
func TestWaitersForPermitsQueueAtOneNodeWhicheverIsSlow(t *testing.T) {
	at := map[int]int{} // how often all waiters were at a node
	for slow := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.servers[slow].Delay(func() time.Duration { return time.Millisecond }, func() time.Duration { return time.Millisecond })
			held := takeAll(t, c.permits("s", 1), 1)
			semaphores := []*redlock.Semaphore{c.permits("s", 1), c.permits("s", 1)}
			time.Sleep(100 * time.Millisecond) // all of them are connected to all nodes
			order := queuing(t, 2, 0, func(i int) *redlock.Semaphore { return semaphores[i] })
			for i := range c.servers {
				if c.do(i, "ZCARD", "redquorum:permit:wait:s") == int64(2) {
					at[i]++
				}
			}
			require.NoError(t, held[0].Unlock(ctx))
			assert.Equal(t, []int{0, 1}, <-order)
		})
	}
	assert.Len(t, at, 1, "%v", at)
	for _, times := range at {
		assert.Equal(t, 3, times)
	}
}

// Two processes that take turns: the one that has just given its permit back does not overtake.
func TestAHolderThatWantsAPermitAgainQueuesBehindTheWaiter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 2 {
			s := c.permits("s", 1)
			all.Go(func() {
				for range 10 {
					lock, err := s.Acquire(ctx)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
					assert.NoError(t, lock.Unlock(ctx))
				}
			})
		}
		all.Wait()
		for i := 2; i < len(order)-2; i++ {
			assert.NotEqual(t, order[i], order[i-1], "turn %d of %v", i, order)
		}
	})
}
