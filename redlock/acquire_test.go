package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestTheWireFormatMatchesOtherLibraries(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithKeyPrefix("app:"), redlock.WithOwner(""))
		lock := c.Lock(l, "orders/42", redlock.WithTTL(3500*time.Millisecond+time.Microsecond))
		c.Unlock(lock)
		virtual.Settle()
		assert.Len(t, lock.Value(), 26, "128 bits in base32")
		for _, server := range c.Servers {
			var got [][]string
			for _, command := range server.Commands() {
				if !virtual.OfHandshake(command.Args) {
					got = append(got, command.Args)
				}
			}
			require.Len(t, got, 2)
			assert.Equal(t, []string{"SET", "app:orders/42", lock.Value(), "NX", "PX", "3500"}, got[0])
			assert.Equal(t, "EVALSHA", got[1][0])
			assert.Equal(t, []string{"1", "app:orders/42", lock.Value(), "350"}, got[1][2:])
		}
		again := c.Lock(l, "orders/42", redlock.WithOwner("worker 7"))
		parts := strings.SplitN(again.Value(), "|", 3)
		assert.Len(t, parts[0], len(lock.Value()))
		assert.NotEqual(t, lock.Value(), parts[0], "each attempt has a fresh one")
		assert.Equal(t, []string{fmt.Sprintf("@%d", c.Clock.Wall().Unix()), "worker 7"}, parts[1:])
		virtual.Settle()
		assert.Equal(t, []string{again.Value()}, uniq(c.Holders("app:orders/42")))
	})
}

func TestAMinorityThatIsAwayCostsNothing(t *testing.T) {
	for name, fault := range map[string]func(*fakeredis.Node){
		"killed": virtual.Kill, "stopped": virtual.Stop, "muted": virtual.Mute, "one-way": virtual.Deafen, "slow": virtual.Delaying(0, 200*time.Millisecond),
	} {
		for _, when := range []int{0, 10} {
			runBubble(t, name, 5, func(t *testing.T, c *cluster) {
				c.Instantly()
				if when == 0 {
					c.Each(fault, 1, 3)
				}
				l, other := c.Locker(), c.Locker()
				for i := range 20 {
					if i == 10 && when == i {
						synctest.Wait() // a late refused SET of other could split the next votes
						c.Each(fault, 1, 3)
					}
					took := virtual.Elapsed(func() {
						lock := c.Lock(l, "a")
						require.NoError(t, lock.Extend(ctx, 20*time.Second))
						require.NoError(t, lock.Verify(ctx))
						c.Taken(other, "a") // the others refuse, and that decides
						c.Unlock(lock)
					})
					assert.Zero(t, took)
				}
			})
		}
	}
}

func TestALockFailsWithinTheNodeTimeoutWhenAMajorityIsAway(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithNodeTimeout(150 * time.Millisecond))
		c.Servers[0].Kill()
		c.Servers[1].Stop()
		c.Servers[2].RefuseWith("READONLY You can't write against a read only replica.", "SET")
		time.Sleep(time.Second)
		var err error
		took := virtual.Elapsed(func() { _, err = l.TryLock(ctx, "a") })
		assert.LessOrEqual(t, took, 150*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, err, redlock.ErrTaken)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		assert.Equal(t, "acquire", quorum.Op)
		assert.Equal(t, "a", quorum.Name)
		assert.Equal(t, 3, quorum.Need)
		assert.Equal(t, 2, quorum.Granted)
		var node *redlock.NodeError
		require.ErrorAs(t, err, &node)
		assert.Equal(t, "redis://node0:6379", node.Endpoint)
		for _, words := range []string{"redis://node0:6379: ", "connection refused", "redis://node2:6379: READONLY You can't"} {
			assert.ErrorContains(t, err, words)
		}
		c.LeavesNothing(0) // the other nodes' grants are undone
		c.Servers[1].Continue()
		c.LeavesNothing(time.Second) // the late grant is undone too
	})
}

func TestNodeErrorsAreNeverRefusals(t *testing.T) {
	for _, words := range []string{
		"WRONGTYPE", "READONLY You can't write against a read only replica.",
		"NOAUTH Authentication required.", "OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.",
		"LOADING Redis is loading the dataset in memory", "MISCONF Redis is configured to save RDB snapshots", "CLUSTERDOWN The cluster is down",
	} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.Locker()
			fail := func(n *fakeredis.Node) { n.RefuseWith(words, "SET", "EVALSHA", "EVAL") }
			if words == "WRONGTYPE" { // the servers' answers to the release tell such a key from a lock
				fail = func(n *fakeredis.Node) { n.Do(t, "ZADD", "a", 1, "x") }
			}
			c.Each(fail, 0, 1)
			c.Unlock(c.Lock(l, "a")) // the other nodes decide
			c.Each(fail, 2)
			_, err := l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.Equal(t, 3, strings.Count(err.Error(), words), "%v", err)
		})
	}
}

