package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// restartWithAStep restarts a server that forgets its keys and steps its wall clock forward by an
// hour before any client asks it. Its uptime counts by that clock.
func (c *cluster) restartWithAStep(i int) {
	c.servers[i].SetInfo("uptime_in_seconds", "3600")
	c.servers[i].Restart(false)
	settle()
}

func TestAProofOfMemoryDoesNotTrustAnUptime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		known := c.locker(redlock.WithMaxTTL(maxTTL))
		c.servers[0].Stop()
		lock, err := known.TryLock(ctx, "a")
		require.NoError(t, err, "on nodes 1 and 2")
		c.servers[0].Continue()
		c.restartWithAStep(2)
		c.servers[1].Kill()
		second := c.locker(redlock.WithMaxTTL(maxTTL))
		_, err = second.TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.NoError(t, lock.Err())
		time.Sleep(maxTTL + time.Second)
		_, err = second.TryLock(ctx, "a")
		require.NoError(t, err, "what it forgot has expired")
	})
}

// Without a marker, the uptime is the only evidence at a client's first contact with a server
// (docs/safety.md, Limits). A client that knew its predecessor counts from the new connection.
func TestWithoutMarkersAnUptimeIsTrustedAtFirstContactOnly(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.instantly()
		c.grown().proofless()
		known := c.locker(redlock.WithMaxTTL(maxTTL))
		c.restartWithAStep(2)
		time.Sleep(time.Second) // the Locker reconnects
		require.ErrorIs(t, known.Stats().Nodes[2].Barred, pool.ErrQuarantined)
		assert.Greater(t, known.Stats().Nodes[2].QuarantinedFor, maxTTL-2*time.Second)
		stranger := c.locker(redlock.WithMaxTTL(maxTTL))
		assert.NoError(t, stranger.Stats().Nodes[2].Barred, "a known limit")
	})
}
