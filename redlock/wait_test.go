package redlock_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestAHandOverCostsElevenCommandsAndSixProofs(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Slow(time.Millisecond)
		a, b := c.Locker(), c.Locker()
		lock := c.Lock(a, "a")
		next := c.Waiting(b, "a")
		const rounds = 20
		before, proven := 0, 0
		for i := range rounds {
			if i == 2 { // the first clients are still joining the queue
				before, proven = c.Commands(), c.Proofs()
			}
			other := []*redlock.Locker{a, b}[i%2]
			c.Unlock(lock)
			after := c.Waiting(other, "a")
			lock = <-next
			next = after
		}
		// A release to all nodes, a round to all nodes, and one request to the coordinator.
		assert.Equal(t, (rounds-2)*(5+5+1), c.Commands()-before)
		assert.Equal(t, (rounds-2)*(5+1), c.Proofs()-proven, "of the round and of the coordinator request")
		c.Unlock(lock)
		c.Unlock(<-next)
	})
}

func TestALockThatAForeignClientReleasesIsFoundByPolling(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Set("a", "foreign", time.Minute)
		got := c.Waiting(c.Locker(redlock.WithRetry(100*time.Millisecond, 400*time.Millisecond)), "a")
		time.Sleep(3 * time.Second)
		c.Del("a")
		took := virtual.Elapsed(func() { c.Unlock(<-got) })
		assert.LessOrEqual(t, took, 410*time.Millisecond)
	})
}

func TestAWaiterThatLeavesAsItGetsTheVoteHandsItOn(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Slow(time.Millisecond)
		a, b, d := c.Locker(), c.Locker(), c.Locker()
		lock := c.Lock(a, "a")
		leaving, cancel := context.WithCancel(ctx)
		defer cancel()
		left := c.Ending(func() error { _, err := b.Lock(leaving, "a"); return err })
		time.Sleep(20 * time.Millisecond)
		got := c.Waiting(d, "a")
		c.Each(func(n *fakeredis.Node) { // the vote is b's before b knows
			n.OnCommand(func(command fakeredis.Command) {
				if command.Args[0] == "EVALSHA" && len(command.Args) == 6 { // a release
					cancel()
				}
			})
		})
		c.Unlock(lock)
		require.ErrorIs(t, <-left, context.Canceled)
		time.Sleep(10 * time.Millisecond)
		require.Len(t, got, 1, "the vote is handed on")
		c.Unlock(<-got)
	})
}

// endedContext says that it has ended, and its Done is not closed yet.
type endedContext struct {
	context.Context //nolint:containedctx // the parent, as in the contexts of the standard library

	ended atomic.Bool
}

func (c *endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// It has no failure to tell of then, only the end of its context.
func TestAWaiterWhoseContextEndsAsItsTurnComesSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		c.Each(virtual.Kill)
		time.Sleep(time.Second)
		firstContext, cancel := context.WithCancel(ctx)
		secondContext := &endedContext{Context: ctx}
		first := c.Ending(func() error { _, err := l.Lock(firstContext, "a"); return err })
		synctest.Wait()
		second := c.Ending(func() error { _, err := l.Lock(secondContext, "a"); return err })
		synctest.Wait()
		secondContext.ended.Store(true)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.ErrorIs(t, <-second, context.Canceled)
	})
}

// A monitor receives every message but does not wait. Beside it, too, waiters whose process was
// killed are skipped at once. Only where PUBSUB is forbidden as well does a dead waiter get the
// vote, because nothing tells it from the monitor then.
func TestDeadWaitersCostNothingBesideAMonitor(t *testing.T) {
	const roundTrip = 2 * time.Millisecond
	for _, test := range []struct {
		monitored, forbidden bool
		most                 time.Duration
	}{
		{false, false, 2 * roundTrip},
		{true, false, 2 * roundTrip},
		{false, true, 2 * roundTrip},
		{true, true, 2 * time.Second}, // the graces and a poll
	} {
		runBubble(t, fmt.Sprintf("%+v", test), 5, func(t *testing.T, c *cluster) {
			c.Slow(roundTrip)
			lock := c.Lock(c.Locker(), "a")
			for i := range c.Servers {
				if test.monitored {
					c.Monitor(i)
				}
				if test.forbidden {
					c.Deny(i, "pubsub")
				}
				for dead := range 5 {
					c.Do(i, "ZADD", "redquorum:wait:a", dead+1, fmt.Sprintf("DEAD%d:value%d", dead, dead))
				}
			}
			got := c.Waiting(c.Locker(), "a")
			c.Unlock(lock)
			took := virtual.Elapsed(func() { lock = <-got })
			assert.LessOrEqual(t, took, test.most)
			c.Unlock(lock)
		})
	}
}

