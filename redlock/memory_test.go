package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

var strict = redlock.WithQuarantine(redlock.QuarantineStrict)

// lockWithout acquires a lock that one node did not hear of.
func (c *cluster) lockWithout(node int, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.t.Helper()
	c.servers[node].Mute(true)
	lock, err := l.TryLock(ctx, "a", append([]redlock.LockOption{redlock.WithTTL(30 * time.Second)}, opts...)...)
	require.NoError(c.t, err)
	c.servers[node].Mute(false)
	time.Sleep(3 * time.Second)
	require.NoError(c.t, lock.Err())
	return lock
}

// refused asks that nobody else gets the lock while it is held.
func (c *cluster) refused(lock *redlock.Lock, l *redlock.Locker) {
	c.t.Helper()
	second, err := l.TryLock(ctx, "a")
	if err == nil {
		require.Error(c.t, lock.Err(), "two holders: %v and %v left", lock.Remaining(), second.Remaining())
	}
}

// A holds n1 and n2; n2 forgets; B reaches n0 and n2.
func TestAMasterThatForgetsDoesNotVoteForASecondHolder(t *testing.T) {
	durable := func(c *cluster) {
		c.servers[2].SetConfig("appendonly", "yes")
		c.servers[2].SetConfig("appendfsync", "always")
	}
	for name, forget := range map[string]func(c *cluster){
		"restart":                       func(c *cluster) { c.servers[2].Restart(false) },
		"restart, durable since":        func(c *cluster) { durable(c); c.servers[2].Restart(false) },
		"restart from an old snapshot":  func(c *cluster) { c.servers[2].RestartFromSnapshot() },
		"old snapshot, durable since":   func(c *cluster) { durable(c); c.servers[2].RestartFromSnapshot() },
		"flush":                         func(c *cluster) { c.servers[2].FlushAll() },
		"flush, twice":                  func(c *cluster) { c.servers[2].FlushAll(); time.Sleep(time.Second); c.servers[2].FlushAll() },
		"replica of an empty one":       func(c *cluster) { c.replicate(2, fakenode.New(c.clock)) },
		"replica of another master":     func(c *cluster) { c.replicate(2, c.servers[0]) },
		"replica of its own replica":    func(c *cluster) { c.servers[2].ReplicateFromSnapshot(); c.denied(2); c.servers[2].Promote() },
		"another server, connections":   func(c *cluster) { c.swap(2, fakenode.New(c.clock)) },
		"another server, old":           func(c *cluster) { c.servers[2].SwitchServer(time.Hour) },
		"INFO denied after the restart": func(c *cluster) { c.deny(2, "INFO"); c.servers[2].Restart(false) },
		"CONFIG denied as well":         func(c *cluster) { c.deny(2, "INFO", "CONFIG"); c.servers[2].RestartFromSnapshot() },
		"somebody wrote another text":   func(c *cluster) { c.do(2, "FLUSHALL"); c.do(2, "SET", pipeline.MemoryKey, "hello") },
		"somebody wrote another type": func(c *cluster) {
			c.do(2, "FLUSHALL")
			c.do(2, "ZADD", pipeline.MemoryKey, 1, "x")
		},
	} {
		for _, knew := range []bool{true, false} {
			for _, mode := range []redlock.Quarantine{redlock.QuarantineAuto, redlock.QuarantineStrict} {
				t.Run(fmt.Sprintf("%s/knew %v/mode %d", name, knew, mode), func(t *testing.T) {
					inBubble(t, 3, func(t *testing.T, c *cluster) {
						c.servers[2].Save()
						time.Sleep(20 * time.Second)
						opt := redlock.WithQuarantine(mode)
						a := c.locker(opt)
						var b *redlock.Locker
						if knew {
							b = c.locker(opt)
						}
						lock := c.lockWithout(0, a)
						forget(c)
						time.Sleep(2 * time.Second)
						if !knew {
							b = c.locker(opt)
						}
						c.refused(lock, b)
						time.Sleep(20 * time.Second)
						c.refused(lock, b)
						require.NoError(t, lock.Err(), "only a minority has forgotten it")
						bounded, cancel := context.WithTimeout(ctx, 2*time.Minute)
						defer cancel()
						second, err := b.Lock(bounded, "a")
						require.NoError(t, err)
						require.NoError(t, second.Unlock(ctx))
					})
				})
			}
		}
	}
}

