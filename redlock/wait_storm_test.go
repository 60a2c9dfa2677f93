package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// Without a quorum a vote is useless and goes to the next waiter, which cannot use it either.
// Passing it around must not keep the remaining nodes busy.
func TestWaitersDoNotPassAVoteAroundWithoutAQuorum(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lock, err := c.locker().Lock(ctx, "a")
		require.NoError(t, err)
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var all sync.WaitGroup
		const waiters = 3
		for range waiters {
			l := c.locker()
			all.Go(func() {
				_, err := l.Lock(limited, "a")
				assert.ErrorIs(t, err, redlock.ErrNoQuorum)
			})
		}
		time.Sleep(50 * time.Millisecond)
		for pilot, server := range c.servers {
			if _, _, found := server.Get("redquorum:wait:a"); found {
				for k := range 3 {
					c.servers[(pilot+1+k)%5].Kill()
				}
				break
			}
		}
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNoQuorum)
		before := c.commands()
		time.Sleep(10 * time.Second)
		// An attempt is a pilot request, a round and a release to each of the two remaining nodes.
		assert.LessOrEqual(t, c.commands()-before, waiters*6*100, "ten attempts per second each")
		cancel()
		all.Wait()
	})
}

// Waiters for overlapping sets are handed one name each while other waiters are handed the rest.
// Some waiter still gets its whole set.
func TestSetsThatOverlapDoNotBlockEachOther(t *testing.T) {
	skipRaced(t)
	for _, nodes := range []int{1, 5} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				for _, server := range c.servers {
					delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
					server.Delay(delay, delay)
				}
				limited, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				var all sync.WaitGroup
				var had atomic.Int32
				for range 8 {
					l := c.locker()
					for range 4 {
						all.Go(func() {
							for limited.Err() == nil {
								var names []string
								for _, i := range rand.Perm(4)[:3] {
									names = append(names, fmt.Sprint("name", i))
								}
								if lock, err := l.LockAll(limited, names); err == nil {
									had.Add(1)
									time.Sleep(rand.N(10 * time.Millisecond))
									assert.NoError(t, lock.Unlock(ctx))
								}
							}
						})
					}
				}
				all.Wait()
				// Any two of the sets overlap, so at best one is acquired every 5 ms. All waiters
				// start at once; while they are not in one order, their votes split, see places.go.
				assert.Greater(t, had.Load(), int32(150))
			})
		})
	}
}

func TestASetIsAcquiredWhileEachOfItsNamesIsContended(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		limited, cancel := context.WithTimeout(ctx, 5*time.Second) // about 25 turns of the set
		defer cancel()
		var all sync.WaitGroup
		for i := range 8 {
			l := c.locker()
			all.Go(func() {
				for {
					lock, err := l.Lock(limited, []string{"a", "b"}[i%2])
					if err != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
					assert.NoError(t, lock.Unlock(ctx))
				}
			})
		}
		l, sets := c.locker(), 0
		for limited.Err() == nil {
			if lock, err := l.LockAll(limited, []string{"a", "b"}); err == nil {
				sets++
				assert.NoError(t, lock.Unlock(ctx))
			}
		}
		all.Wait()
		assert.Greater(t, sets, 10)
	})
}

func TestNamesOfAnyBytesHaveQueuesOfTheirOwn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().LockAll(ctx, []string{"x\x00y", "z"})
		require.NoError(t, err)
		l := c.locker()
		limited, cancel := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := l.LockAll(limited, []string{"x\x00y", "z"})
			left <- err
		}()
		time.Sleep(time.Second)
		for _, free := range [][]string{{"x", "y\x00z"}, {"2\x00x\x00y\x00z"}, {"3:x\x00y1:z"}} {
			soon, stop := context.WithTimeout(ctx, time.Second)
			lock, err := l.LockAll(soon, free)
			if assert.NoError(t, err, "%q is free", free) {
				assert.NoError(t, lock.Unlock(ctx))
			}
			stop()
		}
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestAWaitWithoutAQuorumSaysSo(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.do(i, "SET", "a", "somebody's", "PX", 60_000)
		}
		l := c.locker()
		wait := func() error {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := l.Lock(soon, "a")
			return err
		}
		require.ErrorIs(t, wait(), redlock.ErrTaken)
		for i := range 3 {
			c.servers[i].Kill()
		}
		time.Sleep(time.Second)
		err := wait()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
	})
}

// ticking is a clock whose wall clock advances with every reading, as a real one does.
type ticking struct {
	clock.Clock
	ticks atomic.Int64
}

func (c *ticking) Wall() time.Time {
	return c.Clock.Wall().Add(time.Duration(c.ticks.Add(1)) * time.Microsecond)
}

func TestAWaiterGetsItsTokenWithoutASecondRound(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		opts := []redlock.Option{redlock.WithFencing(), redlock.WithClock(&ticking{Clock: c.clock})}
		a, b := c.locker(opts...), c.locker(opts...)
		lock, err := a.Lock(ctx, "a")
		require.NoError(t, err)
		for range 5 { // handed over
			got := acquiring(t, b, "a")
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, lock.Unlock(ctx))
			next := <-got
			require.NotNil(t, next)
			assert.Greater(t, next.Fence(), lock.Fence())
			lock = next
			a, b = b, a
		}
		for range 5 { // granted by the pilot on request
			got := acquiring(t, b, "a")
			time.Sleep(20 * time.Millisecond)
			for i := range c.servers {
				c.do(i, "DEL", "a")
			}
			next := <-got
			require.NotNil(t, next)
			assert.Greater(t, next.Fence(), lock.Fence())
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			lock = next
			a, b = b, a
		}
		require.NoError(t, lock.Unlock(ctx))
		assert.Zero(t, a.Stats().SecondRounds+b.Stats().SecondRounds)
	})
}
