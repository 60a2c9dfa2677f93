package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

// gathering is a set of two names that has acquired the first and waits for the second.
type gathering struct {
	*cluster
	other  *redlock.Locker
	second *redlock.Lock // held by other
	got    chan *redlock.Lock
	failed chan error
}

// gather has a set refused until it takes its names one by one. The set has waited for a second by
// then.
func (c *cluster) gather(limited context.Context, l *redlock.Locker, opts ...redlock.LockOption) *gathering {
	c.t.Helper()
	return c.gatherAfter(limited, func() {}, l, opts...)
}

// gatherAfter is gather, with something that happens just as the set takes its first name.
func (c *cluster) gatherAfter(limited context.Context, happens func(), l *redlock.Locker, opts ...redlock.LockOption) *gathering {
	c.t.Helper()
	c.slow(time.Millisecond)
	g := &gathering{cluster: c, other: c.renewing(redlock.WithFencing()), got: make(chan *redlock.Lock, 1), failed: make(chan error, 1)}
	first := c.lock(g.other, "a")
	g.second = c.lock(g.other, "b")
	go func() {
		lock, err := l.LockAll(limited, []string{"b", "a"}, opts...)
		g.got <- lock
		g.failed <- err
	}()
	time.Sleep(time.Second)
	for i := range 10 { // each name is free now and then, but never both
		c.unlock(first)
		if i > 0 {
			happens()
		}
		if first = g.take("a", 20*time.Millisecond); first == nil {
			return g
		}
		c.unlock(g.second)
		g.second = g.take("b", time.Second)
		require.NotNil(c.t, g.second)
	}
	require.Fail(c.t, "the set has not taken its first name")
	return nil
}

// take is Lock in another process, for a limited time.
func (g *gathering) take(name string, limit time.Duration) *redlock.Lock {
	lock, err := g.other.Lock(g.within(limit), name)
	if err != nil {
		assert.ErrorIs(g.t, err, redlock.ErrTaken)
		return nil
	}
	return lock
}

// set returns the lock of the set, once it has it.
func (g *gathering) set() *redlock.Lock {
	g.t.Helper()
	lock := <-g.got
	require.NoError(g.t, <-g.failed)
	return lock
}

func TestASetKeepsItsPartsWhileItWaitsForTheRest(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var told diary
		l := c.locker(told.hooks(), redlock.WithTTL(200*time.Millisecond)) // no renewal either
		g := c.gather(ctx, l, redlock.WithFencing())
		for range 7 {
			time.Sleep(100 * time.Millisecond)
			assert.Nil(t, g.take("a", 5*time.Millisecond))
			assert.Zero(t, l.Stats().Held, "the caller holds nothing yet")
		}
		assert.Zero(t, l.Stats().Acquired+l.Stats().Renewed)
		require.NoError(t, l.UnlockAll(ctx))
		assert.Nil(t, g.take("a", 5*time.Millisecond))
		token := g.second.Fence()
		c.unlock(g.second)
		lock := g.set()
		assert.Equal(t, []string{"b", "a"}, lock.Names())
		assert.Greater(t, lock.Fence(), token)
		assert.Greater(t, lock.Remaining(), 150*time.Millisecond, "validity counts from the last round")
		for _, name := range lock.Names() {
			assert.Equal(t, []string{lock.Value()}, uniq(c.holders(name)))
		}
		assert.Equal(t, []string{"waiting b", "acquired b", "waited b"}, told.take())
		assert.Equal(t, 1, l.Stats().Held)
		assert.Equal(t, uint64(1), l.Stats().Acquired)
		c.unlock(lock)
		assert.Contains(t, told.take(), "released b")
	})
}

func TestASetThatGivesUpGivesItsPartsBack(t *testing.T) {
	for name, end := range map[string]func(l *redlock.Locker, cancel func()) error{
		"ctx":   func(_ *redlock.Locker, cancel func()) error { cancel(); return context.Canceled },
		"close": func(l *redlock.Locker, _ func()) error { _ = l.Close(); return redlock.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				limited, cancel := context.WithCancel(ctx)
				defer cancel()
				l := c.locker()
				g := c.gather(limited, l)
				why := end(l, cancel)
				require.ErrorIs(t, <-g.failed, why)
				lock := g.take("a", 10*time.Millisecond)
				require.NotNil(t, lock, "a is free at once")
				c.unlock(lock, g.second)
				assert.Zero(t, l.Stats().Held)
				c.leavesCountersOnly()
			})
		})
	}
}