// replicate makes a node a replica of another server, which somebody notices, and a master again.
func (c *cluster) replicate(i int, other *fakenode.Node) {
	c.servers[i].ReplicateFrom(other)
	time.Sleep(time.Second)
	c.servers[i].Promote()
	if !slices.Contains(c.servers, other) {
		other.Close()
	}
}

// denied has a write refused by a replica, so that connections that write end.
func (c *cluster) denied(int) {
	l := c.locker()
	_, _ = l.TryLock(ctx, "b") //nolint:errcheck // the other two grant it
	settle()
}

// swap leads an endpoint to another server. Connections to the old one end.
func (c *cluster) swap(i int, other *fakenode.Node) {
	old := c.servers[i]
	c.t.Cleanup(other.Close)
	c.servers[i] = other
	old.Disconnect()
}

func (c *cluster) deny(i int, commands ...string) {
	c.servers[i].RefuseWith("NOPERM this user has no permissions to run the command", commands...)
}

// Two masters restart one after the other, within MaxTTL, and a holder was cut off from one of
// them.
func TestRollingRestartsDoNotMakeACluster(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		a := c.locker()
		c.servers[0].Restart(false)
		time.Sleep(30 * time.Second)
		c.servers[0].Mute(true)
		lock, err := a.TryLock(ctx, "a", redlock.WithTTL(30*time.Second))
		require.NoError(t, err)
		c.servers[0].Mute(false)
		time.Sleep(3 * time.Second)
		c.servers[2].Restart(false)
		time.Sleep(2 * time.Second)
		c.refused(lock, c.locker())
		require.NoError(t, lock.Err())
	})
}

// One look at each node proves nothing: a client may have seen some of them before somebody else
// made them active.
func TestAnOldViewDoesNotMakeAForgetfulMasterActive(t *testing.T) {
	for range 10 { // which node the client asks first is left to chance
		inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
			c.servers[2].Kill()
			c.locker()
			time.Sleep(10 * time.Second) // it looks at n0 and n1 every second by now, and dials n2 more often
			for i := range 2 {           // the others had n2 with them
				text, _, _ := c.servers[i].Get(pipeline.MemoryKey)
				fields := strings.Fields(text)
				require.Equal(t, "new", fields[0])
				c.do(i, "SET", pipeline.MemoryKey, "active "+strings.Join(fields[3:], " "))
			}
			c.servers[2].Restart(false) // and now it has forgotten what they gave it
			time.Sleep(5 * time.Second)
			text, _, _ := c.servers[2].Get(pipeline.MemoryKey)
			assert.Regexp(t, "^new until ", text)
		})
	}
}

func TestANewClusterIsMetByManyAtOnce(t *testing.T) {
	inYoungBubble(t, 5, func(t *testing.T, c *cluster) {
		for i, server := range c.servers {
			delay := time.Duration(i*5) * time.Millisecond
			server.Delay(func() time.Duration { return delay }, nil)
		}
		var lockers []*redlock.Locker
		for range 10 {
			lockers = append(lockers, c.connecting())
		}
		var all sync.WaitGroup
		for i, l := range lockers {
			all.Go(func() {
				lock, err := l.TryLock(ctx, fmt.Sprint("name", i))
				if assert.NoError(t, err) {
					assert.NoError(t, lock.Unlock(ctx))
				}
			})
		}
		all.Wait()
	})
}

