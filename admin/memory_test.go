package admin_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// lockWithout acquires a lock without one node.
func (c *cluster) lockWithout(node int, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	c.Servers[node].Mute(true)
	lock := c.Lock(l, "a", append([]redlock.LockOption{redlock.WithTTL(30 * time.Second)}, opts...)...)
	c.Servers[node].Mute(false)
	time.Sleep(3 * time.Second)
	require.NoError(c.T, lock.Err())
	return lock
}

// refused requires that nobody else gets the lock while it is held.
func (c *cluster) refused(lock *redlock.Lock, l *redlock.Locker) {
	c.T.Helper()
	second, err := l.TryLock(ctx, "a")
	if err == nil {
		require.Error(c.T, lock.Err(), "two holders, with %v and %v left", lock.Remaining(), second.Remaining())
	}
}

// A holds its lock on n1 and n2, n2 forgets, B reaches n0 and n2.
func TestAMasterThatForgetsDoesNotVoteForASecondHolder(t *testing.T) {
	for name, forget := range map[string]func(c *cluster){
		"restart":                      func(c *cluster) { c.Servers[2].Restart(false) },
		"restart, durable since":       func(c *cluster) { virtual.SetDurable(c.Servers[2]); c.Servers[2].Restart(false) },
		"restart from an old snapshot": func(c *cluster) { c.Servers[2].RestartFromSnapshot() },
		"old snapshot, durable since":  func(c *cluster) { virtual.SetDurable(c.Servers[2]); c.Servers[2].RestartFromSnapshot() },
		"flush":                        func(c *cluster) { c.Servers[2].FlushAll() },
		"flush, twice":                 func(c *cluster) { c.Servers[2].FlushAll(); time.Sleep(time.Second); c.Servers[2].FlushAll() },
		"replica of an empty one":      func(c *cluster) { c.replicate(2, fakeredis.New(c.Clock)) },
		"replica of another master":    func(c *cluster) { c.replicate(2, c.Servers[0]) },
		"replica of its own replica":   func(c *cluster) { c.Servers[2].ReplicateFromSnapshot(); c.denied(2); c.Servers[2].Promote() },
		"replica, which it soon forgets": func(c *cluster) {
			c.Servers[2].SetConfig("repl-backlog-ttl", "1")
			c.Servers[2].ReplicateFromSnapshot()
			c.denied(2)
			c.Servers[2].Promote()
			c.Servers[2].DropBacklog()
		},
		// Its uptime counts by a clock that is stepped before any client asks it.
		"restart with an hour's uptime": func(c *cluster) { c.restartWithAStep(2) },
		"another server, connections":   func(c *cluster) { c.swap(2, fakeredis.New(c.Clock)) },
		"another server, old":           func(c *cluster) { c.Servers[2].SwitchServer(time.Hour) },
		"INFO denied after the restart": func(c *cluster) { c.Deny(2, "INFO"); c.Servers[2].Restart(false) },
		"CONFIG denied as well":         func(c *cluster) { c.Deny(2, "INFO", "CONFIG"); c.Servers[2].RestartFromSnapshot() },
		"somebody wrote another text":   func(c *cluster) { c.Do(2, "FLUSHALL"); c.Do(2, "SET", pipeline.MemoryKey, "hello") },
		"somebody wrote another type": func(c *cluster) {
			c.Do(2, "FLUSHALL")
			c.Do(2, "ZADD", pipeline.MemoryKey, 1, "x")
		},
	} {
		for _, knew := range []bool{true, false} {
			for _, mode := range []redlock.Quarantine{redlock.QuarantineAuto, redlock.QuarantineStrict} {
				runBubble(t, fmt.Sprintf("%s/knew %v/mode %d", name, knew, mode), 3, func(t *testing.T, c *cluster) {
					c.Servers[2].Save()
					time.Sleep(20 * time.Second)
					c.makesNoSecondHolder(forget, knew, redlock.WithQuarantine(mode))
				})
			}
		}
	}
}