// A name may contain any bytes, and any number of nodes can form a quorum: the lock is handed over
// and fenced all the same, and the keys beside it expire.
func TestALockOfAnyNameOnAnyNumberOfNodesIsHandedOver(t *testing.T) {
	names := []string{"a", "redis:|\x00\r\n\xff\xfe", strings.Repeat("\xff", 4096)}
	for _, nodes := range []int{1, 2, 4, 64} {
		runBubble(t, fmt.Sprint(nodes), nodes, func(t *testing.T, c *cluster) {
			c.Slow(time.Millisecond)
			opts := []redlock.Option{redlock.WithFencing(), redlock.WithKeyPrefix("p|:\x00")}
			holder, waiter := c.Locker(opts...), c.Locker(opts...)
			for _, name := range names {
				lock := c.Lock(holder, name)
				for range 4 {
					got := c.Waiting(waiter, name)
					c.Unlock(lock)
					next := <-got
					require.NotNil(t, next)
					assert.Greater(t, next.Fence(), lock.Fence(), "%.20q", name)
					lock, holder, waiter = next, waiter, holder
				}
				c.Unlock(lock)
			}
			assert.Zero(t, holder.Stats().Polls+waiter.Stats().Polls)
			assert.Equal(t, uint64(12), holder.Stats().Woken+waiter.Stats().Woken)
			time.Sleep(time.Second)
			for _, server := range c.Servers {
				for _, key := range server.Keys() {
					if key == pipeline.MemoryKey || key == pipeline.RegisterKey {
						continue
					}
					_, left, _ := server.Get(key)
					assert.Positive(t, left, "%.20q", key)
					assert.Contains(t, key, "redquorum:fence:")
				}
			}
		})
	}
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
		c.Slow(time.Millisecond)
		opts := []redlock.Option{redlock.WithFencing(), redlock.WithClock(&ticking{Clock: c.Clock})}
		a, b := c.Locker(opts...), c.Locker(opts...)
		lock := c.Lock(a, "a")
		for i := range 10 {
			got := c.Waiting(b, "a")
			if i < 5 {
				c.Unlock(lock) // it is handed over
			} else {
				c.Del("a") // the coordinator grants it on request
			}
			next := <-got
			require.NotNil(t, next)
			assert.Greater(t, next.Fence(), lock.Fence())
			if i >= 5 {
				require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			}
			lock = next
			a, b = b, a
		}
		c.Unlock(lock)
		assert.Zero(t, a.Stats().SecondRounds+b.Stats().SecondRounds)
	})
}

// lagging is the connection of a process that is slow to read.
type lagging struct{ net.Conn }

func (c lagging) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(5 * time.Millisecond)
	return n, err
}

// lagging returns a Locker whose connections lag.
func (c *cluster) lagging() *redlock.Locker {
	dial := c.Dialer()
	return c.Locker(redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return lagging{conn}, err
	})))
}

// A client that releases a set and wants one of its names again queues behind the waiter to which
// the release handed that name.
func TestNoClientOvertakesTheWaiterForAnyNameOfASet(t *testing.T) {
	for _, set := range [][]string{{"y"}, {"y", "x"}, {"x", "y"}} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.Slow(time.Millisecond)
			holder, waiter := c.Locker(), c.lagging()
			lock, err := holder.LockAll(ctx, set)
			require.NoError(t, err)
			virtual.Settle()
			first := c.Waiting(waiter, "y")
			time.Sleep(80 * time.Millisecond)
			c.Unlock(lock)
			virtual.Settle()
			// The vote has been handed over, and its message is on the way.
			time.Sleep(time.Millisecond)
			again := c.Background(func() (*redlock.Lock, error) { return holder.Lock(ctx, "y") })
			select {
			case lock = <-first:
			case <-again:
				require.Fail(t, "overtaken", "%q", set)
			}
			c.Unlock(lock)
			c.Unlock(<-again)
		})
	}
}
