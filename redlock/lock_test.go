package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/redlock"
)

func TestSuspendedHolderSaysLostAtTheFirstLook(t *testing.T) {
	looks := map[string]func(lock *redlock.Lock) error{
		"Err": func(lock *redlock.Lock) error { return lock.Err() },
		"Remaining": func(lock *redlock.Lock) error {
			assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			return lock.Err()
		},
		"Done":    func(lock *redlock.Lock) error { <-lock.Done(); return lock.Err() },
		"Context": func(lock *redlock.Lock) error { return context.Cause(lock.Context(ctx)) },
		"Extend":  func(lock *redlock.Lock) error { return lock.Extend(ctx, 10*time.Second) },
		"Verify":  func(lock *redlock.Lock) error { return lock.Verify(ctx) },
		"Unlock":  func(lock *redlock.Lock) error { return lock.Unlock(ctx) },
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock, err := c.locker().TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
				require.NoError(t, err)
				c.clock.Suspend(10 * time.Second)
				took := elapsed(func() { assert.ErrorIs(t, look(lock), redlock.ErrLost) })
				assert.Zero(t, took)
				assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			})
		})
	}
}

func TestDoneOfASuspendedHolderClosesWithinOneNap(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a", redlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		done := lock.Done()
		work := lock.Context(ctx)
		c.clock.Suspend(time.Hour)
		took := elapsed(func() { <-done; <-work.Done() })
		assert.LessOrEqual(t, took, time.Second)
		assert.ErrorIs(t, context.Cause(work), redlock.ErrLost)
	})
}

func TestReleasedLockSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().TryLock(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, "a", lock.Name())
		require.NoError(t, lock.Err())
		done, work := lock.Done(), lock.Context(ctx)
		require.NoError(t, work.Err())
		require.NoError(t, lock.Unlock(ctx))
		<-done
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), redlock.ErrReleased)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrReleased)
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrReleased)
		require.ErrorIs(t, context.Cause(lock.Context(ctx)), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
		require.NoError(t, lock.Unlock(ctx), "again: the same answer, and nothing is sent")
		settle()
		assert.Zero(t, c.keys())
		for _, server := range c.servers {
			releases := 0
			for _, command := range server.Commands() {
				if command.Args[0] == "EVALSHA" && !ofHandshake(command.Args) {
					releases++
				}
			}
			assert.Equal(t, 1, releases)
		}
	})
}

func TestUnlockDoesNotEndWithItsContext(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for _, server := range c.servers {
			server.Delay(func() time.Duration { return 50 * time.Millisecond }, nil)
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, lock.Unlock(cancelled))
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestUnlockGoesToEveryNode(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		c.servers[0].Stop() // grants when it goes on
		c.servers[1].Kill() // grants nothing
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		time.Sleep(10 * time.Second)
		c.servers[0].Continue()
		c.servers[1].Restart(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

func TestUnlockIsDeliveredToANodeThatWasAwayForIt(t *testing.T) {
	for name, away := range map[string]struct{ leave, back func(*fakenode.Node) }{
		"killed, data kept": {(*fakenode.Node).Kill, func(n *fakenode.Node) { n.Restart(true) }},
		"stopped":           {(*fakenode.Node).Stop, (*fakenode.Node).Continue},
		"muted":             {func(n *fakenode.Node) { n.Mute(true) }, func(n *fakenode.Node) { n.Mute(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				l := c.locker(redlock.WithTTL(time.Minute))
				lock, err := l.TryLock(ctx, "a")
				require.NoError(t, err)
				settle()
				away.leave(c.servers[2])
				away.leave(c.servers[3])
				require.NoError(t, lock.Unlock(ctx))
				time.Sleep(20 * time.Second)
				away.back(c.servers[2])
				away.back(c.servers[3])
				time.Sleep(1500 * time.Millisecond) // a dial that hangs, and the pause behind it
				synctest.Wait()
				assert.Zero(t, c.keys())
			})
		})
	}
}

func TestUnlockWithoutAQuorumSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Stop()
		c.servers[1].Stop()
		var unlockErr error
		took := elapsed(func() { unlockErr = lock.Unlock(ctx) })
		require.ErrorIs(t, unlockErr, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, unlockErr, redlock.ErrLost)
		assert.Equal(t, 500*time.Millisecond, took)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	})
}

