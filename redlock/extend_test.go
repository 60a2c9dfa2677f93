package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

func TestExtendCountsFromItsOwnStart(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithDrift(0.01, 2*time.Millisecond))
		lock := c.Lock(l, "a", redlock.WithTTL(time.Second))
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
		lock := c.Lock(c.Locker(), "a", redlock.WithTTL(time.Minute))
		began := time.Now()
		c.Each(virtual.Deafen) // the nodes take the new TTL, but the holder is not told
		require.ErrorIs(t, lock.Extend(ctx, 2*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Err())
		<-lock.Done()
		assert.Less(t, time.Since(began), 2*time.Second, "before the nodes forget it")
	})
}

func TestAnExtensionWithoutRepliesNeitherRenewsNorLosesTheLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(), "a", redlock.WithTTL(10*time.Second))
		c.Each(virtual.Stop, 0, 1, 2)
		left := lock.Remaining()
		took := virtual.Elapsed(func() { require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum) })
		require.NoError(t, lock.Err())
		assert.Equal(t, left-took, lock.Remaining())
		time.Sleep(time.Second)
		c.Each(virtual.Resume, 0, 1, 2)
		require.NoError(t, lock.Extend(ctx, 10*time.Second))

		c.Each(virtual.Stop, 0, 1, 2)
		bounded := c.Within(time.Millisecond)
		err := lock.Extend(bounded, 10*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Verify(bounded), context.DeadlineExceeded)
		require.ErrorIs(t, lock.Extend(bounded, 10*time.Second), context.DeadlineExceeded)
		require.NoError(t, lock.Err())

		c.Each(virtual.Resume, 0, 1, 2)
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
		require.ErrorIs(t, lock.Extend(bounded, 10*time.Second), context.DeadlineExceeded, "also when no other is under way")
	})
}

func TestExpiredLockIsNeverBroughtBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(redlock.WithNodeTimeout(time.Second)), "a", redlock.WithTTL(time.Second))
		time.Sleep(lock.Remaining() - time.Millisecond)
		c.Each(virtual.Delaying(0, 2*time.Millisecond)) // the nodes grant in time, but their replies are late
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrLost)
		c.LeavesNothing(time.Second) // what the nodes granted to a lost lock is undone
	})
}

// The machine sleeps past the validity before the answers come. They are read before any timer has
// found that out.
func TestAnExtensionThatIsAnsweredAfterASuspendDoesNotBringTheLockBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Locker(), "a", redlock.WithTTL(time.Second))
		c.Each(virtual.Delaying(0, 10*time.Millisecond))
		time.AfterFunc(5*time.Millisecond, func() { c.Clock.Suspend(2 * time.Second) })
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrLost)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	})
}

// interrupted is a clock at which something happens once in the middle of a function of the
// library: when the function reads the clock.
type interrupted struct {
	clock.Clock
	within string // the function
	happen atomic.Pointer[func()]
}

func (c *interrupted) Now() clock.Instant {
	now := c.Clock.Now()
	if c.happen.Load() == nil {
		return now
	}
	var callers [1]uintptr
	runtime.Callers(2, callers[:])
	if frame, _ := runtime.CallersFrames(callers[:]).Next(); strings.HasSuffix(frame.Function, c.within) {
		if happen := c.happen.Swap(nil); happen != nil {
			(*happen)()
		}
	}
	return now
}

// A lock is released when its renewal has been decided on and not been sent. Behind the release,
// the extension would prolong what is left of a minimum hold.
func TestALockThatIsReleasedAsItsRenewalBeginsIsNotExtended(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		clk := &interrupted{Clock: c.Clock, within: "(*Locker).extend"}
		l := c.Renewing(redlock.WithTTL(3*time.Second), redlock.WithClock(clk))
		lock := c.Lock(l, "a", redlock.WithMinHold(1400*time.Millisecond))
		unlock := func() { assert.NoError(t, lock.Unlock(ctx)) }
		clk.happen.Store(&unlock)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.Nil(t, clk.happen.Load(), "the renewal has begun")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		c.LeavesNothing(0)
	})
}

