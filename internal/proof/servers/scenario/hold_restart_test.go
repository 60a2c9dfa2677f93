package scenario_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// knownTTL is the TTL and the maximum TTL where nodes restart. Everything that a server forgot has
// expired that long after its start.
const knownTTL = 3 * time.Second

const inQuarantine = "quarantined for another "

// The known hole of Redlock: a node that granted, and restarts empty, would complete a second
// majority. Here it may not vote until everything that it forgot has expired, whether the other
// client knew it before or meets it only now.
func TestHoldingOutlastsARestartOfANodeOfItsMajority(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		t.Run(map[bool]string{false: "known before", true: "first contact"}[first], func(t *testing.T) {
			t.Parallel()
			c := startAged(t, knownTTL)
			opts := []redlock.Option{redlock.WithTTL(knownTTL), redlock.WithMaxTTL(knownTTL), redlock.WithNodeTimeout(knownTTL / 4), redlock.WithoutRenewal()}
			proxiesA, urlsA := c.BehindProxies(t)
			proxiesB, urlsB := c.BehindProxies(t)
			a := cluster.NewConnected(t, urlsA, opts...)
			var b *redlock.Locker
			if !first {
				b = cluster.NewConnected(t, urlsB, opts...)
			}
			leave(proxiesA[3:]...)
			leave(proxiesB[:2]...)
			awaitUp(t, a, 0, 1, 2)
			held, err := a.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			must(t, c.Masters[2].Kill())
			killed := time.Now()
			must(t, c.Masters[2].Restart())
			if first {
				b = cluster.NewLocker(t, urlsB, opts...)
			}
			awaitUp(t, b, 2, 3, 4)

			_, err = b.TryLock(t.Context(), cluster.LockName(t))
			t.Log(err)
			skipIfExpired(t, held)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.Equal(t, urlsB[2:3], nodesThatSay(t, err, inQuarantine))
			barred := b.Stats().Nodes[2].Barred
			assert.ErrorContains(t, barred, inQuarantine)

			next, err := b.Lock(t.Context(), cluster.LockName(t), redlock.WithRetry(time.Millisecond, 5*time.Millisecond))
			require.NoError(t, err)
			waited := time.Since(killed)
			requireLostBecause(t, held, "validity has ended")
			t.Logf("the next holder came %v after the restart", waited.Round(time.Millisecond))
			assert.GreaterOrEqual(t, waited, knownTTL)
			assert.Less(t, waited, knownTTL+time.Second+2*slack, "uptime counts whole seconds, and no more")
			assert.NoError(t, b.Stats().Nodes[2].Barred)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// Three of five servers restart. A client that meets them only then sees what looks like a new
// cluster. A client that knew them, or is strict, does not believe it. The holder is told at once.
func TestHoldingIsLostWhenAMajorityRestartsAndNobodyElseHoldsBeforeItHasExpired(t *testing.T) {
	t.Parallel()
	c := startAged(t, knownTTL)
	options := func(mode redlock.Quarantine) []redlock.Option {
		return []redlock.Option{
			redlock.WithTTL(knownTTL), redlock.WithMaxTTL(knownTTL), redlock.WithNodeTimeout(knownTTL / 4), redlock.WithQuarantine(mode),
			redlock.WithRetry(time.Millisecond, 5*time.Millisecond),
		}
	}
	holder := cluster.NewConnected(t, c.URLs(), options(redlock.QuarantineStrict)...)
	knew := cluster.NewConnected(t, c.URLs(), options(redlock.QuarantineAuto)...)
	held, err := holder.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	work := held.Context(t.Context())
	killed := time.Now()
	var restarts sync.WaitGroup
	for _, m := range c.Masters[:3] {
		restarts.Go(func() { assert.NoError(t, m.Restart()) })
	}
	restarts.Wait()
	<-work.Done()
	t.Logf("the holder knew %v after the first kill", time.Since(killed).Round(time.Millisecond))
	inTime := func() {
		if time.Since(killed) >= knownTTL {
			t.Skip("the machine was too slow: the lock has expired at the masters before all were asked")
		}
	}
	inTime()
	requireLostBecause(t, held, "a quorum of nodes has restarted")

	strict := cluster.NewConnected(t, c.URLs(), options(redlock.QuarantineStrict)...)
	awaitUp(t, knew, 0, 1, 2, 3, 4)
	for who, l := range map[string]*redlock.Locker{"strict": strict, "knew": knew, "holder": holder} {
		_, err = l.TryLock(t.Context(), cluster.LockName(t))
		inTime()
		require.ErrorIs(t, err, redlock.ErrNoQuorum, who)
		assert.Equal(t, c.URLs()[:3], nodesThatSay(t, err, inQuarantine), who)
	}
	t.Log(err)
	for who, l := range map[string]*redlock.Locker{"strict": strict, "knew": knew} {
		lock, err := l.Lock(t.Context(), cluster.LockName(t))
		require.NoError(t, err, who)
		assert.GreaterOrEqual(t, time.Since(killed), knownTTL, who)
		assert.Less(t, time.Since(killed), knownTTL+time.Second+2*slack, who)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}