// A durable master that lost the lock, and not what vouches for it, because it loaded a part of its
// log.
func TestADurableMasterThatLoadedAPartOfItsLogDoesNotVote(t *testing.T) {
	limit := func(c *cluster) { c.Servers[2].LimitDefaultUser(true) }
	for name, row := range map[string]struct{ before, forget func(c *cluster) }{
		"it loads a part now":          {forget: limit},
		"it has for a while":           {before: limit},
		"it did, and loads all now":    {before: limit, forget: func(c *cluster) { c.Servers[2].LimitDefaultUser(false) }},
		"it may have":                  {before: func(c *cluster) { c.Deny(2, "ACL") }},
		"it may, as far as known now":  {forget: func(c *cluster) { c.Deny(2, "ACL") }},
		"its log lost its end":         {before: func(c *cluster) { c.Servers[2].SetConfig("aof-load-truncated", "yes") }},
		"its log lost its end, since":  {forget: func(c *cluster) { c.Servers[2].SetConfig("aof-load-truncated", "yes") }},
		"it does not know the setting": {forget: func(c *cluster) { c.Servers[2].SetConfig("aof-load-truncated", "?") }},
	} {
		for _, knew := range []bool{true, false} {
			runBubble(t, fmt.Sprintf("%s/knew %v", name, knew), 3, func(t *testing.T, c *cluster) {
				time.Sleep(20 * time.Second)
				if c.Durable(); row.before != nil {
					row.before(c)
				}
				c.makesNoSecondHolder(func(c *cluster) {
					if row.forget != nil {
						row.forget(c)
					}
					c.Servers[2].Restart(true)
					c.Servers[2].Expire("a")
				}, knew)
			})
		}
	}
}

// makesNoSecondHolder has A hold a lock that the last master forgets. B may have known that one.
func (c *cluster) makesNoSecondHolder(forget func(c *cluster), knew bool, opts ...redlock.Option) {
	c.T.Helper()
	a := c.Locker(opts...)
	var b *redlock.Locker
	if knew {
		b = c.Locker(opts...)
	}
	lock := c.lockWithout(0, a)
	forget(c)
	assert.NotEqual(c.T, lock.Value(), c.Holders("a")[2], "it has forgotten")
	time.Sleep(2 * time.Second)
	if !knew {
		b = c.Locker(opts...)
	}
	c.refused(lock, b)
	time.Sleep(20 * time.Second)
	c.refused(lock, b)
	require.NoError(c.T, lock.Err(), "only a minority forgot it")
	second, err := b.Lock(c.Within(2*time.Minute), "a")
	require.NoError(c.T, err)
	c.Unlock(second)
}

// replicate makes a node a replica of another server for long enough to be noticed, and then a
// master again.
func (c *cluster) replicate(i int, other *fakeredis.Node) {
	c.Servers[i].ReplicateFrom(other)
	time.Sleep(time.Second)
	c.Servers[i].Promote()
	if !slices.Contains(c.Servers, other) {
		other.Close()
	}
}

// denied has a replica refuse a write, which ends the connection that wrote.
func (c *cluster) denied(int) {
	l := c.Locker()
	_, _ = l.TryLock(ctx, "b") //nolint:errcheck // the other two nodes grant it
	virtual.Settle()
}

// swap points an endpoint at another server. Connections to the old one end.
func (c *cluster) swap(i int, other *fakeredis.Node) {
	old := c.Servers[i]
	c.T.Cleanup(other.Close)
	c.Servers[i] = other
	old.Disconnect()
}

// Whenever that is: the first health check is due for an idle Locker, and later than a second after
// the lock was acquired.
func TestTheHolderIsToldOfAForgetfulMajorityWhereNothingElseIsAsked(t *testing.T) {
	for name, forget := range map[string]func(*fakeredis.Node){"flush": (*fakeredis.Node).FlushAll, "restart": virtual.Empty} {
		for held := 100 * time.Millisecond; held < 6*time.Second; held += 700 * time.Millisecond {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				lock := c.Lock(c.Locker(), "a", redlock.WithTTL(time.Minute)) // it is not renewed
				time.Sleep(held)
				c.Each(forget, 0, 1)
				time.Sleep(2 * time.Second)
				require.NoError(t, lock.Err(), "a minority forgot it")
				c.Each(forget, 3)
				took := virtual.Elapsed(func() { <-lock.Done() })
				assert.LessOrEqual(t, took, time.Second, "%s, %v", name, held)
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				assert.ErrorContains(t, lock.Err(), "a quorum of nodes has restarted or lost its keys")
			})
		}
	}
}