// The verdict comes as the context ends, when Extend is about to look at the lock.
func TestAnExtensionIsNotToldByVotesThatItsLockDoesNotKnow(t *testing.T) {
	for name, gone := range map[string]bool{"granted": false, "denied": true} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			c.Instantly()
			clk := &interrupted{Clock: c.Clock, within: "(*Lock).Err"}
			l := c.Locker(redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(2*time.Second), redlock.WithClock(clk))
			lock := c.Lock(l, "a")
			time.Sleep(time.Second)
			if gone {
				c.Del("a")
			}
			c.Each((*fakeredis.Node).Stop)
			live, cancel := context.WithCancel(ctx)
			ended := c.Ending(func() error { return lock.Extend(live, 9*time.Second) })
			virtual.Settle()
			answer := func() {
				c.Each((*fakeredis.Node).Continue)
				for range 10_000 { // the votes come, and wait for the mutex of the lock
					runtime.Gosched()
				}
			}
			clk.happen.Store(&answer)
			cancel()
			err := <-ended
			require.Nil(t, clk.happen.Load(), "the votes came at that moment")
			require.ErrorIs(t, err, context.Canceled)
			var told *redlock.QuorumError
			require.ErrorAs(t, err, &told)
			assert.Equal(t, []int{0, 0}, []int{told.Granted, told.Refused}, "votes that decide were not told as undecided")
			virtual.Settle()
			assert.Equal(t, gone, errors.Is(lock.Err(), redlock.ErrLost))
			assert.Equal(t, !gone, lock.Remaining() > 8*time.Second)
		})
	}
}

// A node refuses the lock, because it has the key of an earlier holder, and its answer is late. It
// is healed in the meantime. The release must reach that node, although it is away by then.
func TestALateRefusalDoesNotHideANodeThatIsHealed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(time.Second))
		c.Set("a", "earlier", 100*time.Millisecond, 2)
		c.Each(virtual.Delaying(0, 300*time.Millisecond), 2)
		lock := c.Lock(l, "a")
		time.Sleep(150 * time.Millisecond)
		require.NoError(t, lock.Extend(ctx, time.Minute))
		time.Sleep(600 * time.Millisecond) // the refusal has come by now, and the answer to the extension
		assert.Equal(t, lock.Value(), c.Holders("a")[2])
		c.Servers[2].Kill()
		synctest.Wait()
		c.Unlock(lock)
		c.Servers[2].Delay(nil, nil)
		c.Servers[2].Restart(true)
		c.LeavesNothing(2 * time.Second)
	})
}

// Extend returns later, when somebody else may have the lock already.
func TestALockEndsBeforeItsReleaseIsSentAlsoWhileItIsExtended(t *testing.T) {
	for name, release := range endsOfAll() {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l, other := c.Locker(), c.Locker()
			lock := c.Lock(l, "a")
			virtual.Settle()
			done := lock.Done()
			c.Each(func(n *fakeredis.Node) {
				n.OnChange(func(fakeredis.Change) {
					select {
					case <-done:
					default:
						t.Error("a node released a lock that had not ended")
					}
				})
			})
			c.Each(virtual.Delaying(0, 10*time.Millisecond)) // of the reply to Extend
			extended := c.Ending(func() error { return lock.Extend(ctx, 10*time.Second) })
			synctest.Wait()
			c.Instantly()
			released := c.Ending(func() error { return release(l) })
			synctest.Wait()
			second := c.Lock(other, "a")
			assert.Empty(t, extended)
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.ErrorIs(t, <-extended, redlock.ErrReleased)
			require.NoError(t, <-released)
			require.NoError(t, second.Err())
		})
	}
}