func TestANewClusterWaitsForItsLastMaster(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[2].Kill()
		l := c.locker()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, "a new master votes then, or at once when redis://node2:6379 is there too, or after `redlock init`")
		assert.InDelta(t, 60, l.Stats().Nodes[0].QuarantinedFor.Seconds(), 1)
		time.Sleep(2 * time.Second)
		c.servers[2].Restart(false)
		took := elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.LessOrEqual(t, took, 600*time.Millisecond, "as soon as it is connected")
		assert.Zero(t, l.Stats().Nodes[0].QuarantinedFor)
	})
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[2].Kill()
		l := c.locker(redlock.WithMaxTTL(maxTTL))
		var err error
		took := elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err, "it never comes")
		assert.InDelta(t, maxTTL.Seconds(), took.Seconds(), 0.5)
	})
}

func TestStrictTakesNoClusterForANewOne(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(strict, redlock.WithMaxTTL(maxTTL))
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, "a new master votes then, or at once after `redlock init`")
		var lock *redlock.Lock
		took := elapsed(func() { lock, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.InDelta(t, maxTTL.Seconds(), took.Seconds(), 0.5)
		require.NoError(t, lock.Unlock(ctx))
		_, err = c.locker(strict, redlock.WithMaxTTL(maxTTL)).TryLock(ctx, "a")
		require.NoError(t, err, "who comes later finds masters that vote")
	})
}

func TestInitMakesNewMastersVoteAtOnce(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[2].Kill()
		operator := c.connecting(strict)
		err := operator.Init(ctx, false)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "2 granted, 0 refused, 3 needed; redis://node2:6379: ")
		l := c.connecting(strict)
		_, err = l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[2].Restart(false)
		time.Sleep(time.Second)
		err = operator.Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined, "the others vote: it may have forgotten what they granted together")
		require.ErrorContains(t, err, "it had no memory when it was first met")
		require.NoError(t, operator.Init(ctx, true))
		require.NoError(t, operator.Init(ctx, true), "again")
		time.Sleep(time.Second)

		c.servers[1].FlushAll()
		require.NoError(t, l.Ready(ctx))
		time.Sleep(time.Second)
		err = operator.Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorContains(t, err, "redis://node1:6379: quarantined for another")
		require.NoError(t, operator.Init(ctx, true))
		var none context.Context
		require.ErrorIs(t, operator.Init(none, true), redlock.ErrInvalid)
		require.NoError(t, operator.Close())
		require.ErrorIs(t, operator.Init(ctx, false), redlock.ErrClosed)
	})
}

func TestMastersThatAllForgetGrantNothingToThoseWhoKnewThem(t *testing.T) {
	for name, forget := range map[string]func(*fakenode.Node){
		"restart": func(n *fakenode.Node) { n.Restart(false) }, "flush": (*fakenode.Node).FlushAll,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				time.Sleep(time.Minute)
				a := c.renewing(redlock.WithMaxTTL(maxTTL))
				lock, err := a.TryLock(ctx, "a")
				require.NoError(t, err)
				settle()
				for _, server := range c.servers {
					forget(server)
				}
				took := elapsed(func() { <-lock.Done() })
				assert.LessOrEqual(t, took, time.Second)
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				assert.ErrorContains(t, lock.Err(), "a quorum of nodes has restarted or lost its keys")
				b := c.locker(redlock.WithMaxTTL(maxTTL))
				_, err = b.TryLock(ctx, "b")
				require.ErrorIs(t, err, pool.ErrQuarantined)
				assert.ErrorContains(t, err, "it lost its keys, or was replaced, and may have forgotten locks")
				took = elapsed(func() { _, err = b.Lock(ctx, "b") })
				require.NoError(t, err)
				assert.InDelta(t, maxTTL.Seconds(), took.Seconds(), 1)
			})
		})
	}
}

func TestTheHolderIsToldOfAForgetfulMajorityWhereNothingElseIsAsked(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute)) // its lock is not renewed
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		c.servers[0].FlushAll()
		c.servers[1].FlushAll()
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Err(), "a minority")
		c.servers[3].FlushAll()
		took := elapsed(func() { <-lock.Done() })
		assert.LessOrEqual(t, took, time.Second)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	})
}

// What is said of a lock goes by the same votes: an extension is not confirmed by a master that
// forgot it and was healed since.
func TestAHealedMasterDoesNotVoteForAnExtension(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithMaxTTL(maxTTL))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[2].FlushAll()
		time.Sleep(time.Second)
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
		settle()
		assert.Equal(t, lock.Value(), c.holders("a")[2])
		c.servers[1].Kill()
		settle()
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrNoQuorum)
	})
}

