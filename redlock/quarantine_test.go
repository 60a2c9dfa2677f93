package redlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

const maxTTL = 10 * time.Second

// grown lets all servers become older than any lock.
func (c *cluster) grown() *cluster {
	time.Sleep(time.Hour)
	return c
}

// The hole in other libraries: A holds its lock on n0 to n2, n2 restarts empty, B reaches n2 to n4.
func TestARestartedNodeDoesNotVoteForASecondHolder(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.grown()
		c.servers[3].Mute(true)
		c.servers[4].Mute(true)
		a := c.locker(redlock.WithMaxTTL(maxTTL))
		lock, err := a.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[3].Mute(false)
		c.servers[4].Mute(false)
		c.servers[2].Kill()
		c.servers[2].Restart(false)
		c.servers[0].Mute(true)
		c.servers[1].Mute(true)
		b := c.locker(redlock.WithMaxTTL(maxTTL))
		_, err = b.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "redis://node2:6379: quarantined for another")
		require.NoError(t, lock.Err(), "A is still the holder")
		began := time.Now()
		_, err = b.Lock(ctx, "a")
		require.NoError(t, err)
		assert.InDelta(t, 9.5, time.Since(began).Seconds(), 0.5, "once all that n2 may have forgotten has expired")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	})
}

func TestANodeThatRestartsWhileConnectedIsQuarantined(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.locker(redlock.WithMaxTTL(maxTTL))
		require.NoError(t, l.Ready(ctx))
		c.servers[0].Restart(false)
		time.Sleep(time.Second)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err, "the other two are a quorum")
		settle()
		assert.Equal(t, lock.Value(), c.holders("a")[0], "a quarantined node gets every SET")
		require.NoError(t, lock.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys(), "and every release")
		require.ErrorContains(t, l.Stats().Nodes[0].Barred, "quarantined for another")
		c.servers[1].Kill()
		synctest.Wait()
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(maxTTL)
		require.NoError(t, l.Stats().Nodes[0].Barred)
		_, err = l.TryLock(ctx, "a")
		require.NoError(t, err)
	})
}

func TestTheModeDecidesWhetherYoungServersVote(t *testing.T) {
	for name, c := range map[string]struct {
		mode  redlock.Quarantine
		young int
		won   bool
	}{
		"auto, all young":          {redlock.QuarantineAuto, 5, true},
		"auto, a young majority":   {redlock.QuarantineAuto, 3, false}, // new only when all are
		"auto, a young minority":   {redlock.QuarantineAuto, 2, true},  // the others are a quorum
		"strict, a young majority": {redlock.QuarantineStrict, 3, false},
		"strict, all young":        {redlock.QuarantineStrict, 5, false},
		"off":                      {redlock.QuarantineOff, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, cluster *cluster) {
				cluster.grown()
				for _, server := range cluster.servers[:c.young] {
					server.Restart(false)
				}
				l := cluster.locker(redlock.WithMaxTTL(maxTTL), redlock.WithQuarantine(c.mode))
				lock, err := l.TryLock(ctx, "a")
				if !c.won {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
					time.Sleep(maxTTL)
					_, err = l.Lock(ctx, "a")
					require.NoError(t, err)
					return
				}
				require.NoError(t, err)
				require.NoError(t, lock.Unlock(ctx))
			})
		})
	}
}

func TestTheHolderIsToldWhenAMajorityRestarts(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.locker(redlock.WithTTL(time.Minute))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Restart(false)
		c.servers[1].Restart(false)
		time.Sleep(time.Second)
		require.NoError(t, lock.Err(), "a minority restarted")
		work := lock.Context(ctx)
		c.servers[2].Restart(false)
		took := elapsed(func() { <-work.Done() })
		assert.LessOrEqual(t, took, time.Second)
		require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
		assert.ErrorContains(t, lock.Err(), "restarted")
	})
}

func TestOnlyStandaloneMastersAreAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		field, value, want string
	}{
		"replica":  {"role", "slave", "a replica"},
		"cluster":  {"redis_mode", "cluster", "in cluster mode"},
		"member":   {"cluster_enabled", "1", "in cluster mode"},
		"sentinel": {"redis_mode", "sentinel", "in sentinel mode"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, cl *cluster) {
				cl.servers[0].SetInfo(c.field, c.value)
				cl.servers[1].SetInfo(c.field, c.value)
				l := cl.locker()
				bounded, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				assert.ErrorContains(t, l.Ready(bounded), c.want)
				assert.ErrorContains(t, l.Stats().Nodes[0].Err, c.want)
				_, err := l.TryLock(ctx, "a")
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				assert.ErrorContains(t, err, c.want)
			})
		})
	}
}

func TestTwoEndpointsOfOneServerHaveOneVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		c.servers[2] = c.servers[0]
		l := c.locker()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err, "two servers are a quorum of three")
		require.NoError(t, lock.Unlock(ctx))
		assert.ErrorContains(t, l.Stats().Nodes[2].Barred, "the same server as redis://node0:6379")
		c.servers[1].Kill()
		synctest.Wait()
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "the same server as")
		settle()
		assert.Zero(t, c.keys())
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		assert.ErrorContains(t, l.Ready(bounded), "the same server as")
	})
}

func TestUnidentifiedServersVoteAndAreMarked(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, server := range c.servers {
			server.RefuseWith("NOPERM this user has no permissions to run the 'info' command", "INFO")
		}
		var log bytes.Buffer
		logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
		l := c.locker(redlock.WithQuarantine(redlock.QuarantineStrict), logger)
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		assert.True(t, l.Stats().Nodes[0].Unidentified)
		require.NoError(t, l.Close()) // no line is written from now on
		assert.Contains(t, log.String(), `level=WARN msg="node up, but without INFO`)
	})
}
