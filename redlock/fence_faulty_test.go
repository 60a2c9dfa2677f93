package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// nearest makes the given number of nodes answer sooner than the others.
func (c *cluster) nearest(nodes int) {
	for i, server := range c.servers {
		server.Delay(nil, nil)
		if i >= nodes {
			server.Delay(func() time.Duration { return time.Millisecond }, nil)
		}
	}
}

// fenced acquires a lock, releases it, and returns its token.
func (c *cluster) fenced(l *redlock.Locker, name string) int64 {
	c.t.Helper()
	lock, err := l.TryLock(ctx, name)
	require.NoError(c.t, err)
	require.NoError(c.t, lock.Unlock(ctx))
	settle()
	return lock.Fence()
}

// One master's clock is wrong for a while, then nobody uses the lock until its counters expire.
func TestTokensAreInOrderWhateverTheClockOfOneMasterDoes(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for _, by := range []time.Duration{-time.Hour, -25 * time.Second, 15 * time.Second, 25 * time.Second, time.Hour, 365 * 24 * time.Hour} {
			t.Run(by.String(), func(t *testing.T) {
				inBubble(t, nodes, func(t *testing.T, c *cluster) {
					l := c.locker(redlock.WithFencing())
					c.nearest(nodes/2 + 1)
					c.servers[0].SetClock(by, 1)
					var last int64
					for range 3 {
						token := c.fenced(l, "a")
						assert.Greater(t, token, last)
						off := time.UnixMicro(token).Sub(c.clock.Wall())
						assert.LessOrEqual(t, off.Abs(), 20*time.Second, "near the other clocks")
						last = token
					}
					c.servers[0].SetClock(0, 1)
					for range 3 {
						token := c.fenced(l, "a")
						assert.Greater(t, token, last)
						last = token
					}
					time.Sleep(11 * time.Minute)
					c.nearest(nodes)
					// Now it is not among the first to answer.
					c.servers[0].Delay(func() time.Duration { return time.Millisecond }, nil)
					assert.Greater(t, c.fenced(l, "a"), last)
				})
			})
		}
	}
}

func TestACounterFarAheadIsBroughtBack(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 10 * 365 * 24 * time.Hour} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing())
			c.nearest(3)
			c.do(0, "SET", "redquorum:fence:a", c.clock.Wall().Add(ahead).UnixMicro())
			last := c.fenced(l, "a")
			assert.Equal(t, last+time.Minute.Microseconds(), c.fences("a")[0], "a minute above the token")
			assert.Zero(t, l.Stats().SecondRounds)
			for range 70 {
				time.Sleep(time.Second)
				token := c.fenced(l, "a")
				assert.Greater(t, token, last)
				assert.LessOrEqual(t, time.UnixMicro(token).Sub(c.clock.Wall()), 10*time.Second)
				last = token
			}
			assert.Equal(t, last, c.fences("a")[0], "it counts again")
		})
	}
}

func TestACounterThatCannotBeReadBeginsAgain(t *testing.T) {
	for _, counter := range [][]any{
		{"SET", "redquorum:fence:a", "junk"},
		{"SET", "redquorum:fence:a", ""},
		{"SET", "redquorum:fence:a", "9007199254740990"},
		{"SET", "redquorum:fence:a", "9007199254740992", "PX", 600000},
		{"ZADD", "redquorum:fence:a", 1, "junk"},
	} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing())
			c.nearest(3)
			first := c.fenced(l, "a")
			c.do(0, "DEL", "redquorum:fence:a")
			c.do(0, counter[0].(string), counter[1:]...)
			time.Sleep(time.Second)
			second := c.fenced(l, "a")
			assert.Greater(t, second, first)
			assert.Less(t, time.UnixMicro(second).Sub(c.clock.Wall()), 10*time.Second)
			assert.InDelta(t, c.clock.Wall().Add(time.Minute).UnixMicro(), c.fences("a")[0], 1e6)
			_, left, _ := c.servers[0].Get("redquorum:fence:a")
			assert.Positive(t, left)
			time.Sleep(2 * time.Minute)
			assert.Greater(t, c.fenced(l, "a"), second)
		})
	}
}

// A quorum cannot repair two counters of three. They move ahead together, past every token granted
// before.
func TestTwoCountersOfThreeThatCannotBeReadDoNotStopALock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		last := c.fenced(l, "a")
		c.do(0, "SET", "redquorum:fence:a", "9007199254740991")
		c.do(1, "SET", "redquorum:fence:a", "x")
		for range 100 {
			token := c.fenced(l, "a")
			assert.Greater(t, token, last)
			last = token
			time.Sleep(time.Second)
		}
		assert.Less(t, time.UnixMicro(last).Sub(c.clock.Wall()), time.Second, "the clock has caught up")
	})
}

// If two counters differ and no third node answers, nothing shows which one is right.
func TestACounterFarAheadNeedsAQuorumOfOtherNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		c.do(0, "SET", "redquorum:fence:a", c.clock.Wall().Add(time.Hour).UnixMicro())
		c.servers[2].Mute(true)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "fencing token")
		settle()
		assert.Equal(t, []string{"", ""}, c.holders("a")[:2])
		c.servers[2].Mute(false)
		time.Sleep(time.Second)
		token := c.fenced(l, "a")
		assert.Less(t, time.UnixMicro(token).Sub(c.clock.Wall()), time.Second)
	})
}

// All clocks were an hour ahead and are set back together. As long as the counters are kept, they
// are a better guide than the clocks.
func TestTokensAreInOrderWhenAllClocksAreSetBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		for _, server := range c.servers {
			server.SetClock(time.Hour, 1)
		}
		last := c.fenced(l, "a")
		c.servers[2].Kill()
		last = max(last, c.fenced(l, "a"))
		for _, server := range c.servers {
			server.SetClock(0, 1)
		}
		c.servers[2].Restart(true)
		time.Sleep(time.Second)
		for i := range 10 {
			c.nearest(3)
			c.servers[i%3].Delay(func() time.Duration { return 2 * time.Millisecond }, nil)
			token := c.fenced(l, "a")
			assert.Greater(t, token, last)
			last = token
		}
	})
}
