package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// fencing returns a Locker whose locks have tokens, and whose clock is wrong by that much.
func (c *cluster) fencing(by time.Duration) *redlock.Locker {
	c.T.Helper()
	return c.Locker(redlock.WithFencing(), redlock.WithClock(&virtual.Skewed{Clock: c.Clock, By: by}))
}

// fences returns each node's counter for a key, 0 if there is none.
func (c *cluster) fences(key string) (fences []int64) {
	for _, server := range c.Servers {
		text, _, _ := server.Get("redquorum:fence:" + key)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			n = 0
		}
		fences = append(fences, n)
	}
	return fences
}

// fenced acquires a lock, releases it, and returns its token, which must be above the last one.
func (c *cluster) fenced(l *redlock.Locker, last int64) int64 {
	c.T.Helper()
	lock := c.Lock(l, "a")
	require.Greater(c.T, lock.Fence(), last)
	c.Unlock(lock)
	virtual.Settle()
	return lock.Fence()
}

// ahead returns how far a token is ahead of the time.
func (c *cluster) ahead(token int64) time.Duration {
	return time.UnixMicro(token).Sub(c.Clock.Wall())
}

// know loads the scripts into the nodes: the first run of each costs one more message.
func (c *cluster) know(l *redlock.Locker) { c.knowOf(kinds()[0], l) }

// knowOf is know for a lock of a kind.
func (c *cluster) knowOf(k kind, l *redlock.Locker) {
	c.Unlock(c.of(k, l))
	time.Sleep(time.Second)
}

// timed acquires a lock of a kind, and returns how long that takes.
func (c *cluster) timed(k kind, l *redlock.Locker) (lock *redlock.Lock, took time.Duration) {
	c.T.Helper()
	took = virtual.Elapsed(func() {
		var err error
		lock, err = k.try(ctx, l)
		require.NoError(c.T, err)
	})
	return lock, took
}

func TestAFencingTokenIsTheTimeAndCostsNoRoundTrip(t *testing.T) {
	eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
		c.Slow(2 * time.Millisecond)
		l := c.Locker(redlock.WithFencing())
		c.knowOf(k, l)
		var last int64
		for range 20 {
			wall := c.Clock.Wall()
			lock, took := c.timed(k, l)
			assert.Equal(t, 2*time.Millisecond, took, "one round trip")
			assert.Equal(t, wall.UnixMicro(), lock.Fence())
			assert.Greater(t, lock.Fence(), last)
			last = lock.Fence()
			c.Unlock(lock)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Zero(t, l.Stats().SecondRounds)
		assert.NotZero(t, c.Lock(l, "other", redlock.WithTTL(time.Second)).Fence(), "for all locks of the Locker")
	})
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		assert.Zero(t, c.Lock(c.Locker(), "a").Fence(), "without fencing")
		assert.ElementsMatch(t, []string{"a", pipeline.MemoryKey, pipeline.RegisterKey}, c.Servers[0].Keys())
	})
}

func TestACounterOutlivesEveryLockAndExpires(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for maxTTL, life := range map[time.Duration]time.Duration{
			20 * time.Second: 10 * time.Minute, time.Hour: 10 * time.Hour,
		} {
			l := c.Locker(redlock.WithFencing(), redlock.WithMaxTTL(maxTTL))
			c.Unlock(c.Lock(l, maxTTL.String()))
			_, left, _ := c.Servers[0].Get("redquorum:fence:" + maxTTL.String())
			assert.InDelta(t, life, left, float64(time.Second))
		}
	})
}

