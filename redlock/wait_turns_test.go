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

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// spin is a crowd of clients that take a lock again and again without waiting, beside one waiter.
type spin struct {
	nodes    int
	spinners int
	half     time.Duration // half a round trip
	jitter   bool
	fresh    bool // each try comes from a new process
	length   time.Duration
}

func (s spin) String() string {
	return fmt.Sprintf("%d nodes, %d spinners, %v, jitter %t, fresh %t", s.nodes, s.spinners, 2*s.half, s.jitter, s.fresh)
}

// vary returns d, or with jitter between d/2 and 3d/2.
func (s spin) vary(d time.Duration) time.Duration {
	if !s.jitter {
		return d
	}
	return d/2 + rand.N(d)
}

// try takes the lock once if it is free, calls had, and releases it after hold.
func (s spin) try(limited context.Context, t *testing.T, l *redlock.Locker, hold time.Duration, had func()) {
	lock, err := l.TryLock(limited, "a")
	if err != nil {
		return
	}
	had()
	time.Sleep(s.vary(hold))
	assert.NoError(t, lock.Unlock(ctx))
}

// run returns how often the waiter got the lock, and the most tenures of others during one of its
// waits.
func (s spin) run(c *cluster) (waits int, worst int64) {
	delay := func() time.Duration { return s.vary(s.half) }
	c.each(func(n *fake.Node) { n.Delay(delay, delay) })
	ending := time.Now().Add(s.length)
	spinning, stop := context.WithTimeout(ctx, s.length+time.Minute) // no wait takes that long
	defer stop()
	var all sync.WaitGroup
	var had atomic.Int64
	for range s.spinners {
		l := c.locker()
		all.Go(func() {
			for spinning.Err() == nil {
				try := l
				if s.fresh {
					try = c.passing()
					_ = try.Ready(spinning) //nolint:errcheck // the try fails if it must
				}
				s.try(spinning, c.t, try, 5*time.Millisecond, func() { had.Add(1) })
				if s.fresh {
					_ = try.Close()
				}
				time.Sleep(s.vary(500 * time.Microsecond))
			}
		})
	}
	waiter := c.locker()
	all.Go(func() {
		defer stop() // not before the last wait has ended
		time.Sleep(100 * time.Millisecond)
		for time.Now().Before(ending) {
			before := had.Load()
			lock, err := waiter.Lock(spinning, "a")
			if worst = max(worst, had.Load()-before); err != nil {
				return
			}
			waits++
			time.Sleep(s.vary(5 * time.Millisecond))
			assert.NoError(c.t, lock.Unlock(ctx))
		}
	})
	all.Wait()
	return waits, worst
}

// passing returns a Locker that the caller must close.
func (c *cluster) passing() *redlock.Locker {
	l, err := redlock.New(c.servers.Endpoints(), redlock.WithClock(c.clock), redlock.WithPool(pool.WithDialer(c.dialer())), redlock.WithoutRenewal())
	require.NoError(c.t, err)
	return l
}

func TestAWaiterIsNotOvertakenAgainAndAgain(t *testing.T) {
	t.Parallel()
	length := time.Duration(max(sizeOf(3, 200), 3)) * time.Second / 10
	var all []spin
	for _, nodes := range []int{3, 1, 5}[:unraced(1, 3)] {
		for _, spinners := range []int{1, 3, 8} {
			for _, half := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
				all = append(all, spin{nodes, spinners, half, false, false, length}, spin{nodes, spinners, half, true, false, length})
			}
		}
		all = append(all, spin{nodes, 3, 50 * time.Microsecond, true, false, length}, spin{nodes, 8, time.Millisecond, true, true, length})
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			inBubble(t, s.nodes, func(t *testing.T, c *cluster) {
				waits, worst := s.run(c)
				t.Log(waits, "waits, overtaken", worst)
				assert.LessOrEqual(t, worst, int64(10), "overtaken in one wait")
				assert.NotZero(t, waits)
			})
		})
	}
}

// Waiters of the same age, each with a place at every node, are in another order on each list.
// Their votes split at the first hand-over. Then they get into one order, and need no standoff.
func TestWaitersOfTheSameAgeDoNotSplitTheirVotesAgainAndAgain(t *testing.T) {
	const waiters, held = 16, 500 * time.Millisecond // so a standoff lasts 60 to 100 ms
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		first := c.lock(c.renewing(), "a")
		var lockers []*redlock.Locker
		for range waiters {
			lockers = append(lockers, c.renewing())
		}
		delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
		c.each(func(n *fake.Node) { n.Delay(delay, delay) })
		over := make(chan error, waiters)
		for _, l := range lockers {
			go func() {
				lock, err := redlock.LockOvertaken(ctx, l, "a")
				if err == nil {
					err = lock.Unlock(ctx)
				}
				over <- err
			}()
		}
		time.Sleep(held)
		c.unlock(first)
		took := elapsed(func() {
			for range waiters {
				assert.NoError(t, <-over)
			}
		})
		t.Log("all had it after", took)
		// About two standoffs. With one or more per hand-over, it took 2.1 to 20 s.
		assert.Less(t, took, 1500*time.Millisecond)
	})
}

// Without a quorum a vote is useless and goes to the next waiter, which cannot use it either.
// Passing it around must not keep the remaining nodes busy.
func TestWaitersDoNotPassAVoteAroundWithoutAQuorum(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lock := c.lock(c.locker(), "a")
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		const waiters = 3
		var ends []<-chan error
		for _, l := range c.lockers(waiters) {
			ends = append(ends, c.ending(func() error { _, err := l.Lock(limited, "a"); return err }))
		}
		time.Sleep(50 * time.Millisecond)
		for pilot, server := range c.servers {
			if _, _, found := server.Get("redquorum:wait:a"); found {
				c.each(kill, (pilot+1)%5, (pilot+2)%5, (pilot+3)%5)
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
		for _, end := range ends {
			err := <-end
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
		}
	})
}
