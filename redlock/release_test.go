package redlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// A node that missed the SET is healed, and its connection breaks before the release that follows.
func TestReleaseIsKeptForANodeThatIsHealed(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Servers[0].Kill()
		l := c.Locker(redlock.WithTTL(time.Minute))
		time.Sleep(time.Second)
		lock := c.Lock(l, "a")
		c.Servers[0].Restart(true)
		time.Sleep(10 * time.Second) // it is connected again, after a pause at random
		c.Each(virtual.Delaying(50*time.Millisecond, 50*time.Millisecond))
		require.NoError(t, lock.Extend(ctx, time.Minute))
		for c.Holders("a")[0] == "" {
			time.Sleep(time.Millisecond)
		}
		c.Servers[0].Kill() // with the reply of the script that heals
		c.Unlock(lock)
		c.Servers[0].Restart(true)
		c.LeavesNothing(5 * time.Second)
	})
}

// A server that answers a script with an error may have run part of it.
func TestAReleaseIsKeptForANodeWhoseScriptFailedMidway(t *testing.T) {
	for words, kept := range map[string]bool{
		"ERR user_script:12: something went wrong":                      true,
		"NOPERM this user has no permissions to access one of the keys": true,
		"OOM command not allowed when used memory > 'maxmemory'.":       false,
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Locker(redlock.WithFencing(), redlock.WithTTL(time.Minute))
			c.know(l)
			c.Servers[0].RefuseWith(words, "EVALSHA")
			c.Each(virtual.Delaying(time.Millisecond, 0), 1, 2) // a refusal after the lock is won is not looked at
			lock := c.Lock(l, "a")
			virtual.Settle()
			c.Servers[0].RefuseWith("", "EVALSHA")
			c.Set("a", lock.Value(), time.Minute, 0) // the part of the script that ran
			c.Servers[0].Kill()
			c.Unlock(lock)
			time.Sleep(5 * time.Second)
			c.Servers[0].Restart(true)
			time.Sleep(5 * time.Second)
			assert.Equal(t, kept, c.Holders("a")[0] == "", words)
		})
	}
}

func TestCloseReleasesMoreThanTheNodesCanQueue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithTTL(time.Minute))
		for i := range 33_500 {
			c.Lock(l, strconv.Itoa(i))
		}
		require.NoError(t, l.Close())
		c.LeavesNothing(0)
	})
}

// Close releases so many locks that it waits for the first before the last.
func TestALockThatCloseIsAboutToReleaseIsReleased(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Locker()
		var locks []*redlock.Lock
		for i := range 4097 {
			locks = append(locks, c.Lock(l, strconv.Itoa(i)))
		}
		c.Slow(2 * time.Millisecond)
		closed := c.Ending(l.Close)
		time.Sleep(time.Millisecond)
		last := slices.IndexFunc(locks, func(lock *redlock.Lock) bool { return lock.Err() == nil })
		require.GreaterOrEqual(t, last, 0)
		require.ErrorIs(t, locks[last].Verify(ctx), redlock.ErrReleased)
		require.ErrorIs(t, locks[last].Extend(ctx, time.Second), redlock.ErrReleased)
		require.NoError(t, locks[last].Err(), "it will be")
		require.NoError(t, <-closed)
	})
}

// Before the undo of a lost lock is due, or at the very moment in which the schedule calls back for
// it.
func TestCloseUndoesLocksThatWereLostAtOnce(t *testing.T) {
	const due = 102 * time.Millisecond
	waits := []time.Duration{0}
	for k := -20; k <= 20; k++ {
		waits = append(waits, due+time.Duration(k)*100*time.Microsecond)
	}
	for _, wait := range waits {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing(redlock.WithTTL(10 * time.Second))
			lock := c.Lock(l, "a")
			time.Sleep(3 * time.Second) // the first renewal is next, and reaches one node of three
			c.Each(virtual.Kill, 0, 1)
			<-lock.Done()
			require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			require.Equal(t, lock.Value(), c.Holders("a")[2], "it is undone once the other nodes have forgotten it")
			time.Sleep(wait)
			c.Each(virtual.Restart, 0, 1)
			took := virtual.Elapsed(func() { require.NoError(t, l.Close()) })
			assert.Less(t, took, time.Second+time.Millisecond)
			assert.Empty(t, c.Holders("a")[2])
		})
	}
}

