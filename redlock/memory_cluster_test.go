package redlock_test

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

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Two masters restart one after the other within MaxTTL, and a holder was cut off from one of them.
func TestRollingRestartsDoNotMakeANewCluster(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		a := c.locker()
		c.servers[0].Restart(false)
		time.Sleep(30 * time.Second)
		lock := c.lockWithout(0, a)
		c.servers[2].Restart(false)
		time.Sleep(2 * time.Second)
		c.refused(lock, c.locker())
		require.NoError(t, lock.Err())
	})
}

// One look at each node proves nothing: a client may have seen some of them before another client
// made them active.
func TestAnOldViewDoesNotMakeAForgetfulMasterActive(t *testing.T) {
	for range 10 { // the node that the client asks first is random
		inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
			c.servers[2].Kill()
			c.locker()
			// By now the client looks at n0 and n1 every second, and dials n2 more often.
			time.Sleep(10 * time.Second)
			for i := range 2 { // as if other clients had reached n2 as well
				text, _, _ := c.servers[i].Get(pipeline.MemoryKey)
				fields := strings.Fields(text)
				require.Equal(t, "new", fields[0])
				c.do(i, "SET", pipeline.MemoryKey, "active "+strings.Join(fields[3:], " "))
			}
			c.servers[2].Restart(false) // by now it has forgotten what those clients gave it
			time.Sleep(5 * time.Second)
			text, _, _ := c.servers[2].Get(pipeline.MemoryKey)
			assert.Regexp(t, "^new until ", text)
		})
	}
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
		assert.LessOrEqual(t, took, 800*time.Millisecond, "as soon as the last master is connected, which is dialed every 0.5 s")
		assert.Zero(t, l.Stats().Nodes[0].QuarantinedFor)
	})
}

func TestMastersWithoutAProofOfMemoryVoteOnceTheirTimeHasPassed(t *testing.T) {
	setClocks := func(by time.Duration) func(*cluster) {
		return func(c *cluster) { c.each(func(n *fake.Node) { n.SetClock(by, 1) }) }
	}
	for name, test := range map[string]struct {
		before, after func(c *cluster) // the first attempt
		mode          redlock.Quarantine
		says          string
		votes         time.Duration
	}{
		"a new cluster whose last master never comes": {
			before: func(c *cluster) { c.servers[2].Kill() }, votes: maxTTL,
			says: "a new master votes then, or at once when redis://node2:6379 is there too, or after `redlock init`",
		},
		"strict": {
			mode: redlock.QuarantineStrict, votes: maxTTL,
			says: "a new master votes then, or at once after `redlock init`",
		},
		"a client with a larger MaxTTL": {
			before: func(c *cluster) { c.locker(strict, redlock.WithMaxTTL(time.Minute)) },
			mode:   redlock.QuarantineStrict, votes: time.Minute, says: "quarantined for another",
		},
		"a clock that is set back": {
			before: setClocks(365 * 24 * time.Hour), after: setClocks(0),
			mode: redlock.QuarantineStrict, votes: maxTTL, says: "quarantined for another",
		},
		// They may have been flushed. Clients that knew them get time to say so.
		"old masters": {
			before: func(c *cluster) { c.grown() }, votes: time.Second,
			says: "in about a second if no client knew it before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
				if test.before != nil {
					test.before(c)
				}
				opts := []redlock.Option{redlock.WithQuarantine(test.mode), redlock.WithMaxTTL(maxTTL)}
				l := c.locker(opts...)
				_, err := l.TryLock(ctx, "a")
				require.ErrorIs(t, err, pool.ErrQuarantined)
				assert.ErrorContains(t, err, test.says)
				if test.after != nil {
					test.after(c)
				}
				took := elapsed(func() { _, err = l.Lock(ctx, "a") })
				require.NoError(t, err)
				assert.InDelta(t, test.votes.Seconds(), took.Seconds(), 0.5)
				c.lock(c.locker(opts...), "b") // a later client finds masters that vote
			})
		})
	}
}

// One master of a new cluster dies between the two looks. The others vote once their time has
// passed.
func TestANewClusterThatLosesAMasterAtTheSecondLookVotesInTime(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		asked := 0
		c.servers[2].Delay(func() time.Duration { return time.Millisecond }, nil)
		c.servers[2].ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && slices.Contains(cmd, pipeline.MemoryKey) {
				if asked++; asked >= 2 { // the second look, and all that follows
					return []byte("!")
				}
			}
			return nil
		})
		l := c.locker(redlock.WithMaxTTL(maxTTL))
		time.Sleep(20 * time.Millisecond)
		c.servers[2].Kill()
		time.Sleep(2 * maxTTL)
		c.lock(l, "a")
	})
}

// A master's first marker does not excuse what it forgot before it could prove anything.
func TestMastersThatBeginToProveAreNotANewCluster(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown().proofless()
		a, b := c.locker(redlock.WithMaxTTL(maxTTL)), c.locker(redlock.WithMaxTTL(maxTTL))
		lock := c.lock(a, "a", redlock.WithTTL(maxTTL))
		settle()
		c.del("a", 0) // as if n0 had never received it
		c.servers[2].Restart(false)
		time.Sleep(time.Second)
		require.ErrorIs(t, b.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		c.each(func(n *fake.Node) { n.ReplyRaw(nil) }) // clients may use the marker now
		c.each((*fake.Node).Disconnect)
		time.Sleep(3 * time.Second)
		c.refused(lock, b)
	})
}

// The endpoint leads to another server, whose quarantine began long before the old server's last
// vote.
func TestAServerThatWaitedElsewhereIsNotTrustedSooner(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.admit(i, maxTTL)
		}
		a, b := c.locker(redlock.WithMaxTTL(maxTTL)), c.locker(redlock.WithMaxTTL(maxTTL))
		lock := c.lock(a, "a", redlock.WithTTL(maxTTL))
		settle()
		c.del("a", 1) // as if n1 had never received it
		other := fake.New(c.clock)
		c.swap(2, other)
		c.admit(2, maxTTL)
		marker, _, _ := other.Get(pipeline.MemoryKey)
		_, rest, _ := strings.Cut(marker, " ")
		now, _ := c.do(2, "EVAL", "return redis.call('TIME')[1]", 0).([]byte)
		seconds, err := strconv.ParseInt(string(now), 10, 64)
		require.NoError(t, err)
		c.do(2, "SET", pipeline.MemoryKey, fmt.Sprintf("new until %d %s", seconds*1000+1500, rest))
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
		lock := c.lock(c.renewing(), "a")
		c.each((*fake.Node).DropBacklog)
		c.locker()
		time.Sleep(20 * time.Second)
		require.NoError(t, lock.Err())
	})
}

// A client that may read the marker but not write it relies on what the servers say, and respects
// what others wrote.
func TestAUserWhoMayOnlyReadTheMarkerGetsLocks(t *testing.T) {
	inYoungBubble(t, 1, func(t *testing.T, c *cluster) {
		c.grown()
		c.servers[0].ReplyRaw(func(cmd []string) []byte {
			if cmd[0] != "GET" && cmd[0] != "SET" && slices.Contains(cmd, pipeline.MemoryKey) {
				return []byte("-NOPERM No permissions to access a key\r\n")
			}
			return nil
		})
		l := c.locker(redlock.WithMaxTTL(maxTTL))
		c.unlock(c.lock(l, "a"))
		c.do(0, "SET", pipeline.MemoryKey, "lost until 1 "+rand.Text()+" run 0 10000 repl")
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}
