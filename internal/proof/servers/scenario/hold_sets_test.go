package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Sets that overlap exclude each other on every name that they share, in whatever order they list
// the names, and none waits for ever.
func TestHoldingSetsThatOverlapExcludesEachOther(t *testing.T) {
	t.Parallel()
	const duration, atMost = 2 * time.Second, 30 * time.Second // until each set has had its turn
	c := cluster.Start(t, 5)
	prefix := cluster.LockName(t)
	resources := map[string]*resource{}
	for _, name := range []string{"a", "b", "c"} {
		resources[name] = &resource{name: name}
	}
	sets := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"b", "a"}, {"c", "b"}, {"a", "b", "c"}, {"c", "b", "a"}, {"b"}}
	seed := seedOf(t)
	acquisitions := make([]int, len(sets)) // each goroutine has its own
	var lacking atomic.Int32               // sets that have not had their turn, and the duration
	lacking.Store(int32(len(sets)) + 1)
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	served := func() {
		if lacking.Add(-1) == 0 {
			cancel()
		}
	}
	defer time.AfterFunc(duration, served).Stop()
	var all sync.WaitGroup
	for g, names := range sets {
		l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithKeyPrefix(prefix), redlock.WithNodeTimeout(patience),
			redlock.WithRetry(time.Millisecond, 20*time.Millisecond))
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		all.Go(func() {
			for ctx.Err() == nil {
				lock, err := l.LockAll(ctx, names)
				if err != nil {
					assert.ErrorIs(t, err, ctx.Err())
					continue
				}
				from := time.Now()
				for _, name := range names {
					resources[name].use(rng, fmt.Sprint(g, names), from)
				}
				if acquisitions[g]++; acquisitions[g] == 1 {
					served()
				}
				assert.Equal(t, names, lock.Names())
				assert.NoError(t, lock.Err())
				assert.NoError(t, lock.Unlock(t.Context()))
			}
		})
	}
	all.Wait()
	for name, r := range resources {
		n := 0
		for g, names := range sets {
			if slices.Contains(names, name) {
				n += acquisitions[g]
			}
		}
		r.judge(t, n)
	}
	t.Logf("acquisitions of each: %v", acquisitions)
	for g, n := range acquisitions {
		assert.Positive(t, n, "%v was never had", sets[g])
	}
	cluster.RequireClean(t, c.Masters...)
}

func TestHoldingOneNameKeepsEverySetWithItAwayAndLeavesNoKeyOfIt(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	other := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	b, err := l.TryLock(t.Context(), "b")
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, "b", b.Value())
	for _, names := range [][]string{{"a", "b"}, {"b", "c"}, {"a", "c", "b"}, {"b"}} {
		_, err := other.TryLockAll(t.Context(), names)
		require.ErrorIs(t, err, redlock.ErrTaken, names)
		for _, m := range c.Masters {
			keys, err := m.Keys()
			require.NoError(t, err)
			assert.Equal(t, []string{"b"}, keys)
		}
	}
	apart, err := other.TryLockAll(t.Context(), []string{"a", "c"})
	require.NoError(t, err)
	_, err = l.TryLock(t.Context(), "c")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, b.Unlock(t.Context()))
	require.NoError(t, apart.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters...)

	// A minority holds other values: the majority grants the set, and its release leaves those
	// values alone.
	for _, m := range c.Masters[3:] {
		do(t, m, "SET", "b", "a stranger's")
	}
	set, err := l.TryLockAll(t.Context(), []string{"c", "b", "a"})
	require.NoError(t, err)
	require.NoError(t, set.Extend(t.Context(), longTTL))
	require.NoError(t, set.Unlock(t.Context()))
	cluster.RequireClean(t, c.Masters[:3]...)
	for _, m := range c.Masters[3:] { // for which Unlock does not wait
		cluster.Eventually(t, cluster.CleanWithin, func() string {
			if keys, err := m.Keys(); err != nil || len(keys) != 1 {
				return fmt.Sprintf("%q are left (%v)", keys, err)
			}
			return ""
		})
		assert.Equal(t, "a stranger's", cluster.Holder(t, m, "b"))
	}
}

// A set is renewed and lost as a whole.
func TestHoldingASetIsLostWithAnyOfItsNames(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	set, err := l.TryLockAll(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	select {
	case <-set.Done():
		t.Fatal(set.Err())
	case <-time.After(3 * ttl / 2):
	}
	require.NoError(t, set.Verify(t.Context()))
	require.NoError(t, l.ForceUnlock(t.Context(), "b"))
	select {
	case <-set.Done():
	case <-time.After(ttl + slack):
		t.Fatal("still held")
	}
	requireLostBecause(t, set, "a quorum of nodes no longer has it")
	cluster.RequireClean(t, c.Masters...)
	require.ErrorIs(t, set.Unlock(t.Context()), redlock.ErrLost)
}