func TestUnlockOfALostLockTouchesNobodyElsesKey(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		first, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		time.Sleep(time.Second + time.Millisecond) // Redis expires a key when its time is over, in whole milliseconds
		second, err := c.locker().TryLock(ctx, "a")
		require.NoError(t, err)
		require.ErrorIs(t, first.Extend(ctx, time.Second), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Err(), redlock.ErrLost)
		settle()
		require.NoError(t, second.Verify(ctx))
		assert.Equal(t, []string{second.Value()}, uniq(c.holders("a")))
	})
}

func TestDeletedLockIsLostForWhoeverAsks(t *testing.T) {
	asks := map[string]func(lock *redlock.Lock) error{
		"Extend": func(lock *redlock.Lock) error { return lock.Extend(ctx, 10*time.Second) },
		"Verify": func(lock *redlock.Lock) error { return lock.Verify(ctx) },
		"Unlock": func(lock *redlock.Lock) error { return lock.Unlock(ctx) },
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				l := c.locker()
				lock, err := l.TryLock(ctx, "a")
				require.NoError(t, err)
				settle()
				for i := range 3 {
					c.do(i, "DEL", "a")
				}
				require.ErrorIs(t, ask(lock), redlock.ErrLost)
				if name != "Unlock" {
					require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				}
				if name == "Extend" {
					settle()
					assert.Zero(t, c.keys(), "what the extension wrote anew is undone")
				}
			})
		})
	}
}

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
			server.MuteReplies(true) // the nodes take the new TTL, and we are not told
		}
		require.ErrorIs(t, lock.Extend(ctx, 2*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Err())
		<-lock.Done()
		assert.Less(t, time.Since(began), 2*time.Second, "not after the nodes forget it")
	})
}

func TestExtensionWithoutAnswersNeitherRenewsNorLoses(t *testing.T) {
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
		for _, server := range c.servers { // granted in time at the nodes, told too late
			server.Delay(nil, func() time.Duration { return 2 * time.Millisecond })
		}
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrLost)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys(), "the TTL that the nodes gave to a lock that was lost is taken back")
	})
}

func TestHealedNodeVotesFromTheNextRoundOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithQuarantine(redlock.QuarantineOff))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[0].Restart(false)
		time.Sleep(time.Second)
		assert.Equal(t, "", c.holders("a")[0])
		c.servers[1].Stop()
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum, "one vote, and one that does not count yet")
		assert.Equal(t, lock.Value(), c.holders("a")[0])
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
		require.NoError(t, lock.Unlock(ctx))
		c.servers[1].Continue()
		settle()
		assert.Zero(t, c.keys())
	})
}

// endsOnly takes errors of which every one is right, as long as the call returns.
func endsOnly(error) {}

func TestConcurrentUseOfOneLock(t *testing.T) {
	for seed := range uint64(200) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			random := rand.New(rand.NewPCG(seed, 0))
			for _, server := range c.servers {
				random := rand.New(rand.NewPCG(seed, random.Uint64()))
				var mu sync.Mutex
				delay := func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(random.IntN(3000)) * time.Microsecond
				}
				server.Delay(delay, delay)
				if random.IntN(4) == 0 {
					server.CutAfterWrite(5 + random.IntN(10))
				}
			}
			l := c.locker(redlock.WithTTL(100 * time.Millisecond))
			if seed%2 == 0 {
				l = c.renewing(redlock.WithTTL(100*time.Millisecond), redlock.WithMaxHold(300*time.Millisecond))
			}
			time.Sleep(10 * time.Millisecond)
			lock, err := l.TryLock(ctx, "a")
			if err != nil {
				return
			}
			var all sync.WaitGroup
			for i := range 6 {
				pause := time.Duration(random.IntN(110_000)) * time.Microsecond
				all.Go(func() {
					time.Sleep(pause / time.Duration(1+i%2))
					switch i % 3 {
					case 0:
						endsOnly(lock.Extend(ctx, 50*time.Millisecond+pause))
					case 1:
						endsOnly(lock.Verify(ctx))
					case 2:
						time.Sleep(20 * time.Millisecond)
						endsOnly(lock.Unlock(ctx))
					}
				})
			}
			<-lock.Context(ctx).Done()
			all.Wait()
			require.Error(t, lock.Err())
			time.Sleep(30 * time.Millisecond)
			synctest.Wait()
			assert.Zero(t, c.keys(), "seed %d", seed)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestCloseReleasesWhatIsHeldAndEndsWhatRuns(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		var locks []*redlock.Lock
		for i := range 50 {
			lock, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		assert.Equal(t, 50, l.Stats().Held)
		_, err := c.locker().TryLock(ctx, "busy")
		require.NoError(t, err)
		settle() // the votes behind the quorum's
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := l.Lock(ctx, "busy")
			assert.ErrorIs(t, err, redlock.ErrClosed)
		})
		waiting.Go(func() {
			for {
				lock, err := l.TryLock(ctx, "loop")
				if err != nil {
					assert.ErrorIs(t, err, redlock.ErrClosed)
					return
				}
				time.Sleep(time.Millisecond)
				if err := lock.Unlock(ctx); err != nil {
					assert.ErrorIs(t, err, redlock.ErrClosed)
				}
			}
		})
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		waiting.Wait()
		settle()
		assert.Equal(t, 5, c.keys(), "the other locker's")
		for _, lock := range locks {
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrClosed)
			require.ErrorIs(t, lock.Verify(ctx), redlock.ErrClosed)
			require.NoError(t, lock.Unlock(ctx), "Close has done it")
		}
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, err = l.Lock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, l.Ready(ctx), redlock.ErrClosed)
		for _, server := range c.servers {
			assert.Equal(t, 1, server.Connections(), "the other locker's")
		}
	})
}

