package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock"
)

func TestAWaiterGetsTheNameAsItsMinimumHoldEnds(t *testing.T) {
	const d = 5 * time.Second
	for name, opts := range map[string][]redlock.LockOption{
		"a short TTL":             {redlock.WithTTL(time.Second)},
		"a TTL beyond it":         {redlock.WithTTL(time.Minute)},
		"a TTL beyond it, fenced": {redlock.WithTTL(time.Minute), redlock.WithFencing()},
	} {
		for _, nodes := range []int{1, 3, 5} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, nodes, func(t *testing.T, c *cluster) {
					c.slow(time.Millisecond)
					a, b := c.renewing(), c.renewing()
					acquired := c.clock.Now()
					lock := c.lock(a, "a", append(opts, redlock.WithMinHold(d))...)
					got := c.waiting(b, "a", redlock.WithTTL(time.Second), redlock.WithMinHold(20*time.Second))
					time.Sleep(time.Second)
					c.unlock(lock)
					second := <-got
					took := c.clock.Now().Sub(acquired)
					assert.GreaterOrEqual(t, took, d)
					assert.LessOrEqual(t, took, d+20*time.Millisecond)
					assert.LessOrEqual(t, b.Stats().Polls, uint64(5*10+1), "at most one every 100 ms")
					assert.Zero(t, a.Stats().HandedOver)
					settle()
					time.Sleep(time.Millisecond)
					for _, server := range c.servers {
						_, ttl, _ := server.Get("a")
						assert.Greater(t, ttl, 19*time.Second, "what the pilot sets, too")
					}
					c.unlock(second)
				})
			})
		}
	}
}

// A waiter that hardly polls knows when the key would end: a minute later than it does.
func TestAWaiterIsToldThatTheNameIsFreeEarlier(t *testing.T) {
	const d = 5 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		l := c.renewing(redlock.WithTTL(time.Minute), redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock := c.lock(l, "a")
		first, second := c.renewing(rarely), c.renewing(rarely)
		got := c.waiting(first, "a")
		time.Sleep(time.Second)
		later := c.waiting(second, "a", redlock.WithMinHold(d))
		time.Sleep(time.Second)
		c.unlock(lock)
		lock = <-got
		assert.LessOrEqual(t, c.clock.Now().Sub(acquired), d+20*time.Millisecond)
		assert.LessOrEqual(t, first.Stats().Polls, uint64(4))
		c.unlock(lock) // a plain release: it hands over
		lock = <-later
		assert.LessOrEqual(t, c.clock.Now().Sub(acquired), d+40*time.Millisecond)
		c.unlock(lock)
	})
}

// The holder waited before, so it may still be on a wait list. If it stayed there, a later release
// would hand the key to it.
func TestAReleaseWithinTheMinimumHoldLeavesTheWaitLists(t *testing.T) {
	const d = time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		lock := c.lock(c.renewing(), "a")
		got := c.waiting(c.renewing(redlock.WithMinHold(d)), "a")
		time.Sleep(100 * time.Millisecond)
		var member any
		for i := range c.servers {
			if all := c.do(i, "ZRANGE", "redquorum:wait:a", 0, -1).([]any); len(all) > 0 {
				member = all[0]
			}
		}
		c.unlock(lock)
		lock = <-got
		for i := range c.servers {
			c.do(i, "ZADD", "redquorum:wait:a", 1, member)
		}
		c.unlock(lock)
		time.Sleep(10 * time.Millisecond)
		for i := range c.servers {
			assert.Zero(t, c.do(i, "EXISTS", "redquorum:wait:a"))
		}
	})
}
