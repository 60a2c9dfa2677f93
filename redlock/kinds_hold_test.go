package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// What holds for a lock of every kind.

func TestALockOfAnyKindExcludesTheOthersUntilItIsReleased(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		eachKind(t, nodes, func(t *testing.T, c *cluster, k kind) {
			a, b := c.Locker(), c.Locker()
			lock := c.of(k, a)
			assert.Equal(t, k.name, lock.Name())
			_, err := k.all(ctx, b)
			require.ErrorIs(t, err, redlock.ErrTaken)
			assert.NotErrorIs(t, err, redlock.ErrNoQuorum)
			c.Taken(b, k.name)
			require.NoError(t, lock.Verify(ctx))
			c.Unlock(lock)
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			c.LeavesNothing(0)
			lock = c.allOf(k, b)
			_, err = k.try(ctx, a)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorContains(t, err, `acquire "`+k.asked+`": 0 granted`)
			c.Unlock(lock)
			c.LeavesNothing(0)
		})
	}
}

func TestACallOfAnyKindRefusesBadArgumentsAndSendsNothing(t *testing.T) {
	eachKind(t, 1, func(t *testing.T, c *cluster, k kind) {
		l := c.Locker()
		var none context.Context
		ended, cancel := context.WithCancel(ctx)
		cancel()
		virtual.Settle()
		before := len(c.Servers[0].Commands())
		for _, call := range []call{k.try, k.wait} {
			bad := map[string]redlock.LockOption{"nil": nil, "TTL": redlock.WithTTL(time.Hour), "min validity": redlock.WithMinValidity(time.Hour)}
			if !k.holds {
				bad["min hold"] = redlock.WithMinHold(time.Second)
			}
			for name, opt := range bad {
				_, err := call(ctx, l, opt)
				require.ErrorIs(t, err, redlock.ErrInvalid, name)
			}
			_, err := call(none, l)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			_, err = call(ended, l)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, redlock.ErrInvalid)
		}
		virtual.Settle()
		assert.Len(t, c.Servers[0].Commands(), before)
		require.NoError(t, l.Close())
		for _, call := range []call{k.try, k.wait} {
			_, err := call(ctx, l)
			require.ErrorIs(t, err, redlock.ErrClosed)
		}
	})
}

// mishaps are what may become of one node's part in an attempt.
func mishaps() map[string]func(*fakeredis.Node) {
	return map[string]func(*fakeredis.Node){
		"late":         virtual.Delaying(900*time.Millisecond, 0),
		"late answers": virtual.Delaying(0, 900*time.Millisecond),
		"lost answer":  func(n *fakeredis.Node) { n.LoseReplies(1) },
		"cut":          func(n *fakeredis.Node) { n.CutAfterWrite(1) },
		"cut answer":   func(n *fakeredis.Node) { n.CutReply(2) },
		"stopped": func(n *fakeredis.Node) {
			n.Stop()
			time.AfterFunc(5*time.Second, n.Continue)
		},
	}
}

func TestALostAttemptLeavesNothingBehind(t *testing.T) {
	for name, fault := range mishaps() {
		t.Run(name, func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				opts := []redlock.Option{redlock.WithTTL(time.Minute)}
				if k.holds {
					opts = append(opts, redlock.WithMinHold(time.Minute))
				}
				l := c.Locker(opts...)
				c.Each(virtual.Kill, 0, 1, 2) // no quorum, so every grant must be undone
				synctest.Wait()
				fault(c.Servers[4])
				_, err := k.try(ctx, l)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				c.LeavesNothing(6 * time.Second)
			})
		})
		t.Run(name+", cancelled", func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				l := c.Locker(redlock.WithTTL(time.Minute))
				c.Each(virtual.Delaying(20*time.Millisecond, 0), 0, 1, 2, 3)
				fault(c.Servers[4])
				cancelled, cancel := context.WithCancel(ctx)
				time.AfterFunc(10*time.Millisecond, cancel)
				took := virtual.Elapsed(func() {
					_, err := k.try(cancelled, l)
					require.ErrorIs(t, err, context.Canceled)
					assert.ErrorIs(t, err, redlock.ErrNoQuorum)
				})
				assert.Equal(t, 10*time.Millisecond, took)
				c.LeavesNothing(6 * time.Second)
			})
		})
	}
}

// The network delays the SETs alone. On a connection of its own, a release would come first, and
// find nothing to delete.
func TestAReleaseDoesNotOvertakeTheSETOfItsAttempt(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l := c.Locker(redlock.WithTTL(time.Minute))
		for _, server := range c.Servers {
			delay := 900 * time.Millisecond
			server.Delay(func() time.Duration { defer func() { delay = 0 }(); return delay }, nil)
		}
		_, err := k.try(c.Within(10*time.Millisecond), l)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.LeavesNothing(2 * time.Second)
	})
}