func TestCloseIsBoundedWhenNodesAreMute(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		for _, server := range c.servers {
			server.Stop()
		}
		took := elapsed(func() { require.ErrorIs(t, l.Close(), redlock.ErrUndelivered) })
		assert.LessOrEqual(t, took, 2*time.Second)
		for _, server := range c.servers {
			server.Continue()
		}
	})
}

func TestCloseReleasesMoreThanTheNodesCanQueue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(time.Minute))
		for i := range 33_500 {
			_, err := l.TryLock(ctx, strconv.Itoa(i))
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
		settle()
		assert.Zero(t, c.keys())
	})
}

func TestContextsThatEndedAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		lock, err := c.renewing().TryLock(ctx, "a")
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 20_000 {
			parent, cancel := context.WithCancel(ctx)
			work := lock.Context(parent)
			cancel()
			<-work.Done()
			synctest.Wait()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
		work := lock.Context(ctx)
		require.NoError(t, lock.Unlock(ctx))
		<-work.Done()
	})
}

// A value that is the caller's is the same at every attempt: the release of one must not hit the next.
func TestReleaseOfAnAttemptDoesNotHitTheNextWithTheSameValue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(redlock.WithNodeTimeout(50*time.Millisecond)), c.locker(redlock.WithNodeTimeout(50*time.Millisecond))
		for _, s := range c.servers {
			s.RefuseWith("NOPERM this user has no permissions to run the 'script|load' command", "SCRIPT")
			s.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
			s.Delay(func() time.Duration { return 10 * time.Millisecond }, func() time.Duration { return 10 * time.Millisecond })
		}
		time.AfterFunc(15*time.Millisecond, func() {
			for _, s := range c.servers {
				s.RefuseWith("", "SET")
			}
		})
		held, err := a.Lock(ctx, "x", redlock.WithValue("handed over"), redlock.WithRetry(10*time.Millisecond, 10*time.Millisecond))
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, held.Err())
		_, err = b.TryLock(ctx, "x")
		require.ErrorIs(t, err, redlock.ErrTaken)
	})
}

func TestLockLostByVerifyIsNotHeld(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.do(0, "DEL", "a")
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrLost)
		assert.Zero(t, l.Stats().Held)
	})
}

func TestTTLIsCheckedAsTheNodesCountIt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithDrift(0, 10500*time.Microsecond))
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10900*time.Microsecond))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.ErrorIs(t, lock.Extend(ctx, 10900*time.Microsecond), redlock.ErrInvalid)
		require.NoError(t, lock.Err())
	})
}

// A node that was stopped runs the SET when it goes on, for a lock that has ended meanwhile and that nobody unlocks.
func TestLostLockDoesNotComeUpOnANodeThatWasStopped(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(30 * time.Second))
		c.servers[0].Stop()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		<-lock.Done()
		time.Sleep(time.Second)
		c.servers[0].Continue()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

// A node that was away for the SET gets the key by an extension, and its connection breaks before the release behind it.
func TestReleaseBehindAnExtensionIsKeptForTheNodeThatItHeals(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.servers[0].Kill()
		l := c.locker(redlock.WithTTL(time.Minute))
		time.Sleep(time.Second)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Restart(true)
		time.Sleep(time.Second)
		for _, server := range c.servers {
			server.Delay(func() time.Duration { return 50 * time.Millisecond }, nil)
		}
		c.servers[0].CutAfterWrite(2) // the script is loaded, run, and its reply lost with all behind it
		var extending sync.WaitGroup
		extending.Go(func() { endsOnly(lock.Extend(ctx, time.Minute)) })
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lock.Unlock(ctx))
		extending.Wait()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}