// A master that the Locker has not met as active yet has no vote for its lock. When it forgets, it
// is one less that could have it all the same.
func TestTheHolderIsToldOfAForgetfulMajorityWithAMasterThatItHadNotMet(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		marker, _, _ := c.Servers[3].Get(pipeline.MemoryKey)
		c.Do(3, "SET", pipeline.MemoryKey, strings.Replace(marker, "active", "lost until 1", 1))
		c.Servers[3].OnCommand(func(command fakeredis.Command) {
			if slices.Contains(command.Args, pipeline.MemoryKey) && slices.Contains(command.Args, "active") {
				virtual.Deafen(c.Servers[3]) // nobody hears that it votes now
			}
		})
		lock, err := c.Locker().Lock(ctx, "a", redlock.WithTTL(time.Minute)) // it may wait for that one at first
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		c.Each(virtual.Empty, 0, 1)
		virtual.Undeaf(c.Servers[3])
		virtual.Empty(c.Servers[3])
		assert.LessOrEqual(t, virtual.Elapsed(func() { <-lock.Done() }), time.Second)
		assert.ErrorContains(t, lock.Err(), "a quorum of nodes has restarted or lost its keys")
	})
}

// Two masters that claim the same memory both lose their votes, however that came about.
func TestTwoMastersWithOneIncarnationDoNotVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		of := func(i int) []string {
			text, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
			return strings.Fields(text)
		}
		copied := of(2)
		copied[1] = of(1)[1]
		c.Do(2, "SET", pipeline.MemoryKey, strings.Join(copied, " "))
		l := c.Locker()
		virtual.Settle()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorContains(t, err, "2 needed") // the third vote may still be out
		virtual.Settle()
		assert.Equal(t, "lost", of(1)[0])
		assert.Equal(t, "lost", of(2)[0])
	})
}

// One look at each node proves nothing: a client may have seen some of them before another client
// made them active.
func TestAnOldViewDoesNotMakeAForgetfulMasterActive(t *testing.T) {
	for range 10 { // the node that the client asks first is random
		inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Servers[2].Kill()
			c.Locker()
			// By now the client looks at n0 and n1 every second, and dials n2 more often.
			time.Sleep(10 * time.Second)
			for i := range 2 { // as if other clients had reached n2 as well
				text, _, _ := c.Servers[i].Get(pipeline.MemoryKey)
				fields := strings.Fields(text)
				require.Equal(t, "new", fields[0])
				c.Do(i, "SET", pipeline.MemoryKey, "active "+strings.Join(fields[3:], " "))
			}
			c.Servers[2].Restart(false) // by now it has forgotten what those clients gave it
			time.Sleep(5 * time.Second)
			text, _, _ := c.Servers[2].Get(pipeline.MemoryKey)
			assert.Regexp(t, "^new until ", text)
		})
	}
}

func TestANewClusterWaitsForItsLastMaster(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Servers[2].Kill()
		l := c.Locker()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, "a new cluster begins when all of its masters are there, also redis://node2:6379")
		assert.InDelta(t, 60, l.Stats().Nodes[0].QuarantinedFor.Seconds(), 1)
		time.Sleep(2 * time.Second)
		c.Servers[2].Restart(false)
		took := virtual.Elapsed(func() { _, err = l.Lock(ctx, "a") })
		require.NoError(t, err)
		assert.LessOrEqual(t, took, 800*time.Millisecond, "as soon as the last master is connected, which is dialed every 0.5 s")
		assert.Zero(t, l.Stats().Nodes[0].QuarantinedFor)
	})
}