// A node whose counter is ahead joins a quorum sooner or later. It raises the other counters.
func TestACounterThatIsAheadTakesOneMoreRound(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		c.Slow(2 * time.Millisecond)
		l := c.Locker(redlock.WithFencing())
		c.knowOf(k, l)
		ahead := c.Clock.Wall().Add(9 * time.Second).UnixMicro()
		c.Do(0, "SET", "redquorum:fence:"+k.name, ahead)
		c.Servers[2].Kill() // so that node 0 is part of the quorum
		lock, took := c.timed(k, l)
		assert.Equal(t, 4*time.Millisecond, took)
		token := ahead + 1
		if k.what == "reader" {
			token = ahead // readers may have equal tokens
		}
		assert.Equal(t, token, lock.Fence())
		virtual.Settle()
		assert.Equal(t, []int64{token, token}, c.fences(k.name)[:2])
		assert.EqualValues(t, 1, l.Stats().SecondRounds)
	})
}

func TestTokensAreExactUpToTheLimitOfDoubles(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) { // with more nodes, counters do not go that high
		const large = 1<<53 - 10
		c.Do(0, "SET", "redquorum:fence:a", int64(large))
		l := c.Locker(redlock.WithFencing())
		for want := int64(large) + 1; want < 1<<53-1; want++ {
			require.Equal(t, want, c.fenced(l, 0))
		}
		require.Equal(t, c.Clock.Wall().Add(time.Minute).UnixMicro()+1, c.fenced(l, 0), "the counter begins again")
	})
}

// A node is behind the token of the other, and is to be raised to it. Before it is told, somebody
// else gets that very number there.
func TestANumberThatIsInUseIsNobodyElsesToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithFencing(), redlock.WithNodeTimeout(time.Second))
		c.know(l)
		c.Servers[2].Kill() // so both are needed
		virtual.Settle()
		ahead := c.Clock.Wall().Add(5 * time.Second).UnixMicro()
		c.Do(0, "SET", "redquorum:fence:a", ahead, "PX", 600_000)
		c.Each(func(n *fakeredis.Node) { n.Delay(func() time.Duration { return 10 * time.Millisecond }, nil) })
		time.AfterFunc(15*time.Millisecond, func() { // the raise is on its way
			assert.Equal(t, ahead+1, c.fences("a")[0])
			c.Servers[1].Delay(nil, nil)
			c.Do(1, "SET", "redquorum:fence:a", ahead+1, "PX", 600_000)
		})
		_, err := l.TryLock(ctx, "a")
		var refused *redlock.QuorumError
		require.ErrorAs(t, err, &refused)
	})
}

func TestTokensGrowWhenAllMastersLoseTheirCounters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithFencing())
		last := c.fenced(l, 0)
		for range 3 {
			c.Each((*fakeredis.Node).FlushAll)
			time.Sleep(2 * time.Minute) // longer than the quarantine
			last = c.fenced(l, last)
		}
	})
}

// nearest makes the given number of nodes answer sooner than the others.
func (c *cluster) nearest(nodes int) {
	c.Each(virtual.Delaying(time.Millisecond, 0))
	for _, server := range c.Servers[:nodes] {
		server.Delay(nil, nil)
	}
}

// One master's clock is wrong for a while, then nobody uses the lock until its counters expire.
func TestTokensAreInOrderWhateverTheClockOfOneMasterDoes(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for _, by := range []time.Duration{-time.Hour, -25 * time.Second, 15 * time.Second, 25 * time.Second, time.Hour, 365 * 24 * time.Hour} {
			runBubble(t, by.String(), nodes, func(t *testing.T, c *cluster) {
				l := c.Locker(redlock.WithFencing())
				c.nearest(nodes/2 + 1)
				c.Servers[0].SetClock(by, 1)
				var last int64
				for range 3 {
					last = c.fenced(l, last)
					assert.LessOrEqual(t, c.ahead(last).Abs(), 20*time.Second, "near the other clocks")
				}
				c.Servers[0].SetClock(0, 1)
				for range 3 {
					last = c.fenced(l, last)
				}
				time.Sleep(11 * time.Minute)
				c.nearest(nodes)
				c.Each(virtual.Delaying(time.Millisecond, 0), 0) // it is not among the first to answer
				c.fenced(l, last)
			})
		}
	}
}

