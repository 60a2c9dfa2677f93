package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// takeTurns makes each Locker acquire a lock for a number of rounds, and asserts that no two hold
// it at once and that all get it.
func takeTurns(t *testing.T, lockers []*redlock.Locker, rounds int, lock func(*redlock.Locker) (*redlock.Lock, error)) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	holders, turns := 0, make([]int, len(lockers))
	for i, l := range lockers {
		all.Go(func() {
			for range rounds {
				lock, err := lock(l)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				holders++
				assert.Equal(t, 1, holders)
				turns[i]++
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
	for i := range turns {
		assert.Equal(t, rounds, turns[i])
	}
}

func one(l *redlock.Locker) (*redlock.Lock, error) { return l.Lock(ctx, "a") }

func TestClientsThatListTheNodesInDifferentOrdersAgreeOnThePilot(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lockers := []*redlock.Locker{
			c.over([]int{0, 1, 2, 3, 4}), c.over([]int{4, 3, 2, 1, 0}), c.over([]int{2, 0, 4, 1, 3}),
		}
		takeTurns(t, lockers, 20, one)
		for _, l := range lockers {
			assert.Zero(t, l.Stats().Polls, "every waiter was woken")
		}
	})
}

func TestClientsThatDisagreeAboutWhichNodesAreUpExcludeEachOther(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		order := []int{0, 1, 2, 3, 4}
		var lockers []*redlock.Locker
		for i := range 5 {
			lockers = append(lockers, c.over(order, i, (i+1)%5))
		}
		began := c.clock.Now()
		takeTurns(t, lockers, 20, one)
		assert.Less(t, c.clock.Now().Sub(began), 2*time.Second)
	})
}

func TestANodeInQuarantineIsNotAPilot(t *testing.T) {
	for restarted := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.grown()
			c.slow(time.Millisecond)
			lockers := []*redlock.Locker{c.locker(), c.locker(), c.locker()}
			takeTurns(t, lockers, 5, one)
			c.servers[restarted].Kill()
			c.servers[restarted].Restart(false)
			time.Sleep(time.Second)
			polls := lockers[0].Stats().Polls
			takeTurns(t, lockers, 5, one)
			assert.LessOrEqual(t, lockers[0].Stats().Polls, polls+1)
		})
	}
}

func TestSetsThatOverlapTakeTurns(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		a, b, d := c.locker(), c.locker(), c.locker()
		sets := map[*redlock.Locker][]string{a: {"x", "y"}, b: {"y", "z", "x"}, d: {"x", "w"}}
		began := c.clock.Now()
		takeTurns(t, []*redlock.Locker{a, b, d}, 20, func(l *redlock.Locker) (*redlock.Lock, error) {
			return l.LockAll(ctx, sets[l])
		})
		assert.Less(t, c.clock.Now().Sub(began), time.Second)
		time.Sleep(time.Second)
		assert.Zero(t, c.keys())
	})
}

func TestAMutePilotDelaysWaitersOnce(t *testing.T) {
	for mute := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			a, b := c.locker(), c.locker()
			takeTurns(t, []*redlock.Locker{a, b}, 2, one)
			c.servers[mute].Mute(true)
			began := c.clock.Now()
			takeTurns(t, []*redlock.Locker{a, b}, 20, one)
			// Each Locker waits a node timeout (0.5 s) when it first finds the pilot mute, and
			// again each time it retries that node. A waiter that its wake-up did not reach waits
			// for a poll.
			assert.Less(t, c.clock.Now().Sub(began), 5*time.Second)
			c.servers[mute].Mute(false)
			time.Sleep(15 * time.Second)
			assert.Zero(t, c.keys())
		})
	}
}

func TestASlowPilotDoesNotDelayEveryTurn(t *testing.T) {
	for slow := range 5 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.slow(time.Millisecond)
			c.servers[slow].Delay(func() time.Duration { return 100 * time.Millisecond }, func() time.Duration { return 100 * time.Millisecond })
			var lockers []*redlock.Locker
			for range 8 {
				lockers = append(lockers, c.locker())
			}
			began := c.clock.Now()
			takeTurns(t, lockers, 20, one)
			assert.Less(t, c.clock.Now().Sub(began), 5*time.Second, "160 turns of 3 ms, and a few slow replies")
		})
	}
}

// All that reaches a client is late for a moment, as when its process was not run. It keeps its
// pilot: with pilots of their own, the clients would split the votes for as long as they disagree.
func TestAShortStallDoesNotMakeClientsDisagreeOnThePilot(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var stalled atomic.Bool
		c.slow(time.Millisecond)
		reply := func() time.Duration {
			if stalled.Load() {
				return 100 * time.Millisecond
			}
			return time.Millisecond
		}
		for _, s := range c.servers {
			s.Delay(nil, reply)
		}
		var lockers []*redlock.Locker
		for range 4 {
			lockers = append(lockers, c.locker())
		}
		takeTurns(t, lockers, 5, one)
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
		takeTurns(t, lockers, 150, one)
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