func TestCloseWaitsForARestartToDeliverARelease(t *testing.T) {
	for _, away := range absences() {
		runBubble(t, away.how, 3, func(t *testing.T, c *cluster) {
			l := c.Locker(redlock.WithTTL(time.Minute))
			lock := c.Lock(l, "a")
			virtual.Settle()
			c.Each(away.leave, 2)
			c.Unlock(lock)
			time.AfterFunc(400*time.Millisecond, func() { c.Each(away.back, 2) })
			require.NoError(t, l.Close())
			assert.Zero(t, c.Keys())
		})
	}
}

// In virtual time, nothing that waits may wait for a mutex of somebody who waits for time to pass.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithTTL(time.Minute))
		c.Lock(l, "a")
		virtual.Settle()
		c.Each(virtual.Kill, 2)
		virtual.Settle()
		told := make(chan error, 2)
		for range 2 {
			go func() { told <- l.Close() }()
		}
		first, second := <-told, <-told
		require.ErrorIs(t, first, redlock.ErrUndelivered)
		assert.Equal(t, first, second)
	})
}

func TestCloseTellsWhichNodesHaveNotAnsweredTheirReleases(t *testing.T) {
	for _, away := range absences() {
		runBubble(t, away.how, 3, func(t *testing.T, c *cluster) {
			var log bytes.Buffer
			l := c.Locker(redlock.WithTTL(time.Minute), redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			c.Lock(l, "a")
			c.Lock(l, "b")
			virtual.Settle()
			c.Each(away.leave, 2)
			virtual.Settle()
			var err error
			took := virtual.Elapsed(func() { err = l.Close() })
			assert.LessOrEqual(t, took, 2*time.Second)
			require.ErrorIs(t, err, redlock.ErrUndelivered)
			var node *redlock.NodeError
			require.ErrorAs(t, err, &node)
			assert.Equal(t, "redis://node2:6379", node.Endpoint)
			assert.Regexp(t, `^redlock: releases not delivered: redis://node2:6379: 2 of them: `, err.Error())
			assert.NotContains(t, err.Error(), "\n")
			assert.Equal(t, err, l.Close(), "a second call returns the same")
			assert.EqualValues(t, 2, l.Stats().Nodes[2].Dropped)
			assert.Contains(t, log.String(), "not delivered")
			c.Each(away.back, 2)
		})
	}
}

func TestCloseDoesNotWaitForANodeThatHasNothingOfOurs(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Instantly()
		c.Servers[2].Kill()
		l := c.Locker(redlock.WithTTL(time.Minute))
		c.Lock(l, "a")
		virtual.Settle()
		assert.Zero(t, virtual.Elapsed(func() { require.NoError(t, l.Close()) }))
		assert.Zero(t, c.Keys())
	})
}

func TestCloseWaitsForWhatAnAdoptionTookToBeGivenBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		old, adopter := c.Lock(c.Locker(), "a"), c.Locker()
		virtual.Settle()
		c.Each(virtual.Deafen)
		_, err := adopter.Adopt(ctx, "a", old.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotContains(t, c.Holders("a"), "")
		time.AfterFunc(time.Second, func() { c.Each(virtual.Undeaf) })
		require.NoError(t, adopter.Close())
		assert.Equal(t, []string{old.Value()}, uniq(c.Holders("a")))
		assert.Empty(t, c.notes())
	})
}

