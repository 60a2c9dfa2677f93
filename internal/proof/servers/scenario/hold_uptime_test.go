package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A Redis server counts its uptime from the whole second of its start to the whole second of the
// question: a server that was started at 7.7 s says at 8.0 s that it is up for 1 s. So the uptime
// is rounded up as well as down, and a quarantine that takes it for a lower bound ends up to a
// second early.
func TestHoldingOutlastsARestartShortlyBeforeAFullSecond(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	c := startAged(t, ttl)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(ttl / 2), redlock.WithoutRenewal()}
	proxiesA, urlsA := c.BehindProxies(t)
	proxiesB, urlsB := c.BehindProxies(t)
	a := cluster.NewConnected(t, urlsA, opts...)
	leave(proxiesA[3:]...)
	leave(proxiesB[:2]...)
	awaitUp(t, a, 0, 1, 2)

	second := time.Now().Truncate(time.Second).Add(2 * time.Second)
	time.Sleep(time.Until(second.Add(-350 * time.Millisecond)))
	held, err := a.TryLock(t.Context(), cluster.LockName(t))
	if time.Now().After(second) {
		t.Skip("the machine is too slow to lock within a third of a second")
	}
	require.NoError(t, err)
	must(t, c.Masters[2].Restart())
	restarted := time.Now()
	if restarted.After(second.Add(-20 * time.Millisecond)) {
		t.Skip("the machine is too slow to restart a server within a third of a second")
	}
	time.Sleep(time.Until(second.Add(50 * time.Millisecond)))

	b := cluster.NewLocker(t, urlsB, opts...)
	awaitUp(t, b, 2, 3, 4)
	lock, err := b.TryLock(t.Context(), cluster.LockName(t))
	up := time.Since(restarted)
	if up >= ttl {
		t.Skip("the machine is too slow: the node has rightly ended its quarantine")
	}
	if left := held.Remaining(); err == nil {
		t.Errorf("two hold the lock: %v after the start of a node the other got it, with %v left to the first", up, left)
		assert.NoError(t, lock.Unlock(t.Context()))
		return
	}
	t.Log(err)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.Equal(t, urlsB[2:3], nodesThatSay(t, err, inQuarantine))
}
