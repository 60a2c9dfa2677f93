package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// lockWithout acquires a lock without one node.
func (c *cluster) lockWithout(node int, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.t.Helper()
	c.servers[node].Mute(true)
	lock := c.lock(l, "a", append([]redlock.LockOption{redlock.WithTTL(30 * time.Second)}, opts...)...)
	c.servers[node].Mute(false)
	time.Sleep(3 * time.Second)
	require.NoError(c.t, lock.Err())
	return lock
}

// refused requires that nobody else gets the lock while it is held.
func (c *cluster) refused(lock *redlock.Lock, l *redlock.Locker) {
	c.t.Helper()
	second, err := l.TryLock(ctx, "a")
	if err == nil {
		require.Error(c.t, lock.Err(), "two holders, with %v and %v left", lock.Remaining(), second.Remaining())
	}
}

// A holds its lock on n1 and n2, n2 forgets, B reaches n0 and n2.
func TestAMasterThatForgetsDoesNotVoteForASecondHolder(t *testing.T) {
	for name, forget := range map[string]func(c *cluster){
		"restart":                       func(c *cluster) { c.servers[2].Restart(false) },
		"restart, durable since":        func(c *cluster) { durable(c.servers[2]); c.servers[2].Restart(false) },
		"restart from an old snapshot":  func(c *cluster) { c.servers[2].RestartFromSnapshot() },
		"old snapshot, durable since":   func(c *cluster) { durable(c.servers[2]); c.servers[2].RestartFromSnapshot() },
		"flush":                         func(c *cluster) { c.servers[2].FlushAll() },
		"flush, twice":                  func(c *cluster) { c.servers[2].FlushAll(); time.Sleep(time.Second); c.servers[2].FlushAll() },
		"replica of an empty one":       func(c *cluster) { c.replicate(2, fake.New(c.clock)) },
		"replica of another master":     func(c *cluster) { c.replicate(2, c.servers[0]) },
		"replica of its own replica":    func(c *cluster) { c.servers[2].ReplicateFromSnapshot(); c.denied(2); c.servers[2].Promote() },
		"another server, connections":   func(c *cluster) { c.swap(2, fake.New(c.clock)) },
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
						require.NoError(t, lock.Err(), "only a minority forgot it")
						second, err := b.Lock(c.within(2*time.Minute), "a")
						require.NoError(t, err)
						c.unlock(second)
					})
				})
			}
		}
	}
}

// durable makes a server keep its keys over a restart.
func durable(n *fake.Node) {
	n.SetConfig("appendonly", "yes")
	n.SetConfig("appendfsync", "always")
}

// replicate makes a node a replica of another server for long enough to be noticed, and then a
// master again.
func (c *cluster) replicate(i int, other *fake.Node) {
	c.servers[i].ReplicateFrom(other)
	time.Sleep(time.Second)
	c.servers[i].Promote()
	if !slices.Contains(c.servers, other) {
		other.Close()
	}
}

// denied has a replica refuse a write, which ends the connection that wrote.
func (c *cluster) denied(int) {
	l := c.locker()
	_, _ = l.TryLock(ctx, "b") //nolint:errcheck // the other two nodes grant it
	settle()
}

// swap points an endpoint at another server. Connections to the old one end.
func (c *cluster) swap(i int, other *fake.Node) {
	old := c.servers[i]
	c.t.Cleanup(other.Close)
	c.servers[i] = other
	old.Disconnect()
}

func (c *cluster) deny(i int, commands ...string) {
	c.servers[i].RefuseWith("NOPERM this user has no permissions to run the command", commands...)
}

// empty restarts a node without its keys.
func empty(n *fake.Node) { n.Restart(false) }

func TestMastersThatAllForgetGrantNothingToClientsThatKnewThem(t *testing.T) {
	for name, forget := range map[string]func(*fake.Node){"flush": (*fake.Node).FlushAll, "restart": empty} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				time.Sleep(time.Minute)
				lock := c.lock(c.renewing(redlock.WithMaxTTL(maxTTL)), "a")
				settle()
				c.each(forget)
				took := elapsed(func() { <-lock.Done() })
				assert.LessOrEqual(t, took, time.Second)
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				assert.ErrorContains(t, lock.Err(), "a quorum of nodes has restarted or lost its keys")
				b := c.locker(redlock.WithMaxTTL(maxTTL))
				_, err := b.TryLock(ctx, "b")
				require.ErrorIs(t, err, pool.ErrQuarantined)
				assert.ErrorContains(t, err, "it lost its keys, or was replaced, and may have forgotten locks")
				took = elapsed(func() { _, err = b.Lock(ctx, "b") })
				require.NoError(t, err)
				assert.InDelta(t, maxTTL.Seconds(), took.Seconds(), 1)
			})
		})
	}
}

// Whenever that is: the first patrol is due for an idle Locker, and later than a second after the
// lock was acquired.
func TestTheHolderIsToldOfAForgetfulMajorityWhereNothingElseIsAsked(t *testing.T) {
	for name, forget := range map[string]func(*fake.Node){"flush": (*fake.Node).FlushAll, "restart": empty} {
		for held := 100 * time.Millisecond; held < 6*time.Second; held += 700 * time.Millisecond {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				lock := c.lock(c.locker(), "a", redlock.WithTTL(time.Minute)) // it is not renewed
				time.Sleep(held)
				c.each(forget, 0, 1)
				time.Sleep(2 * time.Second)
				require.NoError(t, lock.Err(), "a minority forgot it")
				c.each(forget, 3)
				took := elapsed(func() { <-lock.Done() })
				assert.LessOrEqual(t, took, time.Second, "%s, %v", name, held)
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			})
		}
	}
}

// Extensions and Verify count the same votes: a master that forgot the lock and was healed since
// confirms neither.
func TestAHealedMasterDoesNotVoteForAnExtension(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.lock(c.locker(redlock.WithMaxTTL(maxTTL)), "a")
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

// Two masters that claim the same memory both lose their votes, however that came about.
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
		require.ErrorContains(t, err, "2 needed") // the third vote may still be out
		settle()
		assert.Equal(t, "lost", of(1)[0])
		assert.Equal(t, "lost", of(2)[0])
	})
}

// A server that soon forgets that it was a replica is not believed when it claims it was none.
func TestAServerThatSoonForgetsItWasAReplicaIsNotBelieved(t *testing.T) {
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

// A master that lost its only replica is not taken for a promoted replica.
func TestAMasterWhoseReplicaIsLongGoneVotes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.servers[0].DropBacklog()
		c.unlock(c.lock(c.locker(), "a"))
	})
}
