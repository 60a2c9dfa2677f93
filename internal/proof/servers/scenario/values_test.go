package scenario_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Many calls share a connection, and only the order of the replies tells them apart. Connections
// that are cut at any byte must not shift that order: what the library says about a lock is
// compared with a raw GET on every node, past the proxies.
func TestNoAnswerIsTakenForAnothers(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 5, func(t *testing.T, c *cluster.Cluster) {
		proxies, urls := c.BehindProxies(t)
		l := cluster.NewConnected(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
		seed, broken := seedOf(t), 5
		if !c.Real {
			broken = 2 // a miniredis is slow: handshakes are cut too, and no quorum would be left
		}
		rounds := sizeOf(t, 10, 30)
		var counts agreement
		before, fruitless := 0, 0
		stop := disturb(seed, 50*time.Millisecond/time.Duration(broken), func(rng *rand.Rand) {
			if now := counts.successes(); now > before {
				before, fruitless = now, 0
			}
			if fruitless++; fruitless > broken {
				return // a slow machine needs time without cuts
			}
			cut(rng, proxies[rng.IntN(broken)])
		})
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(worker)))
				late := time.Now().Add(time.Minute)
				for round := 0; round < rounds || counts.successes() == 0 && time.Now().Before(late); round++ {
					counts.compare(t, c, l, fmt.Sprintf("%s/%d/%d", cluster.LockName(t), worker, round))
					time.Sleep(upTo(rng, 20*time.Millisecond))
				}
			})
		}
		all.Wait()
		t.Logf("%d cuts tried, %d connections; %+v", stop(), connects(l), counts.figures)
		assert.NotZero(t, counts.figures.Acquired)
		assert.NotZero(t, counts.figures.Verified)
		for _, proxy := range proxies {
			proxy.Heal()
		}
		// A miniredis has no CLIENT KILL: it may execute what it read before a cut behind the
		// release.
		if c.Real {
			cluster.RequireClean(t, c.Masters...)
		}
	})
}

// agreement counts what the library and the nodes agreed on.
type agreement struct {
	mu      sync.Mutex // guards the fields below
	figures struct{ Acquired, Verified, Extended, Released, NoQuorum int }
}

func (a *agreement) count(field *int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		*field++
	} else {
		a.figures.NoQuorum++
	}
}

func (a *agreement) successes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.figures.Verified + a.figures.Extended + a.figures.Released
}

// compare acquires and releases a lock that nobody else wants, and looks at the nodes after every
// step.
func (a *agreement) compare(t *testing.T, c *cluster.Cluster, l *redlock.Locker, name string) {
	onlyNoQuorum := func(call string, err error) {
		if err != nil && (!errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrLost)) {
			t.Errorf("%s %q, which nobody else uses: %v", call, name, err)
		}
	}
	lock, err := l.TryLock(t.Context(), name)
	onlyNoQuorum("TryLock", err)
	if a.count(&a.figures.Acquired, err); err != nil {
		return
	}
	if n := c.Holding(t, name, lock.Value()); n < 3 {
		t.Errorf("%q was acquired, and %d nodes hold it", name, n)
	}
	err = lock.Verify(t.Context())
	onlyNoQuorum("Verify", err)
	a.count(&a.figures.Verified, err)
	err = lock.Extend(t.Context(), longTTL)
	onlyNoQuorum("Extend", err)
	if a.count(&a.figures.Extended, err); err == nil {
		if n := c.Holding(t, name, lock.Value()); n < 3 {
			t.Errorf("%q was extended, and %d nodes hold it", name, n)
		}
	}
	err = lock.Unlock(t.Context())
	onlyNoQuorum("Unlock", err)
	if a.count(&a.figures.Released, err); err == nil {
		if n := c.Holding(t, name, lock.Value()); n > 2 {
			t.Errorf("%q was released, and %d nodes still hold it", name, n)
		}
	}
}