func TestAnyCallFindsThatADeletedLockIsLost(t *testing.T) {
	for name, ask := range map[string]func(lock *redlock.Lock) error{
		"Extend": func(lock *redlock.Lock) error { return lock.Extend(ctx, 10*time.Second) },
		"Verify": func(lock *redlock.Lock) error { return lock.Verify(ctx) },
		"Unlock": func(lock *redlock.Lock) error { return lock.Unlock(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				l := c.Locker()
				lock := c.of(k, l)
				c.Del(k.name, 0, 1, 2)
				require.ErrorIs(t, ask(lock), redlock.ErrLost)
				assert.Zero(t, l.Stats().Held)
				if name != "Unlock" {
					require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				}
				if name == "Extend" {
					c.LeavesNothing(0) // of what the extension restored
				}
			})
		})
	}
}

// A node that lost the key may have given the lock to somebody else before it was healed.
func TestANodeThatLackedALockVotesFromTheSecondRoundOn(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker())
		before := c.Holders(k.name)[0]
		c.Del(k.name, 0)
		c.Servers[1].RefuseWith("LOADING as after a restart", "EVALSHA")
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum)
		virtual.Settle()
		assert.Equal(t, before, c.Holders(k.name)[0], "it is healed")
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Extend(ctx, 10*time.Second), "and votes from then on")
		c.Servers[1].RefuseWith("")
		c.Unlock(lock)
		c.LeavesNothing(0)
	})
}

// As after ForceUnlock. An extension that is answered too late sets no keys, which the next one
// would take for keys that were there all the time.
func TestAHolderWhoseKeysWereDeletedLearnsOfItAfterLateAnswers(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker(redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(time.Second)))
		for i := range c.Servers {
			c.Del(k.name, i)
		}
		c.Each(virtual.Delaying(0, 1500*time.Millisecond), 1, 2)
		require.ErrorIs(t, lock.Extend(ctx, time.Minute), redlock.ErrNoQuorum)
		c.Instantly()
		time.Sleep(time.Second)
		require.ErrorIs(t, lock.Extend(ctx, time.Minute), redlock.ErrLost)
	})
}

// The node that lost the key first is healed, and votes again, by the time that the other one loses
// it, soon after the renewal that found the key missing.
func TestALockSurvivesNodesThatLoseItOneAfterTheOther(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Renewing(redlock.WithTTL(12*time.Second)))
		c.Del(k.name, 2)
		time.Sleep(4 * time.Second)
		c.Del(k.name, 1)
		time.Sleep(8 * time.Second)
		require.NoError(t, lock.Err())
		assert.NotContains(t, c.Holders(k.name), "")
		c.Unlock(lock)
	})
}

// Its answer to the extension is on the way when the lock is released.
func TestANodeThatLackedALockIsNotHealedBehindTheRelease(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker())
		c.Del(k.name, 2)
		c.Each(virtual.Delaying(0, 20*time.Millisecond), 2)
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
		c.Unlock(lock)
		c.LeavesNothing(time.Second)
	})
}

// Renewal heals node after node. Each of them has said before that it does not have the lock.
func TestAHolderWhoseKeysWereDeletedCannotWinThemBackOneByOne(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker(redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(time.Second)))
		for i := range c.Servers {
			c.Del(k.name, i)
		}
		for node := range 2 {
			c.Each(virtual.Mute)
			c.Each(virtual.Unmute, node)
			err := lock.Extend(ctx, time.Minute)
			if node == 0 {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			} else {
				require.ErrorIs(t, err, redlock.ErrLost)
			}
			virtual.Settle()
		}
	})
}

// A minimum hold that has passed changes nothing.
func TestALockOfAnyKindIsRenewedUntilItIsReleased(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Millisecond, time.Second, time.Minute} {
		eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
			l := c.Renewing(redlock.WithTTL(ttl))
			var opts []redlock.LockOption
			if k.holds {
				opts = append(opts, redlock.WithMinHold(min(10*ttl, time.Minute)))
			}
			lock := c.of(k, l, opts...)
			c.Del(k.name, 2) // renewal restores it
			for range 100 {
				time.Sleep(ttl / 5)
				require.NoError(t, lock.Err())
				assert.Greater(t, lock.Remaining(), ttl/3, "renewed before two thirds of the TTL have passed")
				assert.LessOrEqual(t, lock.Remaining(), ttl)
			}
			assert.NotEmpty(t, c.Holders(k.name)[2])
			require.NoError(t, lock.Verify(ctx))
			rounds := l.Stats().Renewed
			assert.GreaterOrEqual(t, rounds, uint64(55))
			assert.LessOrEqual(t, rounds, uint64(100))
			c.Unlock(lock)
			c.LeavesNothing(ttl)
			assert.Equal(t, rounds, l.Stats().Renewed)
		})
	}
}