func TestCloseLeavesTheReleasesOfSharedNodesToThem(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Instantly()
		var nodes []*pool.Node
		for _, endpoint := range c.Servers.Endpoints() {
			node, err := pool.NewNode(endpoint, pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
			require.NoError(t, err)
			defer node.Close()
			nodes = append(nodes, node)
		}
		l, err := redlock.NewFromNodes(nodes)
		require.NoError(t, err)
		c.Lock(l, "a")
		virtual.Settle()
		c.Servers[2].Kill()
		virtual.Settle()
		assert.Zero(t, virtual.Elapsed(func() { require.NoError(t, l.Close()) }))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		assert.Equal(t, 1, nodes[2].Drain(ended), "left")
		c.Servers[2].Restart(true)
		assert.Zero(t, nodes[2].Drain(ctx))
		assert.Zero(t, c.Keys())
		assert.Zero(t, nodes[2].Stats().Dropped)
	})
}

func TestANodeThatIsClosedCountsTheReleasesThatItDrops(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		node, err := pool.NewNode(c.Servers.Endpoints()[0], pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
		require.NoError(t, err)
		l, err := redlock.NewFromNodes([]*pool.Node{node})
		require.NoError(t, err)
		c.Lock(l, "a")
		c.Servers[0].Kill()
		virtual.Settle()
		require.NoError(t, l.Close())
		require.NoError(t, node.Close())
		assert.EqualValues(t, 1, node.Stats().Dropped)
		assert.Zero(t, node.Drain(ctx), "nothing is left that may be delivered")
	})
}

// cut is a connection on which what was sent arrives, and nothing can be written any more.
type cut struct {
	net.Conn
	off *atomic.Bool
}

func (c cut) Write(b []byte) (int, error) {
	if c.off.Load() {
		_ = c.Close()
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(b)
}

// cutting makes connections to masters that can be cut off.
func (c *cluster) cutting(off []atomic.Bool) redlock.Option {
	return redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		i := slices.Index(c.Servers.Endpoints(), address)
		if off[i].Load() {
			return nil, syscall.ECONNREFUSED
		}
		conn, err := c.Servers.Dial(ctx, network, address)
		return cut{conn, &off[i]}, err
	}))
}

// keepsForTheCutOff takes a lock of which one master was cut off behind its vote, and releases it.
func (c *cluster) keepsForTheCutOff(l *redlock.Locker, off []atomic.Bool, acquired <-chan *redlock.Lock) {
	c.T.Helper()
	lock := <-acquired
	at := 0
	for at < len(off)-1 && !off[at].Load() {
		at++
	}
	require.True(c.T, off[at].Load())
	c.Unlock(lock)
	assert.NotZero(c.T, l.Stats().Nodes[at].Kept, "the release is kept")
	virtual.SetAll(off, false)
	time.Sleep(time.Second)
	assert.Zero(c.T, l.Stats().Nodes[at].Kept)
	assert.Empty(c.T, c.Holders(lock.Name())[at])
}

// The question that confirms the vote cannot be sent any more.
func TestAVoteThatWasHandedOverIsNotForgotten(t *testing.T) {
	everywhere := kinds()[0]
	everywhere.what = "a place at every node"
	everywhere.wait = func(ctx context.Context, l *redlock.Locker, _ ...redlock.LockOption) (*redlock.Lock, error) {
		return redlock.LockOvertaken(ctx, l, "a")
	}
	test := func(t *testing.T, c *cluster, k kind) {
		t.Helper()
		off := make([]atomic.Bool, 3)
		l := c.Locker(c.cutting(off))
		holder := c.allOf(k, c.Locker())
		got := c.queue(k, l, redlock.WithTTL(time.Minute))
		var once atomic.Bool
		for i, server := range c.Servers {
			server.OnCommand(func(fakeredis.Command) {
				if value, _, _ := server.Get(k.name); value != "" && value != holder.Value() && once.CompareAndSwap(false, true) {
					off[i].Store(true)
				}
			})
		}
		c.Unlock(holder)
		c.keepsForTheCutOff(l, off, got)
	}
	eachKind(t, 3, test)
	runBubble(t, everywhere.what, 3, func(t *testing.T, c *cluster) { test(t, c, everywhere) })
}