// After two changes of members, no master need have a counter of the lock before: the clock of the
// one that is left takes its place, and the removed ones may have been ahead of it
// (docs/fencing.md).
func TestTokensAreInOrderAfterTwoChangesOfMembersIfClocksAgree(t *testing.T) {
	for _, test := range []struct {
		maxTTL  time.Duration
		removed time.Duration // how far the clocks of the removed masters are ahead of the one that is left
		clients time.Duration // how far the first client's clock is ahead of the masters', and the second's behind
		inOrder bool
	}{
		{time.Minute, 0, time.Hour, true},
		{time.Minute, 39 * time.Second, time.Hour, true},
		{time.Minute, 42 * time.Second, time.Hour, false}, // no smaller difference does it
		{time.Minute, -time.Hour, time.Hour, true},
		{30 * time.Second, 9 * time.Second, time.Hour, true},
		{30 * time.Second, 12 * time.Second, time.Hour, false},
		{time.Minute, 59 * time.Second, 0, true},
		{time.Minute, time.Hour, 0, false},
	} {
		runBubble(t, fmt.Sprint(test), 3, func(t *testing.T, c *cluster) {
			c.Limit(test.maxTTL)
			c.Servers[0].SetClock(test.removed, 1)
			c.Servers[1].SetClock(test.removed, 1)
			ahead, behind := c.fencing(test.clients), c.fencing(-test.clients)
			time.Sleep(3 * test.maxTTL)
			first := c.Lock(ahead, "a")
			c.Unlock(first)
			for _, endpoint := range c.Servers.Endpoints()[:2] {
				require.NoError(t, admin.Of(behind).Cluster().Remove(c.Within(2*time.Minute), virtual.MemberID(endpoint)))
			}
			second := c.Lock(behind, "a")
			assert.Equal(t, test.inOrder, second.Fence() > first.Fence(), "%v later", time.Duration(second.Fence()-first.Fence())*time.Microsecond)
			c.Unlock(second)
		})
	}
}

// It is far ahead, or cannot be read.
func TestACounterThatIsNoGuideBeginsAgain(t *testing.T) {
	const key = "redquorum:fence:a"
	for _, counter := range []any{time.Hour, 10 * 365 * 24 * time.Hour, "junk", "", "9007199254740990", "9007199254740992", nil} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.Locker(redlock.WithFencing())
			c.nearest(3)
			last := c.fenced(l, 0)
			c.Del(key, 0)
			switch counter := counter.(type) {
			case time.Duration:
				c.Do(0, "SET", key, c.Clock.Wall().Add(counter).UnixMicro())
			case string:
				c.Do(0, "SET", key, counter)
			default:
				c.Do(0, "ZADD", key, 1, "junk")
			}
			time.Sleep(time.Second)
			last = c.fenced(l, last)
			assert.InDelta(t, last+time.Minute.Microseconds(), c.fences("a")[0], 1e6, "a minute above the token")
			assert.Zero(t, l.Stats().SecondRounds)
			_, left, _ := c.Servers[0].Get(key)
			assert.Positive(t, left)
			for range 70 {
				time.Sleep(time.Second)
				last = c.fenced(l, last)
				assert.LessOrEqual(t, c.ahead(last), 10*time.Second)
			}
			assert.Equal(t, last, c.fences("a")[0], "it counts again")
		})
	}
}

// A quorum cannot repair two counters of three. They move ahead together, past every token granted
// before.
func TestTwoCountersOfThreeThatCannotBeReadDoNotStopALock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithFencing())
		last := c.fenced(l, 0)
		c.Do(0, "SET", "redquorum:fence:a", "9007199254740991")
		c.Do(1, "SET", "redquorum:fence:a", "x")
		for range 100 {
			last = c.fenced(l, last)
			time.Sleep(time.Second)
		}
		assert.Less(t, c.ahead(last), time.Second, "the clock has caught up")
	})
}