// leavesCountersOnly requires that the keys beside locks expire.
func (c *cluster) leavesCountersOnly() {
	c.t.Helper()
	time.Sleep(3*time.Minute + time.Second)
	for i := range c.servers {
		for _, key := range c.servers[i].Keys() {
			assert.True(c.t, outlives(key), "%q is left", key)
		}
	}
}

// A client that holds the rest of a set for long and also wants its first name gets it: the two do
// not wait for each other for ever.
func TestASetDoesNotKeepItsPartsForEver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		g := c.gather(ctx, c.locker())
		lock := g.take("a", 3*time.Second)
		require.NotNil(t, lock)
		time.Sleep(time.Second)
		c.unlock(lock, g.second)
		c.unlock(g.set())
	})
}

func TestASetThatLosesAPartBeginsAnew(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(200 * time.Millisecond))
		g := c.gather(ctx, l)
		c.del("a")
		lock := g.take("a", 50*time.Millisecond)
		require.NotNil(t, lock)
		time.Sleep(100 * time.Millisecond) // a renewal finds that the part is lost
		c.unlock(g.second)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, lock.Err(), "the set takes nothing from others")
		c.unlock(lock)
		set := g.set()
		require.NoError(t, set.Err())
		assert.Zero(t, l.Stats().Lost)
		c.unlock(set)
	})
}

// A node where another client has one of the names does not stop the set, and keeps none of its
// parts.
func TestNoPartIsLeftBehindWhenTheSetIsAcquired(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		g := c.gather(ctx, c.locker())
		c.set("b", "somebody's", time.Minute, 4)
		c.unlock(g.second)
		set := g.set()
		settle()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, []string{set.Value(), set.Value(), set.Value(), set.Value(), ""}, c.holders("a"))
		c.unlock(set)
	})
}

// A client of another library holds one vote for the set's first name as the set takes it. So the
// set wins that name without a node where it has a ticket.
func TestASetLeavesNoTicketOfItsParts(t *testing.T) {
	for node := range 5 { // one of them is the pilot
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			g := c.gatherAfter(ctx, func() { c.set("a", "foreign", 500*time.Millisecond, node) }, c.locker())
			time.Sleep(900 * time.Millisecond)
			c.unlock(g.second)
			set := g.set()
			got := c.waiting(g.other, "a")
			time.Sleep(50 * time.Millisecond)
			began := c.clock.Now()
			c.unlock(set)
			next := <-got
			assert.Less(t, c.clock.Now().Sub(began), 100*time.Millisecond, "node %d", node)
			c.unlock(next)
		})
	}
}

// busy holds names that workers lock all the time, one name each.
type busy struct {
	*cluster
	names   []string
	hold    time.Duration // on average
	holders sync.Map      // by name: *atomic.Int32
	had     atomic.Int64  // holds of the workers
	all     sync.WaitGroup
}

func (c *cluster) busy(names int, hold time.Duration) *busy {
	b := &busy{cluster: c, hold: hold}
	for i := range names {
		b.names = append(b.names, fmt.Sprint("name", i))
		b.holders.Store(b.names[i], new(atomic.Int32))
	}
	return b
}

// work locks each name with the given number of workers, until limited ends.
func (b *busy) work(limited context.Context, workers int) {
	for _, name := range b.names {
		for range workers {
			b.turns(limited, b.locker(), func() []string { return []string{name} }, func(lock *redlock.Lock, _ time.Duration) {
				b.have(lock, b.hold/2+rand.N(b.hold))
				b.had.Add(1)
			})
		}
	}
}

// turns locks sets of names until limited ends, and tells how long each turn was waited for.
func (b *busy) turns(limited context.Context, l *redlock.Locker, names func() []string, had func(lock *redlock.Lock, waited time.Duration)) {
	b.all.Go(func() {
		for {
			began := time.Now()
			lock, err := l.LockAll(limited, names())
			if err != nil {
				return
			}
			had(lock, time.Since(began))
		}
	})
}

