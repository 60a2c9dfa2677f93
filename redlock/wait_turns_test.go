package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

// over returns a Locker that lists the nodes in the given order and cannot reach some of them.
func (c *cluster) over(order []int, unreachable ...int) *redlock.Locker {
	c.t.Helper()
	var endpoints []string
	for _, i := range order {
		endpoints = append(endpoints, fmt.Sprintf("node%d:6379", i))
	}
	dial := c.dialer()
	l, err := redlock.New(endpoints, redlock.WithClock(c.clock), redlock.WithoutRenewal(),
		redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			for _, i := range unreachable {
				if address == fmt.Sprintf("node%d:6379", i) {
					return nil, errors.New("no route to the node")
				}
			}
			return dial(ctx, network, address)
		})))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, l.Close()) })
	settle()
	return l
}

// lockers returns some Lockers.
func (c *cluster) lockers(n int) (all []*redlock.Locker) {
	for range n {
		all = append(all, c.locker())
	}
	return all
}

// takeTurns makes each Locker acquire a lock for a number of rounds, and asserts that no two hold
// it at once and that all get it.
func takeTurns(t *testing.T, lockers []*redlock.Locker, rounds int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	holders := 0
	for _, l := range lockers {
		all.Go(func() {
			for range rounds {
				lock, err := l.Lock(ctx, "a")
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				holders++
				assert.Equal(t, 1, holders)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				assert.NoError(t, lock.Unlock(ctx))
			}
		})
	}
	all.Wait()
}

func TestClientsThatListTheNodesInDifferentOrdersAgreeOnThePilot(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lockers := []*redlock.Locker{
			c.over([]int{0, 1, 2, 3, 4}), c.over([]int{4, 3, 2, 1, 0}), c.over([]int{2, 0, 4, 1, 3}),
		}
		takeTurns(t, lockers, 20)
		for _, l := range lockers {
			assert.Zero(t, l.Stats().Polls, "every waiter was woken")
		}
	})
}

func TestClientsThatDisagreeAboutWhichNodesAreUpExcludeEachOther(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		var lockers []*redlock.Locker
		for i := range 5 {
			lockers = append(lockers, c.over([]int{0, 1, 2, 3, 4}, i, (i+1)%5))
		}
		assert.Less(t, elapsed(func() { takeTurns(t, lockers, 20) }), 2*time.Second)
	})
}

func TestANodeInQuarantineIsNotAPilot(t *testing.T) {
	for restarted := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.grown()
			c.slow(time.Millisecond)
			lockers := c.lockers(3)
			takeTurns(t, lockers, 5)
			c.servers[restarted].Kill()
			c.servers[restarted].Restart(false)
			time.Sleep(time.Second)
			polls := lockers[0].Stats().Polls
			takeTurns(t, lockers, 5)
			assert.LessOrEqual(t, lockers[0].Stats().Polls, polls+1)
		})
	}
}

// Each Locker waits a node timeout (0.5 s) when it first finds the pilot mute, and again each time
// it retries that node. A waiter that its wake-up did not reach waits for a poll.
func TestAMutePilotDelaysWaitersOnce(t *testing.T) {
	for silent := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			lockers := c.lockers(2)
			takeTurns(t, lockers, 2)
			c.each(mute, silent)
			assert.Less(t, elapsed(func() { takeTurns(t, lockers, 20) }), 5*time.Second)
			c.each(unmute, silent)
			c.leavesNothing(15 * time.Second)
		})
	}
}

func TestASlowPilotDoesNotDelayEveryTurn(t *testing.T) {
	for slow := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.each(delaying(100*time.Millisecond, 100*time.Millisecond), slow)
			lockers := c.lockers(8)
			took := elapsed(func() { takeTurns(t, lockers, 20) })
			assert.Less(t, took, 5*time.Second, "160 turns of 3 ms, and a few slow replies")
		})
	}
}

// All that reaches a client is late for a moment, as when its process was not run. It keeps its
// pilot: with pilots of their own, the clients would split the votes for as long as they disagree.
func TestAShortStallDoesNotMakeClientsDisagreeOnThePilot(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var stalled atomic.Bool
		c.slow(time.Millisecond)
		c.each(func(n *fake.Node) {
			n.Delay(nil, func() time.Duration {
				if stalled.Load() {
					return 100 * time.Millisecond
				}
				return time.Millisecond
			})
		})
		lockers := c.lockers(4)
		takeTurns(t, lockers, 5)
		before := splits(lockers)
		var all sync.WaitGroup
		all.Go(func() {
			for range 5 {
				stalled.Store(true)
				time.Sleep(500 * time.Microsecond)
				stalled.Store(false)
				time.Sleep(300 * time.Millisecond)
			}
		})
		takeTurns(t, lockers, 150)
		all.Wait()
		assert.LessOrEqual(t, splits(lockers)-before, uint64(5), "one for each stall at most")
	})
}

// splits returns how many attempts got votes, but no quorum.
func splits(lockers []*redlock.Locker) (n uint64) {
	for _, l := range lockers {
		n += l.Stats().Split
	}
	return n
}

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
