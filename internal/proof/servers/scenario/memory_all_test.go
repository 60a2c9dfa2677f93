package scenario_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestMemoryLossOfAllMastersAtOnce(t *testing.T) {
	t.Parallel()
	strict := append([]redlock.Option{redlock.WithQuarantine(redlock.QuarantineStrict)}, memoryOptions...)
	for name, test := range map[string]struct {
		knew bool
		opts []redlock.Option
	}{"somebody knew them": {true, memoryOptions}, "strict": {false, strict}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 3)
			first := cluster.NewConnected(t, c.URLs(), memoryOptions...)
			held, err := first.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			if !test.knew {
				must(t, first.Close())
			}
			began := time.Now()
			var restarts sync.WaitGroup
			for _, m := range c.Masters {
				restarts.Go(func() { assert.NoError(t, m.Restart()) })
			}
			restarts.Wait()
			if test.knew {
				<-held.Done()
				requireLostBecause(t, held, "a quorum of nodes has restarted or lost its keys")
				cluster.Eventually(t, slack, func() string { // it says so to the others
					for _, node := range first.Stats().Nodes {
						if node.QuarantinedFor == 0 {
							return node.Endpoint + " is quarantined"
						}
					}
					return ""
				})
			}
			b := cluster.NewConnected(t, c.URLs(), test.opts...)
			_, err = b.TryLock(t.Context(), "another")
			require.ErrorIs(t, err, pool.ErrQuarantined)
			t.Log(err)
			_, err = b.Lock(t.Context(), "another")
			require.NoError(t, err)
			assert.Greater(t, time.Since(began), memoryTTL-time.Second)
			assert.Less(t, time.Since(began), memoryTTL+5*slack)
		})
	}
	// The one case that QuarantineAuto mistakes for a new cluster.
	t.Run("nobody is there who knew them", func(t *testing.T) {
		t.Parallel()
		c := cluster.Start(t, 3)
		for _, m := range c.Masters {
			must(t, m.Restart())
		}
		_, err := cluster.NewConnected(t, c.URLs(), memoryOptions...).TryLock(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
	})
}

func TestMemoryOfANewClusterThatManyMeetAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.StartYoung(t, 5)
	var all sync.WaitGroup
	for i := range 10 {
		l, err := redlock.New(c.URLs(), redlock.WithNodeTimeout(patience))
		require.NoError(t, err)
		all.Go(func() {
			defer l.Close()
			bounded, cancel := context.WithTimeout(t.Context(), 4*slack)
			defer cancel()
			lock, err := l.Lock(bounded, fmt.Sprint(cluster.LockName(t), i))
			if assert.NoError(t, err) {
				assert.NoError(t, lock.Unlock(t.Context()))
			}
		})
	}
	all.Wait()
}

func TestMemoryOfANewClusterWhoseLastMasterComesLate(t *testing.T) {
	t.Parallel()
	c := cluster.StartYoung(t, 5)
	must(t, c.Masters[4].Kill())
	l := cluster.NewLocker(t, c.URLs())
	awaitUp(t, l, 0, 1, 2, 3)
	_, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, pool.ErrQuarantined)
	assert.ErrorContains(t, err, "a new master votes then, or at once when "+c.URLs()[4]+" is there too, or after `redlock init`")
	time.Sleep(2 * time.Second)
	_, err = l.TryLock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, pool.ErrQuarantined)
	must(t, c.Masters[4].Restart())
	began := time.Now()
	bounded, cancel := context.WithTimeout(t.Context(), 4*slack)
	defer cancel()
	_, err = l.Lock(bounded, cluster.LockName(t))
	require.NoError(t, err)
	t.Logf("the first lock came %v after the last master", time.Since(began).Round(time.Millisecond))
}

// A holder learns of it although it asks nothing of the masters for its lock, and no connection
// breaks.
func TestMemoryLossOfAMajorityIsToldToAnIdleHolder(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience), redlock.WithoutRenewal())
	held, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond)
	for _, m := range c.Masters[:2] {
		do(t, m, "FLUSHALL")
	}
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, held.Err(), "a minority")
	do(t, c.Masters[3], "FLUSHALL")
	began := time.Now()
	<-held.Done()
	t.Logf("the holder knew after %v", time.Since(began).Round(time.Millisecond))
	assert.Less(t, time.Since(began), time.Second+slack)
	requireLostBecause(t, held, "a quorum of nodes has restarted or lost its keys")
}
