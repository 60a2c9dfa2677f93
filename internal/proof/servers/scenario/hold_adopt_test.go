package scenario_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

func TestHoldingGoesOverToTheOneThatAdopts(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second // a busy machine may stop us for more than half of it
	c := cluster.Start(t, 5)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 4)}
	giver, taker := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, c.URLs(), opts...)
	old, err := giver.TryLock(t.Context(), cluster.LockName(t), redlock.WithOwner("giver"))
	require.NoError(t, err)
	adopted, err := taker.Adopt(t.Context(), cluster.LockName(t), old.Value(), redlock.WithOwner("taker"))
	require.NoError(t, err)
	assert.NotEqual(t, old.Value(), adopted.Value())
	c.AwaitHeldEverywhere(t, cluster.LockName(t), adopted.Value())
	select {
	case <-old.Done():
	case <-time.After(ttl/2 + slack):
		t.Fatal("the old handle is still held after a round")
	}
	requireLostBecause(t, old, "a quorum of nodes no longer has it")
	require.ErrorIs(t, old.Extend(t.Context(), ttl), redlock.ErrLost)
	require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	c.AwaitHeldEverywhere(t, cluster.LockName(t), adopted.Value())
	_, err = taker.Adopt(t.Context(), cluster.LockName(t), old.Value())
	require.ErrorIs(t, err, redlock.ErrLost, "the old value is nobody's")

	time.Sleep(3 * ttl / 2)
	require.NoError(t, adopted.Err(), "it is renewed")
	require.NoError(t, adopted.Verify(t.Context()))
	status, err := giver.Inspect(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	assert.Equal(t, "taker", status.Owner)
	require.NoError(t, adopted.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters...)
}

func TestHoldingIsAdoptedByOneAtMost(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	opts := []redlock.Option{redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)}
	giver := cluster.NewConnected(t, c.URLs(), opts...)
	var takers []*redlock.Locker
	for range 3 {
		proxies, urls := c.BehindProxies(t)
		takers = append(takers, cluster.NewConnected(t, urls, opts...))
		for _, proxy := range proxies { // so that they share the nodes
			proxy.Delay(redistest.Requests, 2*time.Millisecond, 2*time.Millisecond)
		}
	}
	wins := make([]int, 1+len(takers)) // and how often none
	for try := range sizeOf(t, 30, 100) {
		name := fmt.Sprint(cluster.LockName(t), try)
		old, err := giver.TryLock(t.Context(), name)
		require.NoError(t, err)
		adopted, errs := make([]*redlock.Lock, len(takers)), make([]error, len(takers))
		var all sync.WaitGroup
		start := make(chan struct{})
		for i, taker := range takers {
			all.Go(func() {
				<-start
				adopted[i], errs[i] = taker.Adopt(t.Context(), name, old.Value())
			})
		}
		close(start)
		all.Wait()
		holders := map[string]*redlock.Lock{old.Value(): old}
		winners := 0
		for i, lock := range adopted {
			if lock == nil {
				require.ErrorIs(t, errs[i], redlock.ErrLost, "or nobody answered it")
				continue
			}
			wins[i]++
			winners++
			holders[lock.Value()] = lock
			require.NoError(t, lock.Verify(t.Context()))
			require.ErrorIs(t, old.Verify(t.Context()), redlock.ErrLost)
		}
		require.LessOrEqual(t, winners, 1)
		// What the others swapped is put back.
		cluster.Eventually(t, cluster.CleanWithin, func() (undone string) {
			for i, value := range c.Holders(t, name) {
				if value != "" && holders[value] == nil {
					undone += fmt.Sprintf("node %d has the value of a client that did not adopt; ", i)
				}
			}
			return undone
		})
		if winners == 0 {
			wins[len(takers)]++
			require.NoError(t, old.Verify(t.Context()), "nobody adopted it")
		}
		for _, lock := range holders {
			if err := lock.Unlock(t.Context()); err != nil {
				require.ErrorIs(t, err, redlock.ErrLost)
			}
		}
	}
	t.Logf("wins of each, and none: %v", wins)
	cluster.RequireClean(t, c.Masters...)
}

// An Adopt that fails leaves the lock to its holder: with a wrong value, and with too few nodes in
// reach.
func TestHoldingGoesOnWhenAdoptFails(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second // a busy machine may stop us for a while
	c := cluster.Start(t, 5)
	proxies, urls := c.BehindProxies(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 4)}
	holder := cluster.NewConnected(t, c.URLs(), opts...)
	taker := cluster.NewConnected(t, urls, opts...)
	lock, err := holder.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	for _, value := range []string{"wrong", lock.Value() + "|owner", lock.Value()[1:]} {
		_, err = taker.Adopt(t.Context(), cluster.LockName(t), value)
		require.ErrorIs(t, err, redlock.ErrLost)
	}
	_, err = taker.Adopt(t.Context(), "no such lock", lock.Value())
	require.ErrorIs(t, err, redlock.ErrLost)
	require.NoError(t, lock.Verify(t.Context()))

	for _, cut := range []func(){
		func() { leave(proxies[2:]...) },
		func() {
			for _, proxy := range proxies[2:] {
				proxy.Drop(redistest.Both, true)
			}
		},
	} {
		cut()
		for range 3 {
			_, err = taker.Adopt(t.Context(), cluster.LockName(t), lock.Value())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NoError(t, lock.Verify(t.Context()))
		}
		c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
		for _, proxy := range proxies {
			proxy.Refuse(false)
			proxy.Heal()
		}
		awaitUp(t, taker, 0, 1, 2, 3, 4)
	}
	time.Sleep(ttl)
	require.NoError(t, lock.Err())
	c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
	require.NoError(t, lock.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters...)
}
