package admin_test

import (
	"slices"
	"strconv"
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

// proofless denies the user access to the memory marker on all servers.
func (c *cluster) proofless() { c.Each(forbidding(pipeline.MemoryKey)) }

// forbidding denies the user a key on a server.
func forbidding(key string) func(*fakeredis.Node) {
	return func(n *fakeredis.Node) {
		n.ReplyRaw(func(cmd []string) []byte {
			if slices.Contains(cmd, key) {
				return []byte("-NOPERM No permissions to access a key\r\n")
			}
			return nil
		})
	}
}

// TryLock directly follows New: the first votes arrive before the client knows that all nodes are
// young.
func TestTheFirstVotesOfAYoungClusterWaitForAllNodes(t *testing.T) {
	for _, proofless := range []bool{false, true} {
		inYoungBubble(t, 5, func(t *testing.T, c *cluster) {
			for i, server := range c.Servers {
				delay := time.Duration(i*2) * time.Millisecond
				server.Delay(func() time.Duration { return delay }, nil)
			}
			if proofless {
				c.proofless()
			}
			c.Lock(c.Connecting(), "a")
		})
	}
}

// barred requires that the lock cannot be had until maxTTL has passed, because of a quarantine.
func (c *cluster) barred(l *redlock.Locker) error {
	c.T.Helper()
	_, err := l.TryLock(ctx, "a")
	require.ErrorIs(c.T, err, redlock.ErrNoQuorum)
	require.ErrorIs(c.T, err, pool.ErrQuarantined)
	time.Sleep(virtual.MaxTTL + 10*time.Millisecond)
	c.Lock(l, "a")
	return err
}

// The server that answers after a break may know less than its uptime suggests. It may be a
// promoted replica, or one that was started after our last contact. Or it says nothing of itself.
func TestTheSuccessorOfAServerWithoutAMarkerIsQuarantinedFromItsFirstContact(t *testing.T) {
	for _, uptime := range []int{86400, 9, 0} {
		inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Grown()
			c.proofless()
			l := c.Locker(strict, redlock.WithMaxTTL(virtual.MaxTTL))
			require.NoError(t, l.Ready(ctx))
			c.Each(virtual.Kill, 0, 1)
			time.Sleep(20 * time.Second)
			if uptime > 0 {
				c.Servers[1].SetInfo("uptime_in_seconds", strconv.Itoa(uptime))
			} else {
				c.Deny(1, "INFO")
			}
			c.Servers[1].Restart(false)
			time.Sleep(time.Second)
			if err := c.barred(l); uptime > 0 {
				assert.ErrorContains(t, err, "a different server has answered here for")
			}
		})
	}
}

func TestDurabilityWithoutAMarkerIsBelievedOnlyOfAServerThatHadIt(t *testing.T) {
	for _, before := range []bool{true, false} {
		inYoungBubble(t, 1, func(t *testing.T, c *cluster) {
			c.Grown()
			c.proofless()
			if before {
				virtual.SetDurable(c.Servers[0])
			}
			l := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
			require.NoError(t, l.Ready(ctx))
			virtual.SetDurable(c.Servers[0])
			c.Servers[0].Restart(before)
			time.Sleep(time.Second)
			_, err := l.TryLock(ctx, "a")
			if before {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, pool.ErrQuarantined)
			}
		})
	}
}

// The marker could be read before and no longer can: what happened meanwhile is unknown.
func TestAServerThatNoLongerProvesItsMemoryIsQuarantined(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.Limit(virtual.MaxTTL)
		l := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		c.Unlock(c.Lock(l, "a"))
		c.proofless()
		c.NoQuorum(l)
		time.Sleep(time.Second)
		virtual.EndsOnly(c.barred(l))
	})
}

// restartWithAStep restarts a server that forgets its keys and steps its wall clock forward by an
// hour before any client asks it. Its uptime counts by that clock.
func (c *cluster) restartWithAStep(i int) {
	c.Servers[i].SetInfo("uptime_in_seconds", "3600")
	c.Servers[i].Restart(false)
	virtual.Settle()
}

// Without a marker, the uptime is the only evidence at a client's first contact with a server
// (docs/safety.md, Limits). A client that knew its predecessor counts from the new connection.
func TestWithoutMarkersAnUptimeIsTrustedAtFirstContactOnly(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Instantly()
		c.Grown()
		c.proofless()
		known := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		c.restartWithAStep(2)
		time.Sleep(time.Second) // the Locker reconnects
		require.ErrorIs(t, known.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		assert.Greater(t, known.Stats().Nodes[2].QuarantinedFor, virtual.MaxTTL-2*time.Second)
		stranger := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		assert.NoError(t, stranger.Stats().Nodes[2].Barred, "a known limit")
	})
}
