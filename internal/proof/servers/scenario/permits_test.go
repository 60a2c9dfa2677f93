package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Two nodes at a time go away and come back with their keys. No slot has two holders, so there are
// never more holders than permits.
func TestNeverMoreHoldersThanPermitsUnderLoad(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		const lockers, permits, duration = 4, 3, 2 * time.Second
		goroutines, nodeTimeout := 12, 250*time.Millisecond
		if !c.Real { // a miniredis is slow
			goroutines, nodeTimeout = 6, 2*time.Second
		}
		seed := seedOf(t)
		var semaphores []*redlock.Semaphore
		for range lockers {
			l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(nodeTimeout))
			s, err := l.Semaphore(cluster.LockName(t), permits)
			require.NoError(t, err)
			semaphores = append(semaphores, s)
		}
		slots := map[string]*resource{}
		for i := range permits {
			name := fmt.Sprint(cluster.LockName(t), "#", i+1)
			slots[name] = &resource{name: name}
		}
		stop := disturb(seed, 200*time.Millisecond, func(rng *rand.Rand) { pauseTwo(t, c, rng) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var had, holders, most atomic.Int64
		uses := map[string]*atomic.Int64{}
		for name := range slots {
			uses[name] = new(atomic.Int64)
		}
		for g := range goroutines {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(g)))
				for ctx.Err() == nil {
					lock, err := semaphores[g%lockers].Acquire(ctx)
					if errors.Is(err, context.Canceled) {
						return
					}
					if !assert.NoError(t, err) {
						return
					}
					n := holders.Add(1)
					if !assert.LessOrEqual(t, n, int64(permits)) {
						return
					}
					had.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					for range 100 { // until all were held at once, some wait for the others
						if most.Load() == permits || ctx.Err() != nil {
							break
						}
						time.Sleep(10 * time.Millisecond)
					}
					slots[lock.Name()].use(rng, fmt.Sprint(g), time.Now())
					uses[lock.Name()].Add(1)
					holders.Add(-1)
					if err := lock.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
						t.Errorf("Unlock: %v", err)
					}
				}
			})
		}
		time.Sleep(duration)
		// A busy machine takes longer.
		for until := time.Now().Add(time.Minute); (had.Load() <= 20 || most.Load() < permits) && time.Now().Before(until); {
			time.Sleep(duration / 10)
		}
		cancel()
		all.Wait()
		pauses := stop()
		for name, r := range slots {
			r.judge(t, int(uses[name].Load()))
		}
		assert.Equal(t, int64(permits), most.Load(), "all permits were held at once")
		t.Logf("%d permits, %d times two nodes away", had.Load(), pauses)
		if c.Real { // a miniredis answers releases with an error while it closes
			cluster.RequireClean(t, c.Masters...)
		}
	})
}