// Counters that differ take a second round. It gets the time of a whole round, not what is left of
// the first one's.
func TestTheSecondRoundOfFencingHasItsOwnTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Slow(12 * time.Millisecond)
		// A round has 20 ms.
		l := c.Locker(redlock.WithTTL(400*time.Millisecond), redlock.WithFencing())
		require.NoError(t, l.Ready(ctx))
		for i := range c.Servers { // as left by a client whose clock is five seconds ahead
			ahead := time.Now().Add(5*time.Second).UnixMicro() + int64(i)
			c.Do(i, "SET", "redquorum:fence:a", ahead, "PX", 600_000)
		}
		for range 20 {
			c.Unlock(c.Lock(l, "a"))
			time.Sleep(100 * time.Millisecond)
		}
		assert.NotZero(t, l.Stats().SecondRounds)
	})
}

// Readers, mutexes and permits alike.
func TestLocksDueTogetherAreRenewedByOneScript(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithTTL(30 * time.Second))
		s, err := l.Semaphore("s", 200)
		require.NoError(t, err)
		for i := range 200 {
			c.Lock(l, fmt.Sprint(i))
			c.Read(l)
			c.Permit(s)
			time.Sleep(300 * time.Microsecond)
		}
		before := c.Clock.Now()
		time.Sleep(time.Minute)
		assert.Equal(t, 600, l.Stats().Held)
		assert.Zero(t, l.Stats().Lost)
		scripts := 0
		for _, command := range c.Servers[0].Commands() {
			if command.At > before && command.Args[0] == "EVALSHA" {
				scripts++
				assert.Contains(t, command.Args, "30000", "a mutex")
				assert.Contains(t, command.Args, "+30000", "a reader")
				assert.True(t, slices.ContainsFunc(command.Args, func(arg string) bool {
					return strings.HasPrefix(arg, "#") && strings.HasSuffix(arg, " 200 30000")
				}), "a permit, with the number")
			}
		}
		assert.LessOrEqual(t, scripts, 36, "6 renewals of 600 locks, at most 256 in each script, and some left over")
		require.NoError(t, l.UnlockAll(ctx))
		c.LeavesNothing(0)
	})
}

// The nodes may not have the longer TTL, so renewal must come before the current validity ends.
func TestAnExtensionThatFailsDoesNotEndRenewal(t *testing.T) {
	refuse := func(n *fakeredis.Node) { n.RefuseWith("LOADING as after a restart", "EVALSHA") }
	accept := func(n *fakeredis.Node) { n.RefuseWith("") }
	for _, away := range []absence{{"mute", virtual.Mute, virtual.Unmute}, {"loading", refuse, accept}} {
		runBubble(t, away.how, 3, func(t *testing.T, c *cluster) {
			lock := c.Lock(c.Renewing(redlock.WithTTL(2*time.Second)), "a")
			time.Sleep(5 * time.Second)
			c.Each(away.leave, 0, 1)
			require.ErrorIs(t, lock.Extend(ctx, time.Minute), redlock.ErrNoQuorum)
			before := c.Commands()
			time.Sleep(300 * time.Millisecond)
			assert.Less(t, c.Commands()-before, 100, "it retries, but not constantly")
			c.Each(away.back, 0, 1)
			time.Sleep(10 * time.Second)
			require.NoError(t, lock.Err())
			assert.Greater(t, lock.Remaining(), 30*time.Second, "renewed with the new TTL")
		})
	}
}

