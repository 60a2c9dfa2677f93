package redlock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

func TestTheWireFormatMatchesOtherLibraries(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithKeyPrefix("app:"))
		lock, err := l.TryLock(ctx, "orders/42", redlock.WithTTL(3500*time.Millisecond+time.Microsecond))
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		settle()
		assert.GreaterOrEqual(t, len(lock.Value()), 26, "128 bits in base32")
		for _, server := range c.servers {
			var got [][]string
			for _, command := range server.Commands() {
				if !ofHandshake(command.Args) {
					got = append(got, command.Args)
				}
			}
			require.Len(t, got, 2)
			assert.Equal(t, []string{"SET", "app:orders/42", lock.Value(), "NX", "PX", "3500"}, got[0])
			assert.Equal(t, "EVALSHA", got[1][0])
			assert.Equal(t, []string{"1", "app:orders/42", lock.Value(), "350"}, got[1][2:])
		}
	})
}

func TestEveryAttemptHasAFreshValue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.locker()
		seen := map[string]bool{}
		for range 100 {
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			assert.False(t, seen[lock.Value()])
			seen[lock.Value()] = true
			require.NoError(t, lock.Unlock(ctx))
		}
		lock, err := l.TryLock(ctx, "a", redlock.WithOwner("worker 7"))
		require.NoError(t, err)
		value, owner, _ := strings.Cut(lock.Value(), "|")
		assert.GreaterOrEqual(t, len(value), 26)
		assert.Equal(t, "worker 7", owner)
		assert.Equal(t, []string{lock.Value()}, c.holders("a"))
		require.NoError(t, lock.Unlock(ctx))
		lock, err = l.TryLock(ctx, "a", redlock.WithValue("known to both"))
		require.NoError(t, err)
		assert.Equal(t, "known to both", lock.Value())
	})
}

func TestAMinorityThatIsAwayCostsNothing(t *testing.T) {
	for name, fault := range map[string]func(*fake.Node){
		"killed":  (*fake.Node).Kill,
		"stopped": (*fake.Node).Stop,
		"muted":   func(n *fake.Node) { n.Mute(true) },
		"one-way": func(n *fake.Node) { n.MuteReplies(true) },
		"slow":    func(n *fake.Node) { n.Delay(nil, func() time.Duration { return 200 * time.Millisecond }) },
	} {
		for _, when := range []string{"before", "between"} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, 5, func(t *testing.T, c *cluster) {
					c.instantly()
					if when == "before" {
						fault(c.servers[1])
						fault(c.servers[3])
					}
					l := c.locker()
					for i := range 20 {
						if i == 10 && when == "between" {
							fault(c.servers[1])
							fault(c.servers[3])
						}
						took := elapsed(func() {
							lock, err := l.TryLock(ctx, "a")
							require.NoError(t, err)
							require.NoError(t, lock.Extend(ctx, 20*time.Second))
							require.NoError(t, lock.Verify(ctx))
							require.NoError(t, lock.Unlock(ctx))
						})
						assert.Zero(t, took)
					}
				})
			})
		}
	}
}

func TestALockFailsWithinTheNodeTimeoutWhenAMajorityIsAway(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithNodeTimeout(150 * time.Millisecond))
		c.servers[0].Kill()
		c.servers[1].Stop()
		c.servers[2].RefuseWith("READONLY You can't write against a read only replica.", "SET")
		time.Sleep(time.Second)
		var err error
		took := elapsed(func() { _, err = l.TryLock(ctx, "a") })
		assert.LessOrEqual(t, took, 150*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, err, redlock.ErrTaken)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		assert.Equal(t, "acquire", quorum.Op)
		assert.Equal(t, "a", quorum.Name)
		assert.Equal(t, 3, quorum.Need)
		assert.Equal(t, 2, quorum.Granted)
		var nodes *multierror.Error
		require.ErrorAs(t, err, &nodes)
		var node *redlock.NodeError
		require.ErrorAs(t, err, &node)
		assert.Equal(t, "redis://node0:6379", node.Endpoint)
		for _, words := range []string{"redis://node0:6379: ", "connection refused", "redis://node2:6379: READONLY You can't"} {
			assert.ErrorContains(t, err, words)
		}
		settle()
		assert.Zero(t, c.keys(), "the other nodes' grants are undone")
		c.servers[1].Continue()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys(), "the late grant is undone too")
	})
}

func TestTheThirdRefusalOfFiveMeansTaken(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.instantly()
		holder, l := c.locker(), c.locker()
		c.servers[3].Stop()
		c.servers[4].Stop()
		_, err := holder.TryLock(ctx, "a")
		require.NoError(t, err)
		before := c.holders("a")
		var taken error
		took := elapsed(func() { _, taken = l.TryLock(ctx, "a") })
		require.ErrorIs(t, taken, redlock.ErrTaken)
		assert.NotErrorIs(t, taken, redlock.ErrNoQuorum)
		assert.Zero(t, took, "no wait for the two stopped nodes")
		var quorum *redlock.QuorumError
		require.ErrorAs(t, taken, &quorum)
		assert.Equal(t, 3, quorum.Refused)
		assert.Nil(t, quorum.Nodes)
		settle()
		assert.Equal(t, before, c.holders("a"), "the holder keeps its keys")
		c.servers[3].Continue()
		c.servers[4].Continue()
		settle()
		for _, late := range c.holders("a")[3:] { // whose SET ran first is chance
			assert.Contains(t, []string{"", before[0]}, late, "who was refused gives back what it is granted late")
		}
	})
}

func TestNodeErrorsAreNeverRefusals(t *testing.T) {
	for _, words := range []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value", "READONLY You can't write against a read only replica.",
		"NOAUTH Authentication required.", "OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.",
		"LOADING Redis is loading the dataset in memory", "MISCONF Redis is configured to save RDB snapshots", "CLUSTERDOWN The cluster is down",
	} {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			l := c.locker()
			for _, i := range []int{0, 1} {
				c.servers[i].RefuseWith(words, "SET", "EVALSHA", "EVAL")
			}
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err, "the other nodes decide")
			require.NoError(t, lock.Unlock(ctx))
			c.servers[2].RefuseWith(words, "SET", "EVALSHA", "EVAL")
			_, err = l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.Equal(t, 3, strings.Count(err.Error(), words), "%v", err)
		})
	}
}

func TestAKeyOfTheWrongTypeIsNotATakenLock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker()
		c.do(0, "ZADD", "a", 1, "x")
		c.do(1, "ZADD", "a", 1, "x")
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, lock.Unlock(ctx))
		c.do(2, "ZADD", "a", 1, "x")
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.NotErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, 3, strings.Count(err.Error(), "WRONGTYPE"), "%v", err)
	})
}

func TestALockNeedsAMajorityOfAnyNumberOfNodes(t *testing.T) {
	for nodes, may := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1, 6: 2, 7: 3} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			l := c.locker()
			for i := range may {
				c.servers[i].Kill()
			}
			synctest.Wait()
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
			c.servers[may].Kill()
			synctest.Wait()
			_, err = l.TryLock(ctx, "a")
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "%d of %d are away", may+1, nodes)
		})
	}
}
