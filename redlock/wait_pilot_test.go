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