// A waiter that asks one master first, then asks all for the slot that it gave.
func TestAPermitThatOneMasterGaveIsNotForgotten(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		off := make([]atomic.Bool, 3)
		l := c.Locker(c.cutting(off))
		s := c.Permits("s", 1)
		c.Unlock(c.Permit(s)) // the masters know the number
		c.Set("s#1", "DIEDAAAAAAAAAAAAAAAAAAAAAA", 2*time.Second)
		waits, err := l.Semaphore("s", 1)
		require.NoError(t, err)
		got := c.Queued(func() (*redlock.Lock, error) {
			return waits.Acquire(c.Within(virtual.Patience), redlock.WithTTL(time.Minute))
		})
		var once atomic.Bool
		for i, server := range c.Servers {
			server.OnCommand(func(cmd fakeredis.Command) {
				value, _, _ := server.Get("s#1")
				if strings.HasPrefix(cmd.Args[0], "EVAL") && value != "" && slices.Contains(cmd.Args, value) && once.CompareAndSwap(false, true) {
					off[i].Store(true)
				}
			})
		}
		c.keepsForTheCutOff(l, off, got)
	})
}

// The last vote comes after the verdict: as an answer, or as none.
func TestTheVotesOfALossAreThoseThatDecidedIt(t *testing.T) {
	for name, last := range map[string]func(*fakeredis.Node){"an answer": virtual.Delaying(10*time.Millisecond, 0), "none": virtual.Mute} {
		eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
			lock := c.of(k, c.Locker())
			c.Each(func(n *fakeredis.Node) {
				for _, key := range n.Keys() {
					if key != pipeline.MemoryKey && key != pipeline.RegisterKey {
						n.Do(t, "DEL", key)
					}
				}
			})
			c.Each(last, 2)
			first := lock.Unlock(ctx)
			require.ErrorIs(t, first, redlock.ErrLost, name)
			time.Sleep(5 * time.Second)
			again := lock.Unlock(ctx)
			require.Error(t, again)
			assert.Equal(t, first.Error(), again.Error(), name)
		})
	}
}

// A program that repeats a failed release until it succeeds must come to an end.
func TestUnlockAgainTellsTheReleaseAsItIsNow(t *testing.T) {
	one := func(_ *redlock.Locker, lock *redlock.Lock) error { return lock.Unlock(ctx) }
	ways := map[string]struct {
		opts   func(k kind) []redlock.LockOption // nil if the kind has none of these
		unlock func(l *redlock.Locker, lock *redlock.Lock) error
	}{
		"Unlock":      {func(kind) []redlock.LockOption { return []redlock.LockOption{} }, one},
		"WithFencing": {func(kind) []redlock.LockOption { return []redlock.LockOption{redlock.WithFencing()} }, one},
		"WithMinHold": {func(k kind) []redlock.LockOption {
			return map[bool][]redlock.LockOption{true: {redlock.WithMinHold(30 * time.Second)}}[k.holds]
		}, one},
		"UnlockAll": {
			func(kind) []redlock.LockOption { return []redlock.LockOption{} },
			func(l *redlock.Locker, _ *redlock.Lock) error { return l.UnlockAll(ctx) },
		},
	}
	for name, way := range ways {
		for i, a := range absences() {
			if i > 0 && name != "Unlock" && !virtual.Thorough() {
				continue
			}
			eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
				opts := way.opts(k)
				if opts == nil {
					return
				}
				l := c.Locker()
				lock := c.of(k, l, append(opts, redlock.WithTTL(time.Minute))...)
				c.Each(a.leave, 1, 2)
				for range 3 {
					began := time.Now()
					require.ErrorIs(t, way.unlock(l, lock), redlock.ErrNoQuorum, "%s, %s", name, a.how)
					assert.Less(t, time.Since(began), 510*time.Millisecond, "the node timeout is 500 ms")
					time.Sleep(time.Second)
				}
				c.Each(a.back, 1, 2)
				time.Sleep(time.Second)
				if a.how == absences()[0].how { // a master that was restarted has no vote for MaxTTL
					time.Sleep(time.Minute)
				}
				for range 2 {
					require.NoError(t, way.unlock(l, lock), "%s, %s", name, a.how)
				}
				if name == "WithMinHold" {
					time.Sleep(time.Minute)
				}
				c.Unlock(c.of(k, c.Locker()))
			})
		}
	}
}

