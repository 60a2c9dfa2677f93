package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

var strict = redlock.WithQuarantine(redlock.QuarantineStrict)

func TestTheModeDecidesWhetherYoungServersVote(t *testing.T) {
	for name, c := range map[string]struct {
		mode      redlock.Quarantine
		young     int
		proofless bool
		won       bool
	}{
		"auto, all young":                 {redlock.QuarantineAuto, 5, false, true},
		"auto, a young majority":          {redlock.QuarantineAuto, 3, false, false}, // new only when all are
		"auto, a young minority":          {redlock.QuarantineAuto, 2, false, true},  // the others are a quorum
		"strict, a young majority":        {redlock.QuarantineStrict, 3, false, false},
		"strict, all young":               {redlock.QuarantineStrict, 5, false, false},
		"off":                             {redlock.QuarantineOff, 5, false, true},
		"no markers, all young":           {redlock.QuarantineAuto, 5, true, true},
		"no markers, a young majority":    {redlock.QuarantineAuto, 3, true, false},
		"no markers, a young minority":    {redlock.QuarantineAuto, 2, true, true},
		"no markers, and none of them is": {redlock.QuarantineAuto, 0, true, true},
	} {
		runBubble(t, name, 5, func(t *testing.T, cluster *cluster) {
			cluster.Limit(virtual.MaxTTL)
			cluster.Grown()
			if c.proofless {
				cluster.proofless()
			}
			for _, server := range cluster.Servers[:c.young] {
				server.Restart(false)
			}
			l := cluster.Locker(redlock.WithMaxTTL(virtual.MaxTTL), redlock.WithQuarantine(c.mode))
			if !c.won {
				cluster.NoQuorum(l, pool.ErrQuarantined)
				time.Sleep(virtual.MaxTTL + time.Second)
			}
			cluster.Unlock(cluster.Lock(l, "a"))
		})
	}
}

func TestTwoEndpointsOfOneServerHaveOneVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Grown()
		c.Servers[2] = c.Servers[0]
		l := c.Locker()
		c.Unlock(c.Lock(l, "a")) // two servers are a quorum of three
		assert.ErrorContains(t, l.Stats().Nodes[2].Barred, "the same server as redis://node0:6379")
		c.Servers[1].Kill()
		synctest.Wait()
		_, err := l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, "the same server as")
		c.LeavesNothing(0)
		assert.ErrorContains(t, l.Ready(c.Within(time.Second)), "the same server as")
	})
}

func TestUnidentifiedServersVoteAndAreMarked(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range c.Servers {
			c.Deny(i, "INFO")
		}
		var log bytes.Buffer
		l := c.Locker(strict, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		c.Lock(l, "a")
		assert.True(t, l.Stats().Nodes[0].Unidentified)
		require.NoError(t, l.Close()) // no line is written from now on
		assert.Contains(t, log.String(), `level=WARN msg="node up, but without INFO`)
	})
}

// A client that never met a durable master believes it if its marker cannot come from another
// master.
func TestADurableMasterThatRestartedVotesForClientsNewToIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Grown()
		c.Durable()
		lock := c.Lock(c.Locker(strict), "a")
		virtual.Settle()
		c.Each(virtual.Restart)
		c.Lock(c.Connecting(strict), "b")
		time.Sleep(time.Second)
		require.NoError(t, lock.Verify(ctx), "nothing is forgotten")
		require.NoError(t, lock.Extend(ctx, 10*time.Second))
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Durable()
		c.Servers[0].Kill()
		c.Servers[1].Restart(true)
		_, err := c.Connecting().TryLock(ctx, "a")
		require.ErrorIs(t, err, pool.ErrQuarantined, "its marker may come from n0")
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Durable()
		lock := c.lockWithout(0, c.Locker(), redlock.WithTTL(time.Minute))
		c.Servers[2].ReplicateFrom(c.Servers[0])
		c.Servers[2].Promote()
		c.Servers[2].Restart(true) // which erases its second replication id
		b := c.Connecting()
		c.refused(lock, b)
		require.NoError(t, lock.Err())
		time.Sleep(20 * time.Second)
		c.refused(lock, b)
	})
}