func TestAMarkerFromAClockThatWasSetBackIsNotWaitedFor(t *testing.T) {
	inYoungBubble(t, 1, func(t *testing.T, c *cluster) {
		c.servers[0].SetClock(365*24*time.Hour, 1)
		l := c.locker(strict, redlock.WithMaxTTL(maxTTL))
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		c.servers[0].SetClock(0, 1)
		took := elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.LessOrEqual(t, took, maxTTL+2*time.Second)
	})
}

func TestTheLargerMaxTTLCounts(t *testing.T) {
	inYoungBubble(t, 1, func(t *testing.T, c *cluster) {
		short := c.locker(strict, redlock.WithMaxTTL(maxTTL))
		c.locker(strict, redlock.WithMaxTTL(time.Minute))
		_, err := short.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		took := elapsed(func() { _, err = short.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.InDelta(t, 60, took.Seconds(), 1)
	})
}

// A server that has been up for long and has no marker may have been flushed: those who knew it get
// time to say so.
func TestOldMastersWithoutAMarkerVoteASecondLater(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.locker()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, "in a moment if nobody knew it before")
		took := elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.InDelta(t, 1, took.Seconds(), 0.3)
	})
}

// durable has all servers durable, and saying so.
func (c *cluster) durable() *cluster {
	for i, server := range c.servers {
		server.SetConfig("appendonly", "yes")
		server.SetConfig("appendfsync", "always")
		marker, _, _ := server.Get(pipeline.MemoryKey)
		c.do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, " 0 ", " 1 ", 1))
	}
	return c
}

// Who never met a durable master before believes it when no other master can be the one whose
// marker it has.
func TestADurableMasterThatRestartedVotesForThoseWhoNeverMetIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		for _, server := range c.servers {
			server.Restart(true)
		}
		_, err := c.connecting(strict).TryLock(ctx, "a")
		require.NoError(t, err)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		c.servers[0].Kill()
		c.servers[1].Restart(true)
		_, err := c.connecting().TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined, "n0 may be where it has its marker from")
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.durable()
		lock := c.lockWithout(0, c.locker(), redlock.WithTTL(time.Minute))
		c.servers[2].ReplicateFrom(c.servers[0])
		c.servers[2].Promote()
		c.servers[2].Restart(true) // its second replication id is gone
		b := c.connecting()
		c.refused(lock, b)
		require.NoError(t, lock.Err())
		time.Sleep(20 * time.Second)
		c.refused(lock, b)
	})
}

// However it came about: two masters that claim one memory are both out.
func TestTwoMastersWithOneIncarnationDoNotVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		of := func(i int) []string {
			text, _, _ := c.servers[i].Get(pipeline.MemoryKey)
			return strings.Fields(text)
		}
		copied := of(2)
		copied[1] = of(1)[1]
		c.do(2, "SET", pipeline.MemoryKey, strings.Join(copied, " "))
		l := c.locker()
		settle()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorContains(t, err, "1 granted, 0 refused, 2 needed")
		settle()
		assert.Equal(t, "lost", of(1)[0])
		assert.Equal(t, "lost", of(2)[0])
	})
}

// A server that forgets soon that it was a replica is not believed that it was none.
func TestAChangedReplicationIDIsHeldAgainstAServerThatForgetsSoon(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.servers[2].SetConfig("repl-backlog-ttl", "1")
		c.servers[2].Save()
		lock := c.lockWithout(0, c.locker())
		c.servers[2].ReplicateFromSnapshot()
		c.servers[2].Promote()
		c.servers[2].DropBacklog()
		c.refused(lock, c.locker())
		require.NoError(t, lock.Err())
	})
}

// A master that has had a replica once, and lost it, is not taken for a replica that was promoted.
func TestAMasterWhoseReplicaIsLongGoneVotes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.servers[0].DropBacklog()
		l := c.locker()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
	})
}
