package redlock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// skewed is a clock with a wrong wall time.
type skewed struct {
	clock.Clock
	by time.Duration
}

func (s *skewed) Wall() time.Time { return s.Clock.Wall().Add(s.by) }

// fences returns each node's counter for a key, 0 if there is none.
func (c *cluster) fences(key string) (fences []int64) {
	for _, server := range c.servers {
		text, _, _ := server.Get("redquorum:fence:" + key)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			n = 0
		}
		fences = append(fences, n)
	}
	return fences
}

// know loads the scripts into the nodes: the first run of each costs one more message.
func (c *cluster) know(l *redlock.Locker) {
	lock, err := l.TryLock(ctx, "known")
	require.NoError(c.t, err)
	require.NoError(c.t, lock.Unlock(ctx))
	time.Sleep(time.Second)
}

func TestAFencingTokenIsTheTimeAndCostsNoRoundTrip(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(2 * time.Millisecond)
		l := c.locker(redlock.WithFencing())
		c.know(l)
		var last int64
		for range 20 {
			began, wall := c.clock.Now(), c.clock.Wall()
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			assert.Equal(t, 2*time.Millisecond, c.clock.Now().Sub(began), "one round trip")
			assert.Equal(t, wall.UnixMicro(), lock.Fence())
			assert.Greater(t, lock.Fence(), last)
			last = lock.Fence()
			require.NoError(t, lock.Unlock(ctx))
		}
		assert.Zero(t, l.Stats().SecondRounds)
		lock, err := l.TryLock(ctx, "unfenced", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		assert.NotZero(t, lock.Fence(), "the Locker's option applies to all its locks")
	})
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a")
		require.NoError(t, err)
		assert.Zero(t, lock.Fence(), "without fencing")
		assert.ElementsMatch(t, []string{"a", pipeline.MemoryKey}, c.servers[0].Keys())
	})
}

func TestACounterOutlivesEveryLockAndExpires(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for _, test := range []struct{ maxTTL, life time.Duration }{
			{20 * time.Second, 10 * time.Minute}, {time.Hour, 10 * time.Hour},
		} {
			l := c.locker(redlock.WithFencing(), redlock.WithMaxTTL(test.maxTTL))
			name := test.maxTTL.String()
			lock, err := l.TryLock(ctx, name)
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
			_, left, _ := c.servers[0].Get("redquorum:fence:" + name)
			assert.InDelta(t, test.life, left, float64(time.Second))
		}
	})
}

// A node whose counter is ahead joins a quorum sooner or later. It raises the other counters.
func TestACounterThatIsAheadTakesOneMoreRound(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		ahead := c.clock.Wall().Add(9 * time.Second).UnixMicro()
		c.do(0, "SET", "redquorum:fence:a", ahead)
		c.servers[2].Kill() // so that node 0 is part of the quorum
		c.slow(2 * time.Millisecond)
		l := c.locker(redlock.WithFencing())
		c.know(l)
		began := c.clock.Now()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, 4*time.Millisecond, c.clock.Now().Sub(began))
		assert.Equal(t, ahead+1, lock.Fence())
		settle()
		assert.Equal(t, []int64{ahead + 1, ahead + 1}, c.fences("a")[:2])
		assert.Equal(t, uint64(1), l.Stats().SecondRounds)
	})
}

func TestAWrongClockLeavesTokensInOrder(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				wrong := c.locker(redlock.WithFencing(), redlock.WithClock(&skewed{c.clock, by}))
				right := c.locker(redlock.WithFencing())
				var last int64
				for range 5 {
					for _, l := range []*redlock.Locker{wrong, right, right, wrong, wrong} {
						lock, err := l.TryLock(ctx, "a")
						require.NoError(t, err)
						assert.Greater(t, lock.Fence(), last)
						off := time.UnixMicro(lock.Fence()).Sub(c.clock.Wall())
						assert.LessOrEqual(t, off.Abs(), 11*time.Second, "kept near the nodes' time")
						last = lock.Fence()
						require.NoError(t, lock.Unlock(ctx))
						settle()
					}
				}
				for _, l := range []*redlock.Locker{wrong, right} {
					assert.LessOrEqual(t, l.Stats().SecondRounds, l.Stats().Acquired, "one round trip more at most")
				}
			})
		})
	}
}