func TestInitMakesNewMastersVoteAtOnce(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		operator := c.Locker(strict)
		c.Servers[2].Kill()
		virtual.Settle()
		var err error
		took := virtual.Elapsed(func() { err = admin.Of(operator).Init(ctx, false) })
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.LessOrEqual(t, took, 3*time.Second, "it does not spin")
		require.ErrorContains(t, err, "a new cluster begins when all of its masters are there, also redis://node2:6379")
		c.Servers[2].Restart(false)
		time.Sleep(time.Second)
		require.NoError(t, admin.Of(operator).Init(ctx, false))
		l := c.Connecting(strict)
		c.Lock(l, "a")
		c.Servers[2].Restart(false)
		time.Sleep(time.Second)
		err = admin.Of(operator).Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined, "the others vote, so it may have forgotten what they granted together")
		require.ErrorContains(t, err, "quarantined for another")
		require.NoError(t, admin.Of(operator).Init(ctx, true))
		require.NoError(t, admin.Of(operator).Init(ctx, true), "a second time")
		time.Sleep(time.Second)

		c.Servers[1].FlushAll()
		require.NoError(t, l.Ready(ctx))
		time.Sleep(time.Second)
		err = admin.Of(operator).Init(ctx, false)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorContains(t, err, "redis://node1:6379: quarantined for another")
		require.NoError(t, admin.Of(operator).Init(ctx, true))
		var none context.Context
		require.ErrorIs(t, admin.Of(operator).Init(none, true), redlock.ErrInvalid)
		require.NoError(t, operator.Close())
		require.ErrorIs(t, admin.Of(operator).Init(ctx, false), redlock.ErrClosed)
	})
}

func TestCloseDoesNotWaitForProofsOfMemory(t *testing.T) {
	for after := time.Duration(0); after < 500*time.Millisecond; after += 20 * time.Millisecond {
		inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Slow(100 * time.Millisecond)
			l := c.Connecting()
			time.Sleep(after)
			assert.Zero(t, virtual.Elapsed(func() { require.NoError(t, l.Close()) }), "after %v", after)
		})
	}
}

func TestInitEndsWithItsLocker(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Connecting()
		c.Each(virtual.Mute)
		done := c.Ending(func() error { return admin.Of(l).Init(ctx, false) })
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-done, redlock.ErrClosed)
	})
}

// Before it knows the cluster, a client takes the MaxTTL of a member that forgot from its marker.
func TestAClientWithALargerMaxTTLProlongsNoQuarantine(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker(redlock.WithMaxTTL(virtual.MaxTTL))
		c.Lock(l, "a")
		c.Servers[2].Kill()
		c.Servers[2].Restart(false)
		time.Sleep(2 * time.Second)
		for range 20 { // the node that answers first is random
			c.Lock(c.Locker(redlock.WithMaxTTL(6*virtual.MaxTTL)), "b").Unlock(ctx) //nolint:errcheck // whatever it says
		}
		time.Sleep(virtual.MaxTTL)
		assert.NoError(t, l.Stats().Nodes[2].Barred)
	})
}

func TestAClusterWithFewerMastersThanDoNotAnswerSaysSo(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Lock(c.Listing([]int{0}), "a")
		c.Servers[1].Kill()
		c.Servers[2].Kill()
		_, err := c.Listing([]int{0, 1, 2}).TryLock(ctx, "b")
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, "start those, or leave out the ones that are gone")
	})
}

// Whoever looks at masters that were just set up must not make them a cluster.
func TestAnOperatorLetsNoNewMasterVote(t *testing.T) {
	inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
		operator, err := admin.New(c.Servers.Endpoints(), redlock.WithQuarantine(redlock.QuarantineAuto), redlock.WithClock(c.Clock),
			redlock.WithPool(pool.WithDialer(c.Dialer())))
		require.NoError(t, err)
		defer operator.Close()
		time.Sleep(virtual.MaxTTL / 2)
		assert.Zero(t, admin.CountVotes(operator.Stats().Nodes))
		c.Unlock(c.Lock(c.Locker(), "a"))
		time.Sleep(2 * time.Second)
		assert.Equal(t, 3, admin.CountVotes(operator.Stats().Nodes), "as somebody has locked")
	})
}
