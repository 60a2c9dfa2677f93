package scenario_test

import (
	"context"
	"errors"
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

// resource is what a lock protects. Its fields have no mutex: only the lock keeps its users apart.
type resource struct {
	name    string
	counter int
	held    []interval // in the order in which they were recorded
}

// interval is a time during which a holder was sure of the lock: after Lock returned, and before
// Unlock was called.
type interval struct {
	from, to time.Time
	holder   string
}

// use works on the resource, with pauses in which another user could do harm.
func (r *resource) use(rng *rand.Rand, holder string, from time.Time) {
	seen := r.counter
	time.Sleep(upTo(rng, 2*time.Millisecond))
	r.counter = seen + 1
	r.held = append(r.held, interval{from, time.Now(), holder})
}

// judge asserts that no two holders overlapped and that no update was lost.
func (r *resource) judge(t *testing.T, acquisitions int) {
	t.Helper()
	assert.Equal(t, acquisitions, r.counter, "%s: lost updates", r.name)
	assert.Len(t, r.held, acquisitions, "%s: lost records", r.name)
	slices.SortFunc(r.held, func(a, b interval) int { return a.from.Compare(b.from) })
	for i := 1; i < len(r.held); i++ {
		if before, after := r.held[i-1], r.held[i]; after.from.Before(before.to) {
			t.Errorf("%s: %s held it until %v after %s had got it", r.name, before.holder, before.to.Sub(after.from), after.holder)
		}
	}
}

// Two nodes at a time go away and come back with their keys. (Without their keys two holders are
// possible, unless the node stays away for a TTL.)
func TestNoTwoHoldersUnderLoad(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		const lockers, names, duration = 4, 3, 2 * time.Second
		goroutines, shortest, longest := 32, time.Millisecond, 20*time.Millisecond
		if !c.Real { // a miniredis executes some hundred releases per second
			goroutines, shortest, longest = 8, 10*time.Millisecond, 50*time.Millisecond
		}
		seed := seedOf(t)
		var clients []*redlock.Locker
		for range lockers {
			clients = append(clients, cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL),
				redlock.WithNodeTimeout(250*time.Millisecond), redlock.WithRetry(shortest, longest)))
		}
		var resources [names]resource
		acquisitions := make([][names]int, goroutines) // each goroutine has its own
		for i := range resources {
			resources[i].name = fmt.Sprint(cluster.LockName(t), i)
		}
		stop := disturb(seed, 200*time.Millisecond, func(rng *rand.Rand) { pauseTwo(t, c, rng) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var had atomic.Int64
		for g := range goroutines {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(g)))
				for ctx.Err() == nil {
					i := rng.IntN(names)
					if useLocked(ctx, t, clients[g%lockers], &resources[i], rng, g) {
						acquisitions[g][i]++
						had.Add(1)
					}
				}
			})
		}
		time.Sleep(duration)
		// A busy machine takes longer.
		for until := time.Now().Add(time.Minute); had.Load() <= 20 && time.Now().Before(until); {
			time.Sleep(duration / 10)
		}
		cancel()
		all.Wait()
		pauses := stop()
		total := 0
		for i := range resources {
			n := 0
			for _, of := range acquisitions {
				n += of[i]
			}
			resources[i].judge(t, n)
			total += n
		}
		t.Logf("%d acquisitions, %d times two nodes away", total, pauses)
		assert.Greater(t, total, 1)
		if c.Real { // a miniredis answers releases with an error while it closes
			cluster.RequireClean(t, c.Masters...)
		}
	})
}

func useLocked(ctx context.Context, t *testing.T, l *redlock.Locker, r *resource, rng *rand.Rand, g int) bool {
	lock, err := l.Lock(ctx, r.name)
	if err != nil {
		assert.ErrorIs(t, err, context.Canceled)
		return false
	}
	r.use(rng, fmt.Sprint("goroutine ", g), time.Now())
	assert.NoError(t, lock.Err(), "it is ours for much longer")
	if err := lock.Unlock(ctx); err != nil {
		assert.ErrorIs(t, err, redlock.ErrNoQuorum)
	}
	return true
}

func pauseTwo(t *testing.T, c *cluster.Cluster, rng *rand.Rand) {
	first := rng.IntN(5)
	away := []cluster.Master{c.Masters[first], c.Masters[(first+1+rng.IntN(4))%5]}
	for _, m := range away {
		assert.NoError(t, m.Stop())
	}
	time.Sleep(upTo(rng, 500*time.Millisecond))
	for _, m := range away {
		assert.NoError(t, m.Continue())
	}
}

// Whichever client is first, exactly one wins.
func TestOneOfManyWinsARound(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		var clients []*redlock.Locker
		for range 4 {
			clients = append(clients, cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)))
		}
		for round := range sizeOf(t, 20, 50) {
			winners := make(chan *redlock.Lock, 16)
			var all sync.WaitGroup
			for g := range 16 {
				all.Go(func() {
					lock, err := clients[g%4].TryLock(t.Context(), fmt.Sprint(cluster.LockName(t), round))
					if err == nil {
						winners <- lock
					} else if !errors.Is(err, redlock.ErrNoQuorum) { // a busy machine
						assert.ErrorIs(t, err, redlock.ErrTaken)
					}
				})
			}
			all.Wait()
			close(winners)
			require.LessOrEqual(t, len(winners), 1)
			for lock := range winners {
				require.NoError(t, lock.Unlock(t.Context()))
			}
		}
		cluster.RequireClean(t, c.Masters...)
	})
}
