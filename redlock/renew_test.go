package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// Readers, mutexes and permits alike.
func TestLocksDueTogetherAreRenewedByOneScript(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(30 * time.Second))
		s, err := l.Semaphore("s", 200)
		require.NoError(t, err)
		for i := range 200 {
			c.lock(l, fmt.Sprint(i))
			c.read(l)
			c.permit(s)
			time.Sleep(300 * time.Microsecond)
		}
		before := c.clock.Now()
		time.Sleep(time.Minute)
		assert.Equal(t, 600, l.Stats().Held)
		assert.Zero(t, l.Stats().Lost)
		scripts := 0
		for _, command := range c.servers[0].Commands() {
			if command.At > before && command.Args[0] == "EVALSHA" {
				scripts++
				assert.Contains(t, command.Args, "30000", "a mutex or a permit")
				assert.Contains(t, command.Args, "+30000", "a reader")
				assert.Contains(t, command.Args, "200", "a permit, with the number")
			}
		}
		assert.LessOrEqual(t, scripts, 36, "6 renewals of 600 locks, at most 256 in each script, and some left over")
		require.NoError(t, l.UnlockAll(ctx))
		c.leavesNothing(0)
	})
}

func TestRenewalSurvivesNodesThatRestartOneAfterAnother(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.grown()
		lock := c.lock(c.renewing(redlock.WithTTL(time.Second), redlock.WithMaxTTL(2*time.Second)), "a")
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
			lock := c.lock(c.renewing(redlock.WithTTL(time.Second)), "a")
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			until := lock.Until()
			c.each(deafen, 0, 1, 2)
			<-lock.Done()
			require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			assert.False(t, time.Now().After(until.Add(time.Second)))
			for _, server := range c.servers[:3] {
				_, left, ok := server.Get("a")
				assert.True(t, ok && left > 0, "no other client can have a majority yet")
			}
			c.each(undeaf, 0, 1, 2)
		})
	}
}

func TestRenewalIsTriedAgainWithinTheValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.lock(c.renewing(redlock.WithTTL(6*time.Second)), "a")
		for range 5 {
			c.each(stop, 0, 1)
			time.Sleep(3 * time.Second) // half the TTL, at any point of it
			c.each(resume, 0, 1)
			time.Sleep(2300 * time.Millisecond)
			require.NoError(t, lock.Err())
		}
	})
}

// The nodes may not have the longer TTL, so renewal must come before the current validity ends.
func TestAnExtensionThatFailsDoesNotEndRenewal(t *testing.T) {
	refuse := func(n *fake.Node) { n.RefuseWith("LOADING as after a restart", "EVALSHA") }
	accept := func(n *fake.Node) { n.RefuseWith("") }
	for _, away := range []absence{{"mute", mute, unmute}, {"loading", refuse, accept}} {
		t.Run(away.how, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock := c.lock(c.renewing(redlock.WithTTL(2*time.Second)), "a")
				time.Sleep(5 * time.Second)
				c.each(away.leave, 0, 1)
				require.ErrorIs(t, lock.Extend(ctx, time.Minute), redlock.ErrNoQuorum)
				before := c.commands()
				time.Sleep(300 * time.Millisecond)
				assert.Less(t, c.commands()-before, 100, "it retries, but not constantly")
				c.each(away.back, 0, 1)
				time.Sleep(10 * time.Second)
				require.NoError(t, lock.Err())
				assert.Greater(t, lock.Remaining(), 30*time.Second, "renewed with the new TTL")
			})
		})
	}
}

func TestExtendAndRenewalDoNotInterfere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.each(delaying(0, 40*time.Millisecond))
		l := c.renewing(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(200*time.Millisecond))
		time.Sleep(time.Second)
		lock := c.lock(l, "a")
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
		lock := c.lock(l, "a", redlock.WithMaxHold(10*time.Second))
		work := lock.Context(ctx)
		time.Sleep(9500 * time.Millisecond)
		require.NoError(t, lock.Extend(ctx, 30*time.Second))
		assert.Equal(t, 500*time.Millisecond, lock.Remaining())
		<-work.Done()
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
		assert.ErrorContains(t, lock.Err(), "maximum")
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		c.leavesNothing(0)
	})
}

// If a renewal reached some nodes of a lock that was lost, the lock does not stay there for a whole
// TTL.
func TestWhatARenewalWroteForALostLockIsUndone(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.lock(c.renewing(redlock.WithTTL(20*time.Second)), "a")
		c.each(kill, 0, 1, 2)
		<-lock.Done()
		settle()
		assert.Equal(t, []string{lock.Value(), lock.Value()}, c.holders("a")[3:], "it stays while the other nodes may keep it")
		time.Sleep(202 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"", ""}, c.holders("a")[3:])
		c.each(restart, 0, 1, 2)
		c.leavesNothing(time.Second)
	})
}

// Where SCRIPT LOAD is forbidden, the first run of a script loads it. Locking and renewing many
// keys at once still works, also after nodes have forgotten scripts or ended connections.
func TestRenewalGoesOnWithoutScriptsThatAreLoaded(t *testing.T) {
	for name, test := range map[string]struct{ before, every func(*fake.Node, *testing.T) }{
		"forgotten": {
			func(*fake.Node, *testing.T) {},
			func(n *fake.Node, t *testing.T) { n.Do(t, "SCRIPT", "FLUSH") },
		},
		"forbidden": {
			func(n *fake.Node, _ *testing.T) { n.RefuseWith("NOPERM no permissions", "SCRIPT") },
			func(n *fake.Node, _ *testing.T) { n.Disconnect() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.each(func(n *fake.Node) { test.before(n, t) })
				l := c.renewing(redlock.WithTTL(time.Second))
				var locks []*redlock.Lock
				for i := range 10 {
					locks = append(locks, c.lock(l, fmt.Sprint(i)))
				}
				set, err := l.TryLockAll(ctx, []string{"e", "f"})
				require.NoError(t, err)
				for range 10 {
					time.Sleep(1400 * time.Millisecond)
					c.each(func(n *fake.Node) { test.every(n, t) })
				}
				time.Sleep(time.Second)
				c.unlock(append(locks, set)...)
			})
		})
	}
}

func TestTroubleWithOneKeyDoesNotEndOtherLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Second))
		a, b := c.lock(l, "a"), c.lock(l, "b")
		spoil := func(i int) {
			c.do(i, "DEL", "a")
			c.do(i, "ZADD", "a", 1, "x")
		}
		spoil(0)
		require.NoError(t, a.Extend(ctx, time.Second), "the other nodes decide")
		require.NoError(t, a.Verify(ctx))
		spoil(1)
		err := a.Extend(ctx, time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.NotContains(t, err.Error(), "redis://node2")
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, a.Err(), redlock.ErrLost)
		require.NoError(t, b.Err())
	})
}