// A node that has no lock under the key is among those that decide the round. The others have one.
func TestRefusalsThatComeLaterCountInPlaceOfOneThatIsNone(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithNodeTimeout(time.Second))
		c.Do(0, "ZADD", "a", 1, "x")
		c.Set("a", "another client", time.Minute, 1, 2, 3, 4)
		c.Each(virtual.Delaying(0, 300*time.Millisecond), 3)
		c.Each((*fakeredis.Node).Stop, 4)
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.ErrorContains(t, err, "0 granted, 3 refused, 3 needed; redis://node0:6379: WRONGTYPE")
		c.Each((*fakeredis.Node).Stop, 3)
		c.NoQuorum(l)
	})
}

// No denial is possible any more, whatever the last one says.
func TestACallDoesNotWaitForARefusalThatConfirmsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithNodeTimeout(time.Second))
		for i := range c.Servers {
			c.Do(i, "ZADD", "a", 1, "x")
		}
		c.Each((*fakeredis.Node).Stop, 2)
		assert.Less(t, virtual.Elapsed(func() { c.NoQuorum(l) }), 100*time.Millisecond)
	})
}

// Those that answered have no lock, or too few have. The context ends while the last is silent.
func TestAContextThatEndsDoesNotMakeANameTaken(t *testing.T) {
	for _, locks := range []int{0, 2} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.Locker(redlock.WithNodeTimeout(2 * time.Second))
			for i := range 4 {
				if i < locks {
					c.Set("a", "another client", time.Minute, i)
				} else {
					c.Do(i, "ZADD", "a", 1, "x")
				}
			}
			c.Each((*fakeredis.Node).Stop, 4)
			_, err := l.TryLock(c.Within(500*time.Millisecond), "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.Equal(t, locks == 2, errors.Is(err, context.DeadlineExceeded), "%v: the last vote could confirm it", err)
		})
	}
}

// A node that connects gets the attempt and its release together, and the proof behind both: so its
// refusal counts when it has answered the release.
func TestARefusalCountsThatIsProvenBehindTheRelease(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithNodeTimeout(2 * time.Second))
		c.Do(0, "ZADD", "a", 1, "x")
		c.Set("a", "another client", time.Minute, 1, 2, 3)
		c.Each(virtual.Kill, 4)
		virtual.Settle()
		c.Each(virtual.Delaying(0, 20*time.Millisecond), 3)
		c.Each((*fakeredis.Node).Disconnect, 3)
		time.Sleep(time.Millisecond)
		c.Taken(l, "a")
	})
}

// The server's words for a script do not name the command that its user may not use.
func TestAMissingRightSaysWhoKnowsIt(t *testing.T) {
	const hint = "(`redlock doctor` says what to do)"
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		c.Each(func(n *fakeredis.Node) {
			n.RefuseWith("ERR The user executing the script can't run this command or subcommand", "TIME")
		})
		_, err := l.TryLock(ctx, "a", redlock.WithFencing())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, hint)
		c.Each((*fakeredis.Node).Close)
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotContains(t, err.Error(), hint)
	})
}

func TestALockNeedsAMajorityOfAnyNumberOfNodes(t *testing.T) {
	for nodes, may := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1, 6: 2, 7: 3} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			l := c.Locker()
			for i := range may {
				c.Servers[i].Kill()
			}
			synctest.Wait()
			c.Unlock(c.Lock(l, "a"))
			c.Servers[may].Kill()
			synctest.Wait()
			_, err := l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "%d of %d are away", may+1, nodes)
		})
	}
}

func TestValidityCountsFromBeforeTheFirstByte(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Instantly()
		l := c.Locker(redlock.WithDrift(0.01, 2*time.Millisecond))
		for i := range c.Servers {
			c.Each(virtual.Delaying(time.Duration(100*(i+1))*time.Millisecond, 0), i)
		}
		began := time.Now()
		lock := c.Lock(l, "a", redlock.WithTTL(10*time.Second))
		assert.Equal(t, 200*time.Millisecond, time.Since(began), "the second of three decides")
		assert.Equal(t, 10*time.Second-200*time.Millisecond-102*time.Millisecond, lock.Remaining())
		<-lock.Done()
		assert.Equal(t, 10*time.Second-102*time.Millisecond, time.Since(began), "exactly")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		for i := range 2 {
			_, left, ok := c.Servers[i].Get("a")
			assert.True(t, ok && left > 0, "every node that granted it still has it")
		}
	})
}

func TestARoundLongerThanTheTTLHasNoValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Instantly()
		l := c.Locker()
		c.Each(virtual.Delaying(0, 10*time.Millisecond))
		// Between the SETs and their replies.
		time.AfterFunc(5*time.Millisecond, func() { c.Clock.Suspend(11 * time.Second) })
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Second), redlock.WithMinHold(time.Minute))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		c.LeavesNothing(3 * time.Second)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		const least = time.Second - 12*time.Millisecond - 9*time.Millisecond
		c.Instantly()
		l := c.Locker(redlock.WithNodeTimeout(time.Second))
		c.Each(virtual.Delaying(9*time.Millisecond, 0))
		_, err := l.TryLock(ctx, "a", redlock.WithTTL(10*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoValidity)
		c.LeavesNothing(18 * time.Millisecond)

		_, err = l.TryLock(ctx, "a", redlock.WithTTL(time.Second), redlock.WithMinValidity(least))
		require.ErrorIs(t, err, redlock.ErrNoValidity, "the remaining validity must exceed the minimum")
		time.Sleep(20 * time.Millisecond)
		lock := c.Lock(l, "a", redlock.WithTTL(time.Second), redlock.WithMinValidity(least-1))
		assert.Equal(t, least, lock.Remaining())
	})
}

func TestANodeTimeoutIsNoLongerThanTheTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithNodeTimeout(time.Second))
		c.Each(virtual.Mute)
		took := virtual.Elapsed(func() {
			_, err := l.TryLock(ctx, "a", redlock.WithTTL(100*time.Millisecond))
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		})
		assert.Equal(t, 100*time.Millisecond, took)
	})
}

func TestReadyWaitsForAQuorum(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Servers[0].Kill()
		c.Servers[1].RefuseWith("NOAUTH Authentication required.")
		l := c.Locker()
		err := l.Ready(c.Within(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "redlock: no quorum: ready: 0 of 3 masters vote, 2 needed: ")
		assert.ErrorContains(t, err, "redis://node0:6379: ")
		assert.ErrorContains(t, err, "redis://node1:6379: pool: access denied: CLIENT: NOAUTH Authentication required.")
		time.AfterFunc(time.Second, func() { c.Servers[1].RefuseWith("") })
		took := virtual.Elapsed(func() { require.NoError(t, l.Ready(ctx)) })
		assert.GreaterOrEqual(t, took, time.Second)
		assert.LessOrEqual(t, took, 2*time.Second)
		stats := l.Stats()
		assert.Len(t, stats.Nodes, 3)
		assert.Error(t, stats.Nodes[0].Err)
		assert.NoError(t, stats.Nodes[2].Err)
	})
}

// A quorum has granted when the context ends, and the round that is under way then says no more.
func TestALockThatIsCutShortBetweenTwoRoundsIsNotTaken(t *testing.T) {
	apart := func(c *cluster) {
		for i := range c.Servers {
			for _, key := range []string{"a", "b", "s#1"} {
				c.Do(i, "SET", "redquorum:fence:"+key, time.Now().Add(time.Duration(i+1)*time.Second).UnixMicro())
			}
		}
	}
	cut := func(t *testing.T, c *cluster, l *redlock.Locker, op string, call func(ctx context.Context) error) {
		t.Helper()
		c.Slow(200 * time.Microsecond)
		c.Each(virtual.Delaying(0, time.Millisecond), 2) // with all three votes, a reader has its token after one round
		err := call(c.Within(300 * time.Microsecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		var told *redlock.QuorumError
		require.ErrorAs(t, err, &told)
		assert.Equal(t, op, told.Op)
		assert.Less(t, told.Granted, told.Need, "the votes are those of the round that was cut short")
		assert.Zero(t, told.Refused)
		assert.Zero(t, l.Stats().Taken)
		time.Sleep(time.Second)
	}
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l := c.Locker()
		for _, call := range []call{k.try, k.wait} {
			apart(c)
			cut(t, c, l, "acquire", func(ctx context.Context) error { _, err := call(ctx, l, redlock.WithFencing()); return err })
		}
	})
	runBubble(t, "adopted", 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		lock := c.Lock(l, "a")
		apart(c)
		cut(t, c, l, "adopt", func(ctx context.Context) error {
			_, err := l.Adopt(ctx, "a", lock.Value(), redlock.WithFencing())
			return err
		})
		c.Unlock(lock)
	})
}

// A quorum may vote at the moment at which a call looks whether one does: it must not sleep on what
// has happened. One of four masters never connects. On one processor that moment never comes.
func TestACallThatAwaitsVotersMissesNoneOfThem(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for range 150 {
		inBubble(t, 4, func(t *testing.T, c *cluster) {
			hangs := redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == c.Servers.Endpoints()[3] {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return c.Servers.Dial(ctx, network, address)
			}))
			l := c.Connecting(hangs, redlock.WithNodeTimeout(400*time.Millisecond))
			assert.Less(t, virtual.Elapsed(func() { c.Lock(l, "a") }), 100*time.Millisecond)
		})
	}
}