func TestUnlockDoesNotEndWithItsContext(t *testing.T) {
	eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker())
		c.Each(virtual.Delaying(50*time.Millisecond, 0))
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, lock.Unlock(cancelled))
		c.LeavesNothing(0)
	})
}

func TestUnlockWithoutAQuorumSaysSo(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l := c.Locker()
		lock := c.of(k, l)
		c.Lock(l, "other")
		c.Each(virtual.Stop, 0, 1)
		var err error
		took := virtual.Elapsed(func() { err = lock.Unlock(ctx) })
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, err, redlock.ErrLost)
		assert.InDelta(t, 500, took.Milliseconds(), 1)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, l.UnlockAll(ctx), redlock.ErrNoQuorum)
	})
}

func TestUnlockIsDeliveredToANodeThatWasAwayForIt(t *testing.T) {
	for _, away := range absences() {
		t.Run(away.how, func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				lock := c.of(k, c.Locker(redlock.WithTTL(time.Minute)))
				c.Each(away.leave, 2, 3)
				c.Unlock(lock)
				time.Sleep(20 * time.Second)
				c.Each(away.back, 2, 3)
				c.LeavesNothing(1500 * time.Millisecond) // a dial that hangs, and the pause after it
			})
		})
	}
}

func TestUnlockOfALostLockTouchesNobodyElsesKey(t *testing.T) {
	eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
		first := c.of(k, c.Locker(), redlock.WithTTL(time.Second))
		// Redis expires a key once its time has passed, in whole milliseconds.
		time.Sleep(time.Second + time.Millisecond)
		second := c.allOf(k, c.Locker())
		require.ErrorIs(t, first.Extend(ctx, time.Second), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Err(), redlock.ErrLost)
		virtual.Settle()
		require.NoError(t, second.Verify(ctx))
		assert.Equal(t, []string{second.Value()}, uniq(c.Holders(k.name)))
	})
}

func TestCloseEndsWaitersAndGivesWhatIsHeldToOthers(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l, other := c.Locker(), c.Locker(redlock.WithRetry(time.Minute, time.Minute))
		held := c.allOf(k, l)
		var ends []<-chan error
		for range 3 {
			ends = append(ends, c.Ending(func() error { _, err := k.wait(ctx, l); return err }))
		}
		time.Sleep(20 * time.Millisecond)
		got := c.queue(k, other)
		began := time.Now()
		require.NoError(t, l.Close())
		for _, end := range ends {
			require.ErrorIs(t, <-end, redlock.ErrClosed)
		}
		require.ErrorIs(t, held.Err(), redlock.ErrReleased)
		require.NoError(t, held.Unlock(ctx), "Close has released it")
		require.ErrorIs(t, held.Extend(ctx, time.Second), redlock.ErrClosed)
		require.ErrorIs(t, held.Verify(ctx), redlock.ErrClosed)
		require.ErrorIs(t, l.Ready(ctx), redlock.ErrClosed)
		lock := <-got
		assert.Less(t, time.Since(began), time.Millisecond)
		c.Unlock(lock)
		c.LeavesNothing(0)
	})
}

// The waits for the single names of a choice are no calls, and tell nothing of their own.
func TestHooksAndStatsTellOfALockOfAnyKind(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		c.Slow(time.Millisecond) // no message overtakes one that was sent before it
		var holder, waiter diary
		a, b := c.Locker(holder.hooks()), c.Locker(waiter.hooks(), redlock.WithRetry(time.Minute, time.Minute))
		held := c.allOf(k, a)
		assert.Equal(t, []string{"acquired " + k.name}, holder.take())
		got := c.queue(k, b)
		assert.Equal(t, []string{"waiting " + k.asked}, waiter.take())
		assert.Equal(t, 1, b.Stats().Waiting)
		c.Unlock(held)
		lock := <-got
		name := lock.Name()
		assert.Equal(t, []string{"acquired " + name, "waited " + name}, waiter.take())
		// A choice waits for both names, both are handed over, and it may get either.
		assert.Equal(t, []string{"handed " + k.asked, "released " + k.name}, uniq(holder.take()))
		assert.NotZero(t, a.Stats().HandedOver)
		require.NoError(t, lock.Extend(ctx, 5*time.Second))
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, admin.Of(a).ForceUnlock(ctx, name))
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrLost)
		assert.Equal(t, []string{"renewed " + name, "lost " + name}, waiter.take())
		s := b.Stats()
		assert.Equal(t, []uint64{1, 1, 1, 1, 0}, []uint64{s.Acquired, s.Waits, s.Renewed, s.Lost, s.Polls})
		assert.Zero(t, s.Held+s.Waiting)
		assert.NotZero(t, s.Woken)
	})
}