// A master that does not answer takes its time once, also where there are locks of an UnlockAll
// before.
func TestUnlockAllWaitsForSilentMastersOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithTTL(time.Minute))
		release := func(name string) time.Duration {
			c.Lock(l, name)
			c.Each(virtual.Mute, 1, 2)
			began := time.Now()
			require.ErrorIs(t, l.UnlockAll(ctx), redlock.ErrNoQuorum)
			took := time.Since(began)
			c.Each(virtual.Unmute, 1, 2)
			time.Sleep(time.Second)
			return took
		}
		assert.InDelta(t, 500, release("first").Milliseconds(), 1)
		assert.InDelta(t, 500, release("second").Milliseconds(), 1, "with the release of the first one")
	})
}

// A master that does not answer takes its time once, also where others ask anew meanwhile for a
// lock that UnlockAll releases.
func TestUnlockAllWaitsForItsOwnReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithoutRenewal())
		acquire := func(name string, ttl time.Duration) *redlock.Lock {
			lock, err := l.TryLock(ctx, name, redlock.WithTTL(ttl))
			require.NoError(t, err)
			return lock
		}
		acquire("slow", 2*time.Second)
		time.Sleep(1800 * time.Millisecond)
		quick := acquire("quick", 400*time.Millisecond) // it ends behind the other, with a fifth of its timeout
		c.Each(virtual.Mute, 1, 2)
		began, took := time.Now(), make(chan time.Duration, 1)
		go func() {
			assert.ErrorIs(t, l.UnlockAll(ctx), redlock.ErrNoQuorum)
			took <- time.Since(began)
		}()
		time.Sleep(90 * time.Millisecond)
		assert.ErrorIs(t, quick.Unlock(ctx), redlock.ErrNoQuorum, "it asks anew, for 20 ms")
		assert.Equal(t, int64(100), (<-took).Milliseconds())
	})
}

// A release that failed at a node is made again: it has not been run there.
func TestUnlockAgainReleasesWhereItFailed(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		lock := c.of(k, c.Locker(), redlock.WithTTL(time.Minute))
		virtual.Settle()
		c.Each(func(n *fakeredis.Node) {
			n.RefuseWith("NOPERM this user has no permissions to run the 'evalsha' command", "EVALSHA")
		}, 1, 2)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNoQuorum)
		c.Each(func(n *fakeredis.Node) { n.RefuseWith("", "EVALSHA") }, 1, 2)
		for range 2 {
			require.NoError(t, lock.Unlock(ctx))
			assert.Equal(t, []string{""}, uniq(c.Holders(k.name)[1:]))
		}
		c.Unlock(c.of(k, c.Locker()))
	})
}

// Masters that forgot the release are asked again: no such release is kept.
func TestUnlockAgainReleasesWhatWasNotKept(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		lock := c.Lock(l, "a", redlock.WithTTL(time.Minute))
		c.Each(virtual.Mute, 1, 2)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNoQuorum)
		c.Each(virtual.Unmute, 1, 2)
		time.Sleep(time.Second)
		c.Set("a", lock.Value(), time.Minute, 1, 2)
		require.NoError(t, lock.Unlock(ctx))
		c.LeavesNothing(time.Second)
	})
}