func TestMastersWithoutAProofOfMemoryVoteOnceTheirTimeHasPassed(t *testing.T) {
	setClocks := func(by time.Duration) func(*cluster) {
		return func(c *cluster) { c.Each(func(n *fakeredis.Node) { n.SetClock(by, 1) }) }
	}
	for name, test := range map[string]struct {
		before func(c *cluster) // the client meets them
		known  func(c *cluster) // before the first attempt
		after  func(c *cluster) // after it
		mode   redlock.Quarantine
		says   string
		votes  time.Duration
	}{
		"strict": {
			mode: redlock.QuarantineStrict, votes: virtual.MaxTTL,
			says: "a new master votes then, or at once after `redlock init`",
		},
		"a client with a larger MaxTTL": {
			known: func(c *cluster) { c.Locker(strict, redlock.WithMaxTTL(time.Minute)) },
			mode:  redlock.QuarantineStrict, votes: time.Minute, says: "quarantined for another",
		},
		"masters that all restarted": {
			known: func(c *cluster) { c.Each(virtual.Empty) }, votes: virtual.MaxTTL,
			says: "it lost its keys, or was replaced, and may have forgotten locks",
		},
		"masters that were all flushed": {
			known: func(c *cluster) { c.Each((*fakeredis.Node).FlushAll) }, votes: virtual.MaxTTL,
			says: "it is not known yet whether it remembers", // the vote comes with the news
		},
		"a clock that is set back": {
			before: setClocks(365 * 24 * time.Hour), after: setClocks(0),
			mode: redlock.QuarantineStrict, votes: virtual.MaxTTL, says: "quarantined for another",
		},
		// They may have been flushed. Clients that knew them get time to say so.
		"old masters": {
			before: func(c *cluster) { c.Grown() }, votes: time.Second,
			says: "in about a second if no client knew it before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
				do := func(what func(*cluster)) {
					if what != nil {
						what(c)
						virtual.Settle()
					}
				}
				do(test.before)
				opts := []redlock.Option{redlock.WithQuarantine(test.mode), redlock.WithMaxTTL(virtual.MaxTTL)}
				l := c.Locker(opts...)
				do(test.known)
				time.Sleep(time.Millisecond)
				_, err := l.TryLock(ctx, "a")
				require.ErrorIs(t, err, pool.ErrQuarantined)
				assert.ErrorContains(t, err, test.says)
				do(test.after)
				took := virtual.Elapsed(func() { _, err = l.Lock(ctx, "a") })
				require.NoError(t, err)
				assert.InDelta(t, test.votes.Seconds(), took.Seconds(), 0.5)
				c.Lock(c.Locker(opts...), "b") // a later client finds masters that vote
			})
		})
	}
}

// A master's first marker does not excuse what it forgot before it could prove anything.
func TestMastersThatBeginToProveAreNotANewCluster(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Grown()
		c.proofless()
		a, b := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL)), c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		lock := c.Lock(a, "a", redlock.WithTTL(virtual.MaxTTL))
		virtual.Settle()
		c.Del("a", 0) // as if n0 had never received it
		c.Servers[2].Restart(false)
		time.Sleep(time.Second)
		require.ErrorIs(t, b.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		c.Each(func(n *fakeredis.Node) { n.ReplyRaw(nil) }) // clients may use the marker now
		c.Each((*fakeredis.Node).Disconnect)
		time.Sleep(3 * time.Second)
		c.refused(lock, b)
	})
}

