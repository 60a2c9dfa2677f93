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

	"github.com/redquorum/redquorum/redlock"
)

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
func (b *busy) work(limited context.Context, workers int, opts ...redlock.LockOption) {
	for _, name := range b.names {
		for range workers {
			l := b.locker()
			b.all.Go(func() {
				for {
					lock, err := l.Lock(limited, name, opts...)
					if err != nil {
						return
					}
					b.have(lock, b.hold/2+rand.N(b.hold))
					b.had.Add(1)
				}
			})
		}
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

// Beside names that others lock all the time, a set gets its turn within a few of their holds,
// again and again, and takes no more from them than it needs.
func TestASetHasItsTurnBesideBusyNames(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		names, workers, sets int
		hold                 time.Duration
	}{
		{2, 2, 1, 20 * time.Millisecond},
		{2, 5, 1, 100 * time.Millisecond},
		{3, 3, 1, 100 * time.Millisecond},
		{4, 3, 1, 50 * time.Millisecond},
		{3, 3, 3, 20 * time.Millisecond},
	}[:unraced(1, 5)] {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				c.slow(time.Millisecond)
				b := c.busy(p.names, p.hold)
				length := time.Duration(sizeOf(8, 20)) * time.Second
				length = max(length, 5*time.Second)
				limited, cancel := context.WithTimeout(ctx, length)
				defer cancel()
				b.work(limited, p.workers)
				time.Sleep(time.Second)
				var turns, worst atomic.Int64
				for range p.sets {
					l := c.locker()
					b.all.Go(func() {
						for {
							began := time.Now()
							lock, err := l.LockAll(limited, b.shuffled(p.names))
							if err != nil {
								return
							}
							worst.Store(max(worst.Load(), int64(time.Since(began))))
							b.have(lock, p.hold)
							turns.Add(1)
						}
					})
				}
				b.all.Wait()
				t.Log("others", b.had.Load(), "sets", turns.Load(), "longest wait", time.Duration(worst.Load()))
				assert.Positive(t, turns.Load())
				assert.Less(t, time.Duration(worst.Load()), time.Duration(10*(p.names+p.sets))*p.hold)
				alone := int64(length/p.hold) * int64(p.names)
				assert.Greater(t, b.had.Load(), alone/4, "holds of the others")
			})
		})
	}
}

// shuffled returns some of the names, at random.
func (b *busy) shuffled(n int) (names []string) {
	for _, i := range rand.Perm(len(b.names))[:n] {
		names = append(names, b.names[i])
	}
	return names
}

func TestSetsThatOverlapHaveTheirTurnsBesideBusyNames(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 1, 5}[:sizeOf(1, 3)] {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			inBubble(t, nodes, func(t *testing.T, c *cluster) {
				for _, server := range c.servers {
					delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
					server.Delay(delay, delay)
				}
				b := c.busy(5, 10*time.Millisecond)
				limited, cancel := context.WithTimeout(ctx, time.Duration(max(sizeOf(5, 10), 3))*time.Second)
				defer cancel()
				b.work(limited, 2)
				turns := make([]int, 5)
				for i := range turns {
					l := c.locker(redlock.WithFencing())
					b.all.Go(func() {
						for {
							lock, err := l.LockAll(limited, b.shuffled(2+rand.N(3)))
							if err != nil {
								return
							}
							b.have(lock, rand.N(10*time.Millisecond))
							turns[i]++
						}
					})
				}
				b.all.Wait()
				t.Log("others", b.had.Load(), "sets", turns)
				for i := range turns {
					assert.Greater(t, turns[i], 5)
				}
				time.Sleep(3*time.Minute + time.Second)
				for i := range c.servers {
					for _, key := range c.servers[i].Keys() {
						assert.True(t, outlives(key), "%q is left", key)
					}
				}
			})
		})
	}
}

// Clients that spin with TryLockAll or TryLock keep neither sets nor single waiters from their
// turns.
func TestSetsAndWaitersHaveTheirTurnsBesideSpinners(t *testing.T) {
	t.Parallel()
	skipRaced(t)
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.slow(2 * time.Millisecond)
		b := c.busy(2, 5*time.Millisecond)
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		for i := range 6 {
			l := c.locker()
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
		turns := make([]int, 3)
		for i, names := range [][]string{b.names, b.names[:1], b.names[1:]} {
			l := c.locker()
			b.all.Go(func() {
				for {
					lock, err := l.LockAll(limited, names)
					if err != nil {
						return
					}
					b.have(lock, b.hold)
					turns[i]++
				}
			})
		}
		b.all.Wait()
		t.Log("spinners", b.had.Load(), "waiters", turns)
		for i := range turns {
			assert.Greater(t, turns[i], 20)
		}
	})
}

// A client of another library holds one vote for the set's first name as the set takes it. So the
// set wins that name without a node where it has a ticket.
func TestASetLeavesNoTicketOfItsParts(t *testing.T) {
	for node := range 5 { // one of them is the pilot
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			g := c.gatherAfter(ctx, func() { c.do(node, "SET", "a", "foreign", "PX", 500) }, c.locker())
			time.Sleep(900 * time.Millisecond)
			require.NoError(t, g.second.Unlock(ctx))
			set := <-g.got
			require.NoError(t, <-g.failed)
			got := acquiring(t, g.other, "a")
			time.Sleep(50 * time.Millisecond)
			began := c.clock.Now()
			require.NoError(t, set.Unlock(ctx))
			next := <-got
			assert.Less(t, c.clock.Now().Sub(began), 100*time.Millisecond, "node %d", node)
			require.NoError(t, next.Unlock(ctx))
		})
	}
}
