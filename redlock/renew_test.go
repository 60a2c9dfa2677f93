package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestRenewalKeepsALock(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Millisecond, time.Second, time.Minute} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(ttl))
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			for range 100 {
				time.Sleep(ttl / 5)
				require.NoError(t, lock.Err())
				assert.Greater(t, lock.Remaining(), ttl/3, "a renewal is due before two thirds of the TTL have passed")
				assert.LessOrEqual(t, lock.Remaining(), ttl)
			}
			rounds := l.Stats().Renewed
			assert.GreaterOrEqual(t, rounds, uint64(55))
			assert.LessOrEqual(t, rounds, uint64(100))
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Zero(t, c.keys())
			time.Sleep(ttl)
			assert.Equal(t, rounds, l.Stats().Renewed, "a released lock is no longer renewed")
		})
	}
}

func TestLocksDueTogetherAreRenewedByOneScript(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(30 * time.Second))
		for i := range 600 {
			_, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 600, l.Stats().Held)
		assert.Zero(t, l.Stats().Lost)
		scripts := 0
		for _, command := range c.servers[0].Commands() {
			if command.Args[0] == "EVALSHA" {
				scripts++
			}
		}
		assert.LessOrEqual(t, scripts, 36, "6 renewals of 600 locks, at most 256 in each script, and some left over")
		require.NoError(t, l.UnlockAll(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestRenewalSurvivesNodesThatRestartOneAfterAnother(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.renewing(redlock.WithTTL(time.Second), redlock.WithMaxTTL(2*time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for i := range 20 {
			server := c.servers[i%5]
			server.Kill()
			time.Sleep(500 * time.Millisecond)
			server.Restart(false)
			time.Sleep(4 * time.Second) // it leaves quarantine before the next one restarts
			require.NoError(t, lock.Err())
		}
		assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")), "healed on all nodes")
	})
}

func TestAHolderCutOffFromAMajorityIsToldBeforeAnotherCanHaveTheLock(t *testing.T) {
	for i := range 50 {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(time.Second))
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			until := lock.Until()
			for _, server := range c.servers[:3] {
				server.MuteReplies(true)
			}
			<-lock.Done()
			require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			assert.False(t, time.Now().After(until.Add(time.Second)))
			for _, server := range c.servers[:3] {
				_, left, ok := server.Get("a")
				assert.True(t, ok && left > 0, "no other client can have a majority yet")
			}
			for _, server := range c.servers[:3] {
				server.MuteReplies(false)
			}
		})
	}
}

func TestRenewalIsTriedAgainWithinTheValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(6 * time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for range 5 {
			c.servers[0].Stop()
			c.servers[1].Stop()
			time.Sleep(3 * time.Second) // half the TTL, at any point of it
			c.servers[0].Continue()
			c.servers[1].Continue()
			time.Sleep(2300 * time.Millisecond)
			require.NoError(t, lock.Err())
		}
	})
}

func TestExtendAndRenewalDoNotInterfere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, server := range c.servers {
			server.Delay(nil, func() time.Duration { return 40 * time.Millisecond })
		}
		l := c.renewing(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(200*time.Millisecond))
		time.Sleep(time.Second)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for i := range 200 {
			ttl := time.Second + time.Duration(i%3)*500*time.Millisecond
			require.NoError(t, lock.Extend(ctx, ttl))
			left := lock.Remaining()
			for _, server := range c.servers {
				_, kept, ok := server.Get("a")
				require.True(t, ok)
				assert.Greater(t, kept+40*time.Millisecond, left-time.Millisecond, "the holder trusts it no longer than the node keeps it")
			}
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
	})
}

func TestMaxHoldEndsALockWithACauseOfItsOwn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		l := c.renewing(redlock.WithTTL(time.Second))
		began := time.Now()
		lock, err := l.TryLock(ctx, "a", redlock.WithMaxHold(10*time.Second))
		require.NoError(t, err)
		work := lock.Context(ctx)
		time.Sleep(9500 * time.Millisecond)
		require.NoError(t, lock.Extend(ctx, 30*time.Second))
		assert.Equal(t, 500*time.Millisecond, lock.Remaining())
		<-work.Done()
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
		assert.ErrorContains(t, lock.Err(), "maximum")
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		settle()
		assert.Zero(t, c.keys())
	})
}

// If a renewal reached some nodes of a lock that was lost, the lock does not stay there for a whole
// TTL.
func TestWhatARenewalWroteForALostLockIsUndone(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(20 * time.Second))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for _, server := range c.servers[:3] {
			server.Kill()
		}
		<-lock.Done()
		settle()
		assert.Equal(t, []string{lock.Value(), lock.Value()}, c.holders("a")[3:], "it stays while the other nodes may keep it")
		time.Sleep(202 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"", ""}, c.holders("a")[3:])
		for _, server := range c.servers[:3] {
			server.Restart(true)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

func TestRenewalSurvivesForgottenScripts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		var locks []*redlock.Lock
		for i := range 10 {
			lock, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		for range 30 {
			time.Sleep(400 * time.Millisecond)
			for i := range c.servers {
				c.do(i, "SCRIPT", "FLUSH")
			}
		}
		for _, lock := range locks {
			require.NoError(t, lock.Err())
		}
	})
}

func TestTroubleWithOneKeyDoesNotEndOtherLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		a, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		b, err := l.TryLock(ctx, "b")
		require.NoError(t, err)
		for i := range 2 {
			c.do(i, "DEL", "a")
			c.do(i, "ZADD", "a", 1, "x")
		}
		err = a.Extend(ctx, time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Contains(t, err.Error(), "WRONGTYPE")
		assert.False(t, strings.Contains(err.Error(), "redis://node2"), "%v", err)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, a.Err(), redlock.ErrLost)
		require.NoError(t, b.Err())
	})
}