func TestATokenOfASetIsAboveThoseOfEachName(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		ahead := c.clock.Wall().Add(time.Minute).UnixMicro()
		for i := range c.servers {
			c.do(i, "SET", "redquorum:fence:b", ahead)
		}
		l := c.locker(redlock.WithFencing())
		lock, err := l.LockAll(ctx, []string{"a", "b", "c"})
		require.NoError(t, err)
		assert.Equal(t, ahead+1, lock.Fence())
		settle()
		for _, name := range []string{"a", "b", "c"} {
			assert.Equal(t, []int64{ahead + 1, ahead + 1, ahead + 1}, c.fences(name))
		}
		require.NoError(t, lock.Unlock(ctx))
		lock, err = l.Lock(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, ahead+2, lock.Fence())
	})
}

func TestAdoptersGetTokensOfTheirOwn(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		last := lock
		for range 5 {
			adopted, err := c.locker(redlock.WithFencing()).Adopt(ctx, "a", last.Value())
			require.NoError(t, err)
			assert.Greater(t, adopted.Fence(), last.Fence())
			last = adopted
		}
	})
}

func TestAVoteThatWasHandedOverIsFenced(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(time.Millisecond)
		a, b := c.locker(redlock.WithFencing()), c.locker(redlock.WithFencing())
		lock, err := a.Lock(ctx, "a")
		require.NoError(t, err)
		for i := range 10 {
			next := acquiring(t, []*redlock.Locker{b, a}[i%2], "a")
			time.Sleep(20 * time.Millisecond)
			last := lock.Fence()
			require.NoError(t, lock.Unlock(ctx))
			lock = <-next
			assert.Greater(t, lock.Fence(), last)
		}
		assert.Equal(t, uint64(10), a.Stats().Woken+b.Stats().Woken)
		assert.Zero(t, a.Stats().SecondRounds+b.Stats().SecondRounds)
	})
}

func TestTokensAreExactUpToTheLimitOfDoubles(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) { // with more nodes, counters do not go that high
		const large = 1<<53 - 10
		c.do(0, "SET", "redquorum:fence:a", int64(large))
		l := c.locker(redlock.WithFencing())
		for want := int64(large) + 1; want < 1<<53-1; want++ {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			require.Equal(t, want, lock.Fence())
			require.NoError(t, lock.Unlock(ctx))
		}
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, c.clock.Wall().Add(time.Minute).UnixMicro()+1, lock.Fence(), "the counter begins again")
	})
}

func TestFencingRefusesAGivenValue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing())
		_, err := l.TryLock(ctx, "a", redlock.WithValue("mine"))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		assert.Zero(t, c.keys())
	})
}

// A node is behind the token of the other, and is to be raised to it. Before it is told, somebody
// else gets that very number there.
func TestANumberThatIsInUseIsNobodyElsesToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithFencing(), redlock.WithNodeTimeout(time.Second))
		c.know(l)
		c.servers[2].Kill() // so both are needed
		settle()
		ahead := c.clock.Wall().Add(5 * time.Second).UnixMicro()
		c.do(0, "SET", "redquorum:fence:a", ahead, "PX", 600_000)
		for _, server := range c.servers {
			server.Delay(func() time.Duration { return 10 * time.Millisecond }, nil)
		}
		time.AfterFunc(15*time.Millisecond, func() { // the raise is on its way
			assert.Equal(t, ahead+1, c.fences("a")[0])
			c.servers[1].Delay(nil, nil)
			c.do(1, "SET", "redquorum:fence:a", ahead+1, "PX", 600_000)
		})
		_, err := l.TryLock(ctx, "a")
		var refused *redlock.QuorumError
		require.ErrorAs(t, err, &refused)
	})
}

func TestTokensGrowWhenAllMastersLoseTheirCounters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithFencing())
		last := c.fenced(l, "a")
		for range 3 {
			for _, server := range c.servers {
				server.FlushAll()
			}
			time.Sleep(2 * time.Minute) // longer than the quarantine
			token := c.fenced(l, "a")
			require.Greater(t, token, last)
			last = token
		}
	})
}
