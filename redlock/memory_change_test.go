package redlock_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// A master's first marker does not excuse what it forgot before it could prove anything.
func TestMastersThatBeginToProveAreNotANewCluster(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown().proofless()
		a, b := c.locker(redlock.WithMaxTTL(maxTTL)), c.locker(redlock.WithMaxTTL(maxTTL))
		lock, err := a.TryLock(ctx, "a", redlock.WithTTL(maxTTL))
		require.NoError(t, err)
		settle()
		c.do(0, "DEL", "a") // as if n0 had never received it
		c.servers[2].Restart(false)
		time.Sleep(time.Second)
		require.ErrorIs(t, b.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		for _, s := range c.servers { // clients may use the marker now, and reconnect
			s.ReplyRaw(nil)
			s.Disconnect()
		}
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
		lock, err := a.TryLock(ctx, "a", redlock.WithTTL(maxTTL))
		require.NoError(t, err)
		settle()
		c.do(1, "DEL", "a") // as if n1 had never received it
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
		lock, err := c.renewing().TryLock(ctx, "a")
		require.NoError(t, err)
		for _, s := range c.servers {
			s.DropBacklog()
		}
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
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		c.do(0, "SET", pipeline.MemoryKey, "lost until 1 "+rand.Text()+" run 0 10000 repl")
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}