// The endpoint leads to another server, whose quarantine began long before the old server's last
// vote.
func TestAServerThatWaitedElsewhereIsNotTrustedSooner(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.Servers {
			c.Admit(i, virtual.MaxTTL)
		}
		a, b := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL)), c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		lock := c.Lock(a, "a", redlock.WithTTL(virtual.MaxTTL))
		virtual.Settle()
		c.Del("a", 1) // as if n1 had never received it
		other := fakeredis.New(c.Clock)
		c.swap(2, other)
		c.Admit(2, virtual.MaxTTL)
		marker, _, _ := other.Get(pipeline.MemoryKey)
		_, rest, _ := strings.Cut(marker, " ")
		now, _ := c.Do(2, "EVAL", "return redis.call('TIME')[1]", 0).([]byte)
		seconds, err := strconv.ParseInt(string(now), 10, 64)
		require.NoError(t, err)
		c.Do(2, "SET", pipeline.MemoryKey, fmt.Sprintf("new until %d %s", seconds*1000+1500, rest))
		for range 6 {
			time.Sleep(time.Second)
			c.refused(lock, b)
		}
	})
}

// A master whose last replica is long gone gets a new replication id. Another client records it in
// the marker, but nothing was forgotten.
func TestARefreshedMarkerEndsNoLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Lock(c.Renewing(), "a")
		c.Each((*fakeredis.Node).DropBacklog)
		c.Lock(c.Locker(), "b") // they are not taken for promoted replicas
		time.Sleep(20 * time.Second)
		require.NoError(t, lock.Err())
	})
}

// A client that may read the marker but not write it relies on what the servers say, and respects
// what others wrote.
func TestAUserWhoMayOnlyReadTheMarkerGetsLocks(t *testing.T) {
	inYoungBubble(t, 1, func(t *testing.T, c *cluster) {
		c.Grown()
		c.Servers[0].ReplyRaw(func(cmd []string) []byte {
			if cmd[0] != "GET" && cmd[0] != "SET" && slices.Contains(cmd, pipeline.MemoryKey) {
				return []byte("-NOPERM No permissions to access a key\r\n")
			}
			return nil
		})
		l := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		c.Unlock(c.Lock(l, "a"))
		c.Do(0, "SET", pipeline.MemoryKey, "lost until 1 "+rand.Text()+" run 0 10000 repl")
		c.NoQuorum(l)
	})
}

// A later version may add words to the marker. Whoever does not know them keeps them.
func TestWordsOfALaterVersionStayInTheMarker(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithMaxTTL(virtual.MaxTTL))
		lock := c.Lock(l, "a", redlock.WithTTL(3*time.Second))
		c.Each(func(n *fakeredis.Node) {
			marker, _, _ := n.Get(pipeline.MemoryKey)
			n.Do(t, "SET", pipeline.MemoryKey, marker+" later=1")
		})
		time.Sleep(10 * time.Second)
		require.NoError(t, lock.Err(), "it is renewed")
		c.Unlock(lock, c.Lock(l, "b"))
		require.NoError(t, admin.Of(l).Cluster().SetMaxTTL(ctx, 2*time.Minute)) // writes the markers
		c.Each(virtual.Kill, 0)
		c.Servers[0].Restart(false)
		c.Each(func(n *fakeredis.Node) {
			marker, _, _ := n.Get(pipeline.MemoryKey)
			assert.Contains(t, marker, " version=2.")
			assert.Contains(t, marker, " later=1")
		}, 1, 2)
	})
}

// It may also say that whoever does not know it must not act.
func TestWhoDoesNotKnowAFormatThatIsNeededChangesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		var before []string
		c.Each(func(n *fakeredis.Node) {
			marker, _, _ := n.Get(pipeline.MemoryKey)
			before = append(before, marker+" later=1 needs=2")
			n.Do(t, "SET", pipeline.MemoryKey, marker+" later=1 needs=2")
		})
		for _, l := range []*redlock.Locker{l, c.Locker()} { // one that was there before, and one that comes
			_, err := l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, pool.ErrQuarantined)
			require.ErrorContains(t, err, "written by a later version")
			require.Error(t, admin.Of(l).Init(ctx, true))
		}
		time.Sleep(5 * time.Minute)
		assert.Equal(t, before, c.Holders(pipeline.MemoryKey))
		for i, marker := range before { // the later version has gone
			c.Do(i, "SET", pipeline.MemoryKey, strings.TrimSuffix(marker, " needs=2"))
		}
		time.Sleep(time.Minute)
		c.Unlock(c.Lock(l, "a"))
	})
}