// If two counters differ and no third node answers, nothing shows which one is right.
func TestACounterFarAheadNeedsAQuorumOfOtherNodes(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l := c.Locker(redlock.WithFencing())
		c.Do(0, "SET", "redquorum:fence:"+k.name, c.Clock.Wall().Add(time.Hour).UnixMicro())
		c.Servers[2].Mute(true)
		_, err := k.try(ctx, l)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "fencing token")
		virtual.Settle()
		assert.Equal(t, []string{"", ""}, c.Holders(k.name)[:2])
		c.Servers[2].Mute(false)
		time.Sleep(time.Second)
		assert.Less(t, c.ahead(c.of(k, l).Fence()).Abs(), time.Second)
	})
}

// All clocks were an hour ahead and are set back together. As long as the counters are kept, they
// are a better guide than the clocks.
func TestTokensAreInOrderWhenAllClocksAreSetBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithFencing())
		c.Each(func(n *fakeredis.Node) { n.SetClock(time.Hour, 1) })
		last := c.fenced(l, 0)
		c.Servers[2].Kill()
		last = max(last, c.fenced(l, 0))
		c.Each(func(n *fakeredis.Node) { n.SetClock(0, 1) })
		c.Servers[2].Restart(true)
		time.Sleep(time.Second)
		for i := range 10 {
			c.nearest(3)
			c.Each(virtual.Delaying(2*time.Millisecond, 0), i%3)
			last = c.fenced(l, last)
		}
	})
}

// An ordeal is what one master goes through: its clock and counter go wrong again and again, in any
// way.
type ordeal struct {
	*cluster
	random *rand.Rand
	clock  bool // the master's clock goes wrong too, and the clients' are right
}

func (o *ordeal) pick(times ...time.Duration) time.Duration { return times[o.random.IntN(len(times))] }

// next changes something at the first master, and which nodes answer first.
func (o *ordeal) next() {
	counter := "redquorum:fence:a"
	switch o.random.IntN(6) {
	case 0:
		o.Do(0, "SET", counter, "text")
	case 1:
		o.Do(0, "DEL", counter)
		o.Do(0, "ZADD", counter, 1, "x")
	case 2:
		ahead := o.pick(5*time.Second, 15*time.Second, 25*time.Second, 70*time.Second, 3*time.Minute, time.Hour, 400*24*time.Hour)
		o.Do(0, "SET", counter, o.cluster.Clock.Wall().Add(ahead).UnixMicro())
	case 3:
		if o.clock {
			by := o.pick(0, 0, 12*time.Second, 25*time.Second, time.Minute, time.Hour)
			if o.random.IntN(2) == 0 {
				by = -by
			}
			o.Servers[0].SetClock(by, 1)
		}
	}
	for _, server := range o.Servers {
		virtual.Delaying(time.Duration(o.random.IntN(3))*time.Millisecond, 0)(server)
	}
	time.Sleep(o.pick(0, time.Microsecond, time.Millisecond, time.Second, 10*time.Second, 50*time.Second, 11*time.Minute))
}

func TestTokensAreInOrderWhateverOneMasterGoesThrough(t *testing.T) {
	t.Parallel()
	for seed := range uint64(virtual.SizeOf(3, 12)) {
		runBubble(t, fmt.Sprint(seed), []int{3, 4, 5}[seed%3], func(t *testing.T, c *cluster) {
			o, skew := &ordeal{c, rand.New(rand.NewPCG(seed, 1)), seed%2 == 0}, time.Duration(0)
			if !o.clock {
				skew = 15 * time.Second
			}
			lockers := []*redlock.Locker{c.fencing(0), c.fencing(skew), c.fencing(-skew)}
			var last int64
			for range 40 {
				o.next()
				lock := c.Lock(lockers[o.random.IntN(len(lockers))], "a")
				require.Greater(t, lock.Fence(), last)
				assert.Less(t, c.ahead(lock.Fence()), 21*time.Second)
				last = lock.Fence()
				c.Unlock(lock)
				time.Sleep(5 * time.Millisecond) // the slowest nodes have it by then
			}
		})
	}
}