// What each master said to the last renewal is told by Err, the cause of the context and the hook,
// also where the validity ends before a renewal has been answered (a short TTL), and where a quorum
// denies the lock. The hook for a renewal that failed is told the same.
func TestALostLockSaysWhatEachMasterSaidLast(t *testing.T) {
	refusals := []string{
		"MISCONF Redis is configured to save RDB snapshots", "NOREPLICAS Not enough good replicas to write.",
		"OOM command not allowed when used memory > 'maxmemory'.", "NOPERM this user has no permissions",
	}
	for _, short := range []bool{false, true} {
		eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
			var lost, unrenewed []error
			options := []redlock.Option{redlock.WithHooks(redlock.Hooks{
				Lost:      func(_ *redlock.Lock, err error) { lost = append(lost, err) },
				Unrenewed: func(_ *redlock.Lock, err error) { unrenewed = append(unrenewed, err) },
			})}
			if short {
				options = append(options, redlock.WithNodeTimeout(time.Second))
			}
			l := c.Renewing(options...)
			lock, err := k.try(ctx, l, redlock.WithTTL(time.Second))
			require.NoError(t, err)
			work := lock.Context(ctx)
			for i, text := range refusals {
				c.Servers[i].RefuseWith(text, "SET", "EVAL", "EVALSHA")
			}
			c.Servers[4].Mute(true)
			<-lock.Done()
			virtual.Settle()

			require.Len(t, lost, 1)
			for _, err := range []error{lock.Err(), context.Cause(work), lost[0]} {
				require.ErrorIs(t, err, redlock.ErrLost)
				var told *redlock.QuorumError
				require.ErrorAs(t, err, &told)
				for _, text := range refusals {
					require.ErrorContains(t, err, text)
				}
				require.Len(t, told.Nodes, 5, "the one that is silent is named, too: %v", err)
			}
			if short {
				return
			}
			require.NotEmpty(t, unrenewed)
			require.ErrorIs(t, unrenewed[0], redlock.ErrNoQuorum)
			require.NotErrorIs(t, unrenewed[0], redlock.ErrLost)
			var told *redlock.QuorumError
			require.ErrorAs(t, unrenewed[0], &told)
			require.Len(t, told.Nodes, 5, "three that refused decide: %v", told)
		})
	}
}

func TestARenewalThatIsDeniedSaysWhoHadNoVoteInIt(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock, err := k.try(ctx, c.Renewing(), redlock.WithTTL(3*time.Second))
		require.NoError(t, err)
		c.Servers[0].RefuseWith("MISCONF Redis is configured to save RDB snapshots", "SET", "EVAL", "EVALSHA")
		c.Each((*fakeredis.Node).FlushAll, 1, 2)
		<-lock.Done()
		require.ErrorContains(t, lock.Err(), "a quorum of nodes")
	})
}

func TestExtendAndRenewalDoNotInterfere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Each(virtual.Delaying(0, 40*time.Millisecond))
		l := c.Renewing(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(200*time.Millisecond))
		time.Sleep(time.Second)
		lock := c.Lock(l, "a")
		for i := range 200 {
			ttl := time.Second + time.Duration(i%3)*500*time.Millisecond
			require.NoError(t, lock.Extend(ctx, ttl))
			left := lock.Remaining()
			for _, server := range c.Servers {
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
		c.Instantly()
		l := c.Renewing(redlock.WithTTL(time.Second))
		began := time.Now()
		lock := c.Lock(l, "a", redlock.WithMaxHold(10*time.Second))
		work := lock.Context(ctx)
		time.Sleep(9500 * time.Millisecond)
		require.NoError(t, lock.Extend(ctx, 30*time.Second))
		assert.Equal(t, 500*time.Millisecond, lock.Remaining())
		<-work.Done()
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
		assert.ErrorContains(t, lock.Err(), "maximum")
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
		c.LeavesNothing(0)
	})
}

// If a renewal reached some nodes of a lock that was lost, the lock does not stay there for a whole
// TTL.
func TestWhatARenewalWroteForALostLockIsUndone(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Renewing(redlock.WithTTL(20*time.Second)), "a")
		c.Each(virtual.Kill, 0, 1, 2)
		<-lock.Done()
		virtual.Settle()
		assert.Equal(t, []string{lock.Value(), lock.Value()}, c.Holders("a")[3:], "it stays while the other nodes may keep it")
		time.Sleep(202 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"", ""}, c.Holders("a")[3:])
		c.Each(virtual.Restart, 0, 1, 2)
		c.LeavesNothing(time.Second)
	})
}