// spin tries again and again to lock all names, or one, until limited ends.
func (b *busy) spin(limited context.Context, spinners int) {
	for i := range spinners {
		l := b.locker()
		names := [][]string{b.names, b.names[:1], b.names[1:]}[i%3]
		b.all.Go(func() {
			for limited.Err() == nil {
				if lock, err := l.TryLockAll(limited, names); err == nil {
					b.have(lock, b.hold/2+rand.N(b.hold))
					b.had.Add(1)
				}
				time.Sleep(rand.N(time.Millisecond))
			}
		})
	}
}

// have holds a lock for a while, and checks that nobody else does.
func (b *busy) have(lock *redlock.Lock, d time.Duration) {
	add := func(by, want int32) {
		for _, name := range lock.Names() {
			n, _ := b.holders.Load(name)
			assert.Equal(b.t, want, n.(*atomic.Int32).Add(by), "holders of %s", name)
		}
	}
	add(1, 1)
	time.Sleep(d)
	assert.NoError(b.t, lock.Err())
	add(-1, 0)
	assert.NoError(b.t, lock.Unlock(ctx))
}

// shuffled returns some of the names, at random.
func (b *busy) shuffled(n int) (names []string) {
	for _, i := range rand.Perm(len(b.names))[:n] {
		names = append(names, b.names[i])
	}
	return names
}

// Beside names that others lock all the time, and beside sets that overlap, each set gets its turn
// within a few of their holds, again and again, and takes no more from the others than it needs.
func TestSetsHaveTheirTurnsBesideBusyNames(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		nodes, names, workers int
		spinners              int // with TryLockAll, for all names or for one
		hold                  time.Duration
		lockers, waiters      int // of each Locker
		smallest, largest     int // set
		least                 int // turns in a second
	}{
		{3, 5, 2, 0, 10 * time.Millisecond, 5, 1, 2, 4, 6},
		// Waiters are handed one name each while others are handed the rest. Any two sets overlap,
		// so at best one is acquired every 5 ms. All waiters start at once; while they are not in
		// one order, their votes split, see places.go.
		{1, 4, 0, 0, 10 * time.Millisecond, 8, 4, 3, 3, 50},
		{5, 4, 0, 0, 10 * time.Millisecond, 8, 4, 3, 3, 50},
		{5, 2, 2, 0, 20 * time.Millisecond, 1, 1, 2, 2, 0},
		{5, 2, 5, 0, 100 * time.Millisecond, 1, 1, 2, 2, 0},
		{5, 3, 3, 0, 100 * time.Millisecond, 1, 1, 3, 3, 0},
		{5, 4, 3, 0, 50 * time.Millisecond, 1, 1, 4, 4, 0},
		{5, 3, 3, 0, 20 * time.Millisecond, 3, 1, 3, 3, 0},
		{5, 2, 1, 6, 5 * time.Millisecond, 1, 1, 2, 2, 0},
	}[:unraced(1, 9)] {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			inBubble(t, p.nodes, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				if p.least > 0 {
					delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
					c.each(func(n *fake.Node) { n.Delay(delay, delay) })
				}
				b := c.busy(p.names, p.hold)
				seconds := max(sizeOf(5, 20), 3)
				limited := c.within(time.Duration(seconds) * time.Second)
				names := func() []string { return b.shuffled(p.smallest + rand.N(p.largest-p.smallest+1)) }
				b.work(limited, p.workers)
				b.spin(limited, p.spinners)
				turns, sum := make([]atomic.Int32, p.lockers), 0
				var worst atomic.Int64
				for i := range turns {
					l := c.locker(redlock.WithFencing())
					for range p.waiters {
						b.turns(limited, l, names, func(lock *redlock.Lock, waited time.Duration) {
							worst.Store(max(worst.Load(), int64(waited)))
							b.have(lock, rand.N(p.hold))
							turns[i].Add(1)
						})
					}
				}
				b.all.Wait()
				for i := range turns {
					assert.Greater(t, turns[i].Load(), int32(min(p.least, 5)))
					sum += int(turns[i].Load())
				}
				t.Log("others", b.had.Load(), "sets", sum, "longest wait", time.Duration(worst.Load()))
				assert.Greater(t, sum, p.least*seconds)
				assert.Less(t, time.Duration(worst.Load()), time.Duration(10*(p.names+p.lockers*p.waiters))*p.hold)
				if p.workers > 0 {
					alone := int(time.Duration(seconds)*time.Second/p.hold) * p.names
					assert.Greater(t, int(b.had.Load()), alone/4, "holds of the others")
				}
				c.leavesCountersOnly()
			})
		})
	}
}
