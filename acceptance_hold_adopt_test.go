package redquorum_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/redlock"
)

func TestHoldingGoesOverToTheOneThatAdopts(t *testing.T) {
	t.Parallel()
	const ttl = 900 * time.Millisecond
	c := startReal(t, 5)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 4)}
	giver, taker := newConnected(t, c.urls(), opts...), newConnected(t, c.urls(), opts...)
	old, err := giver.TryLock(t.Context(), lockName(t), redlock.WithOwner("giver"))
	require.NoError(t, err)
	adopted, err := taker.Adopt(t.Context(), lockName(t), old.Value(), redlock.WithOwner("taker"))
	require.NoError(t, err)
	assert.NotEqual(t, old.Value(), adopted.Value())
	c.awaitHeldEverywhere(t, lockName(t), adopted.Value())
	select {
	case <-old.Done():
	case <-time.After(ttl/2 + slack):
		t.Fatal("the old handle is still held after a round")
	}
	requireLostBecause(t, old, "a quorum of nodes no longer has it")
	require.ErrorIs(t, old.Extend(t.Context(), ttl), redlock.ErrLost)
	require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	c.awaitHeldEverywhere(t, lockName(t), adopted.Value())
	_, err = taker.Adopt(t.Context(), lockName(t), old.Value())
	require.ErrorIs(t, err, redlock.ErrLost, "the old value is nobody's")

	time.Sleep(2 * ttl)
	require.NoError(t, adopted.Err(), "it is renewed")
	require.NoError(t, adopted.Verify(t.Context()))
	status, err := giver.Inspect(t.Context(), lockName(t))
	require.NoError(t, err)
	assert.Equal(t, "taker", status.Owner)
	require.NoError(t, adopted.Unlock(t.Context()))
	requireClean(t, c.masters...)
}

func TestHoldingIsAdoptedByOneAtMost(t *testing.T) {
	t.Parallel()
	c := startReal(t, 5)
	opts := []redlock.Option{redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)}
	giver := newConnected(t, c.urls(), opts...)
	var takers []*redlock.Locker
	for range 3 {
		proxies, urls := c.behindProxies(t)
		takers = append(takers, newConnected(t, urls, opts...))
		for _, proxy := range proxies { // so that they share the nodes
			proxy.Delay(redistest.Requests, 2*time.Millisecond, 2*time.Millisecond)
		}
	}
	wins := make([]int, 1+len(takers)) // and how often none
	for try := range 100 {
		name := fmt.Sprint(lockName(t), try)
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
		eventually(t, cleanWithin, func() (undone string) { // what the others swapped is being put back
			for i, value := range c.holders(t, name) {
				if value != "" && holders[value] == nil {
					undone += fmt.Sprintf("node %d has the value of one that did not adopt; ", i)
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
	requireClean(t, c.masters...)
}

// An Adopt that fails leaves the holder its lock: with a wrong value, and with too few nodes within reach.
func TestHoldingGoesOnWhenAdoptFails(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	c := startReal(t, 5)
	proxies, urls := c.behindProxies(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 4)}
	holder := newConnected(t, c.urls(), opts...)
	taker := newConnected(t, urls, opts...)
	lock, err := holder.TryLock(t.Context(), lockName(t))
	require.NoError(t, err)
	for _, value := range []string{"wrong", lock.Value() + "|owner", lock.Value()[1:]} {
		_, err = taker.Adopt(t.Context(), lockName(t), value)
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
			_, err = taker.Adopt(t.Context(), lockName(t), lock.Value())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NoError(t, lock.Verify(t.Context()))
		}
		c.awaitHeldEverywhere(t, lockName(t), lock.Value())
		for _, proxy := range proxies {
			proxy.Refuse(false)
			proxy.Heal()
		}
		awaitUp(t, taker, 0, 1, 2, 3, 4)
	}
	time.Sleep(ttl)
	require.NoError(t, lock.Err())
	c.awaitHeldEverywhere(t, lockName(t), lock.Value())
	require.NoError(t, lock.Unlock(t.Context()))
	requireClean(t, c.masters...)
}
