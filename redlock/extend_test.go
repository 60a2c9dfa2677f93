package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

func TestExtendCountsFromItsOwnStart(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithDrift(0.01, 2*time.Millisecond))
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		began := time.Now()
		for range 20 {
			time.Sleep(900 * time.Millisecond)
			began = time.Now()
			require.NoError(t, lock.Extend(ctx, time.Second))
		}
		<-lock.Done()
		assert.Equal(t, time.Second-12*time.Millisecond, time.Since(began))
	})
}

func TestShorterTTLShortensTheValidityWhateverBecomesOfTheRound(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Minute))
		require.NoError(t, err)
		began := time.Now()
		for _, server := range c.servers {
			server.MuteReplies(true) // the nodes take the new TTL, but the holder is not told
		}
		require.ErrorIs(t, lock.Extend(ctx, 2*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Err())
		<-lock.Done()
		assert.Less(t, time.Since(began), 2*time.Second, "before the nodes forget it")
	})
}

func TestAnExtensionWithoutRepliesNeitherRenewsNorLosesTheLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		for _, server := range c.servers[:3] {
			server.Stop()
		}
		left := lock.Remaining()
		took := elapsed(func() { require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum) })
		require.NoError(t, lock.Err())
		assert.Equal(t, left-took, lock.Remaining())
		time.Sleep(time.Second)
		for _, server := range c.servers[:3] {
			server.Continue()
		}
		require.NoError(t, lock.Extend(ctx, 10*time.Second))

		bounded, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		for _, server := range c.servers[:3] {
			server.Stop()
		}
		err = lock.Extend(bounded, 10*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Verify(bounded), context.DeadlineExceeded)
		require.ErrorIs(t, lock.Extend(bounded, 10*time.Second), context.DeadlineExceeded)
		require.NoError(t, lock.Err())
	})
}

func TestExpiredLockIsNeverBroughtBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithNodeTimeout(time.Second))
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		time.Sleep(lock.Remaining() - time.Millisecond)
		for _, server := range c.servers { // the nodes grant in time, but their replies are late
			server.Delay(nil, func() time.Duration { return 2 * time.Millisecond })
		}
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrLost)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys(), "what the nodes granted to a lost lock is undone")
	})
}

// The nodes may not have the longer TTL, so renewal must come before the current validity ends.
func TestAnExtensionThatFailsDoesNotEndRenewal(t *testing.T) {
	for name, away := range map[string]func(c *cluster, i int, on bool){
		"mute": func(c *cluster, i int, on bool) { c.servers[i].Mute(on) },
		"down": func(c *cluster, i int, on bool) {
			if on {
				c.servers[i].RefuseWith("LOADING as after a restart", "EVALSHA")
			} else {
				c.servers[i].RefuseWith("")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.renewing(redlock.WithTTL(2 * time.Second))
				lock, err := l.TryLock(ctx, "a")
				require.NoError(t, err)
				time.Sleep(5 * time.Second)
				away(c, 0, true)
				away(c, 1, true)
				require.ErrorIs(t, lock.Extend(ctx, time.Minute), redlock.ErrNoQuorum)
				before := c.commands()
				time.Sleep(300 * time.Millisecond)
				assert.Less(t, c.commands()-before, 100, "it retries, but not constantly")
				away(c, 0, false)
				away(c, 1, false)
				time.Sleep(10 * time.Second)
				require.NoError(t, lock.Err())
				assert.Greater(t, lock.Remaining(), 30*time.Second, "renewed with the new TTL")
			})
		})
	}
}

// Counters that differ take a second round. It gets the time of a whole round, not what is left of
// the first one's.
func TestTheSecondRoundOfFencingHasItsOwnTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, s := range c.servers {
			half := func() time.Duration { return 6 * time.Millisecond }
			s.Delay(half, half)
		}
		// A round has 20 ms.
		l := c.locker(redlock.WithTTL(400*time.Millisecond), redlock.WithFencing())
		require.NoError(t, l.Ready(ctx))
		for i := range c.servers { // as left by a client whose clock is five seconds ahead
			ahead := time.Now().Add(5*time.Second).UnixMicro() + int64(i)
			c.do(i, "SET", "redquorum:fence:a", ahead, "PX", 600_000)
		}
		for range 20 {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
			time.Sleep(100 * time.Millisecond)
		}
		assert.NotZero(t, l.Stats().SecondRounds)
	})
}

// A foreign entry on a wait list does not stop releases or hand-overs.
func TestAForeignEntryOnAWaitListIsPassedOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(), c.locker()
		for _, stranger := range []string{"junk", ":", ":x", "", "x:"} {
			lock, err := a.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			for i := range c.servers {
				c.do(i, "ZADD", "redquorum:wait:a", 1, stranger)
				c.do(i, "SET", "redquorum:waits:a", "")
			}
			next := acquiring(t, b, "a")
			settle()
			require.NoError(t, lock.Unlock(ctx), "%q", stranger)
			lock = <-next
			require.NoError(t, lock.Unlock(ctx))
			settle()
			assert.Equal(t, []string{"", "", ""}, c.holders("a"))
		}
		assert.Zero(t, b.Stats().Polls)
	})
}

// Where SCRIPT LOAD is forbidden, the first run of a script loads it. Locking and renewing many
// keys at once still works.
func TestScriptsOfManyKeysRunWhereLoadingIsForbidden(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.deny(i, "SCRIPT")
		}
		l := c.renewing(redlock.WithTTL(time.Second))
		var locks []*redlock.Lock
		for _, name := range []string{"a", "b", "c", "d"} {
			lock, err := l.TryLock(ctx, name)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		set, err := l.TryLockAll(ctx, []string{"e", "f"})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		for _, lock := range append(locks, set) {
			require.NoError(t, lock.Err())
		}
		for i := range c.servers { // new connections must work too
			c.servers[i].Disconnect()
		}
		time.Sleep(5 * time.Second)
		for _, lock := range append(locks, set) {
			require.NoError(t, lock.Unlock(ctx))
		}
	})
}

// Extend returns later, when somebody else may have the lock already.
func TestALockEndsBeforeItsReleaseIsSentAlsoWhileItIsExtended(t *testing.T) {
	for name, release := range map[string]func(l *redlock.Locker) error{
		"Close":     (*redlock.Locker).Close,
		"UnlockAll": func(l *redlock.Locker) error { return l.UnlockAll(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				l, other := c.locker(), c.locker()
				lock, err := l.TryLock(ctx, "a")
				require.NoError(t, err)
				settle()
				done := lock.Done()
				for _, s := range c.servers {
					s.OnChange(func(fake.Change) {
						select {
						case <-done:
						default:
							t.Error("a node released a lock that had not ended")
						}
					})
					// Of the reply to Extend.
					s.Delay(nil, func() time.Duration { return 10 * time.Millisecond })
				}
				extended, released := make(chan error, 1), make(chan error, 1)
				go func() { extended <- lock.Extend(ctx, 10*time.Second) }()
				synctest.Wait()
				for _, s := range c.servers {
					s.Delay(nil, nil)
				}
				go func() { released <- release(l) }()
				synctest.Wait()
				second, err := other.TryLock(ctx, "a")
				require.NoError(t, err)
				assert.Empty(t, extended)
				require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
				require.ErrorIs(t, <-extended, redlock.ErrReleased)
				require.NoError(t, <-released)
				require.NoError(t, second.Err())
			})
		})
	}
}