func TestTroubleWithOneKeyDoesNotEndOtherLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithTTL(time.Second))
		a, b := c.Lock(l, "a"), c.Lock(l, "b")
		spoil := func(i int) {
			c.Do(i, "DEL", "a")
			c.Do(i, "ZADD", "a", 1, "x")
		}
		spoil(0)
		require.NoError(t, a.Extend(ctx, time.Second), "the other nodes decide")
		require.NoError(t, a.Verify(ctx))
		spoil(1)
		late := func() time.Duration { return time.Millisecond }
		c.Each(func(n *fakeredis.Node) { n.Delay(late, late) }, 0, 1) // the error would name a node that is awaited
		err := a.Extend(ctx, time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.NotContains(t, err.Error(), "redis://node2")
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, a.Err(), redlock.ErrLost)
		require.NoError(t, b.Err())
	})
}

// A lock of a bare majority gets the vote that it lacks before all who wait. They would pass it
// around, because a quorum refuses each of them, and keep it for as long as a master is silent; the
// holder would lose the lock by the silence of one master.
func TestAHolderGetsTheVoteThatItLacksBeforeItsWaiters(t *testing.T) {
	const ttl = 4 * time.Second
	for _, k := range kinds() {
		for node := range 3 { // one of them is the coordinator
			runBubble(t, fmt.Sprintf("%s, node %d", k.what, node), 3, func(t *testing.T, c *cluster) {
				lockers := c.lockers(4, redlock.WithNodeTimeout(ttl/2))
				c.Set(k.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Minute, node)
				lock := c.of(k, c.Renewing(redlock.WithTTL(ttl)))
				if k.what != "permit" {
					k = kinds()[0]
				}
				time.Sleep(ttl / 4)
				c.Each(virtual.Deafen, (node+1)%3)
				c.Del(k.name, node)
				// The first has the vote of the node for the moment.
				for i, ask := range []call{k.try, k.wait, k.wait, k.wait} {
					c.Calls.Go(func() {
						_, err := ask(c.Within(2*ttl), lockers[i])
						assert.Error(t, err)
					})
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(3 * ttl)
				require.NoError(t, lock.Err())
				c.Each(virtual.Undeaf, (node+1)%3)
				require.NoError(t, lock.Unlock(ctx))
			})
		}
	}
}

// Another client may have held the lock between the refusal and the hand-over. So the vote is one
// like that of a node that was healed, from the next round on.
func TestAVoteThatAHolderWasHandedCountsFromTheNextRoundOn(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		c.Set(k.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Minute, 0)
		lock := c.of(k, c.Locker(redlock.WithNodeTimeout(time.Second)))
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		virtual.Settle()
		c.Each(func(n *fakeredis.Node) { n.Do(t, "ZPOPMIN", k.list) }, 0)
		if k.what == "reader" {
			c.Del(k.name, 0)
			reads := c.Servers[0].Do(t, "ZADD", "redquorum:readers:a", c.Clock.Wall().Add(time.Minute).UnixMilli(), lock.Value())
			require.Equal(t, int64(1), reads)
			c.Set(k.name, wire.Marker, time.Minute, 0)
		} else {
			c.Set(k.name, lock.Value(), time.Minute, 0)
		}
		c.Each(virtual.Kill, 1)
		require.ErrorIs(t, lock.Extend(ctx, 20*time.Second), redlock.ErrNoQuorum)
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		require.NoError(t, lock.Unlock(ctx))
	})
}

// Also where it had the key back meanwhile, and somebody else has it now.
func TestAHolderLeavesTheListsOnWhichItWasPreferred(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		const other = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		lock := c.of(k, c.Locker())
		c.Del(k.name, 0)
		c.Set(k.name, other, time.Minute, 0)
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		virtual.Settle()
		require.Equal(t, int64(1), c.Do(0, "EXISTS", k.list))
		c.Del(k.name, 0)
		require.NoError(t, lock.Extend(ctx, 20*time.Second))
		virtual.Settle()
		c.Del(k.name, 0)
		c.Set(k.name, other, time.Minute, 0)
		require.NoError(t, lock.Unlock(ctx))
		virtual.Settle()
		require.Equal(t, int64(0), c.Do(0, "EXISTS", k.list))
	})
}
