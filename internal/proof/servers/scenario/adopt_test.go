package scenario_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// An Adopt that fails leaves the lock to its holder: with a wrong value, with too few nodes in
// reach, that say so or nothing. One that succeeds is told to the old holder.
func TestHoldingGoesOverToTheOneThatAdopts(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	proxies, urls := c.BehindProxies(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 3)}
	giver, taker := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, urls, opts...)
	name := cluster.LockName(t)
	old, err := giver.Lock(t.Context(), name, redlock.WithOwner("giver"))
	require.NoError(t, err)
	for _, value := range []string{"wrong", old.Value() + "|owner", old.Value()[1:]} {
		_, err = taker.Adopt(t.Context(), name, value)
		require.ErrorIs(t, err, redlock.ErrLost)
	}
	for _, cut := range []func(){
		func() { leave(proxies[2:]...) },
		func() {
			for _, proxy := range proxies[2:] {
				proxy.Drop(redistest.Both, true)
			}
		},
	} {
		cut()
		_, err = taker.Adopt(t.Context(), name, old.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, proxy := range proxies {
			proxy.Refuse(false)
			proxy.Heal()
		}
		awaitUp(t, taker, 0, 1, 2, 3, 4)
		c.AwaitHeldEverywhere(t, name, old.Value())
	}
	require.NoError(t, old.Verify(t.Context()))

	adopted, err := taker.Adopt(t.Context(), name, old.Value(), redlock.WithOwner("taker"))
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	awaitLoss(t, old)
	requireLostBecause(t, old, "a quorum of nodes no longer has it")
	require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	_, err = taker.Adopt(t.Context(), name, old.Value())
	require.ErrorIs(t, err, redlock.ErrLost, "the old value is nobody's")
	await(t, "it is renewed", func() bool { return taker.Stats().Renewed > 0 })
	require.NoError(t, adopted.Verify(t.Context()))
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	status, err := giver.Inspect(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, "taker", status.Owner)
	give(t, adopted)
	cluster.RequireClean(t, c.Masters...)
}

// All nodes swap the value, and the adopting client gets no reply. Meanwhile the holder learns that
// its lock is lost, or releases it. What the Adopt puts back is then nobody's, on every node (S4,
// S7, S24).
func TestHoldingThatEndedDoesNotComeBackWithAFailedAdopt(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	for name, row := range map[string]struct {
		swapped   int // how many nodes have swapped the value when the holder looks
		from      int // the first of those that are cut off
		direction redistest.Direction
		want      error
	}{
		"lost":     {5, 0, redistest.Replies, redlock.ErrLost},
		"released": {2, 2, redistest.Both, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			proxies, urls := c.BehindProxies(t)
			holder, taker := connected(t, c.URLs()), connected(t, urls, redlock.WithNodeTimeout(slack/2))
			lock := take(t, holder, name)
			c.AwaitHeldEverywhere(t, name, lock.Value())
			for _, proxy := range proxies[row.from:] {
				proxy.Drop(row.direction, true)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := taker.Adopt(t.Context(), name, lock.Value())
				failed <- err
			}()
			await(t, "the nodes are swapped", func() bool { return c.Holding(t, name, lock.Value()) == 5-row.swapped })
			require.ErrorIs(t, lock.Verify(t.Context()), row.want)
			require.ErrorIs(t, lock.Unlock(t.Context()), row.want)
			require.ErrorIs(t, <-failed, redlock.ErrNoQuorum)
			for _, proxy := range proxies {
				proxy.Heal()
			}
			awaitGone(t, c.Masters, name)
		})
	}
}

// Several clients adopt one lock at the same moment. One has it, or the old holder.
func TestHoldingIsAdoptedByOneAtMost(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	giver := connected(t, c.URLs())
	var takers []*redlock.Locker
	for range 3 {
		proxies, urls := c.BehindProxies(t)
		takers = append(takers, connected(t, urls))
		for _, proxy := range proxies { // so that they share the nodes
			proxy.Delay(redistest.Requests, 2*time.Millisecond, 2*time.Millisecond)
		}
	}
	for try := range sizeOf(t, 10, 100) {
		old := take(t, giver, fmt.Sprint(cluster.LockName(t), try))
		errs := make([]error, len(takers))
		var all sync.WaitGroup
		winner := old
		for i, taker := range takers {
			all.Go(func() {
				var lock *redlock.Lock
				if lock, errs[i] = taker.Adopt(t.Context(), old.Name(), old.Value()); errs[i] == nil {
					winner = lock
				}
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				require.ErrorIs(t, err, redlock.ErrLost, "or nobody answered it")
			}
		}
		require.LessOrEqual(t, won, 1)
		await(t, "what the others swapped is put back", func() bool {
			return !slices.ContainsFunc(c.Holders(t, old.Name()), func(value string) bool {
				return value != "" && value != winner.Value() && value != old.Value()
			})
		})
		require.NoError(t, winner.Verify(t.Context()))
		give(t, winner)
		if won == 1 {
			require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
		}
	}
	cluster.RequireClean(t, c.Masters...)
}
