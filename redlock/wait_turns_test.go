package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// over returns a Locker that lists the nodes in the given order and cannot reach some of them.
func (c *cluster) over(order []int, unreachable ...int) *redlock.Locker {
	c.T.Helper()
	dial, all := c.Dialer(), c.Servers.Endpoints()
	return c.Listing(order, redlock.WithoutRenewal(),
		redlock.WithPool(pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if slices.Contains(unreachable, slices.Index(all, address)) {
				return nil, errors.New("no route to the node")
			}
			return dial(ctx, network, address)
		})))
}

// lockers returns some Lockers.
func (c *cluster) lockers(n int, opts ...redlock.Option) (all []*redlock.Locker) {
	for range n {
		all = append(all, c.Locker(opts...))
	}
	return all
}

// takeTurns makes each Locker acquire a lock for a number of rounds, and asserts that no two hold
// it at once and that all get it.
func takeTurns(t *testing.T, lockers []*redlock.Locker, rounds int, hold time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	holders := 0
	for _, l := range lockers {
		all.Go(func() {
			for range rounds {
				lock, err := l.Lock(ctx, "a")
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				holders++
				assert.Equal(t, 1, holders)
				mu.Unlock()
				time.Sleep(hold)
				mu.Lock()
				holders--
				mu.Unlock()
				assert.NoError(t, lock.Unlock(ctx))
			}
		})
	}
	all.Wait()
}

// Those that list the nodes in different orders agree on the coordinator, so each is woken. Those
// that disagree about which nodes are up exclude each other all the same.
func TestClientsThatSeeTheNodesDifferentlyTakeTurns(t *testing.T) {
	for what, views := range map[string]func(c *cluster) []*redlock.Locker{
		"orders": func(c *cluster) []*redlock.Locker {
			return []*redlock.Locker{c.over([]int{0, 1, 2, 3, 4}), c.over([]int{4, 3, 2, 1, 0}), c.over([]int{2, 0, 4, 1, 3})}
		},
		"nodes that are up": func(c *cluster) (lockers []*redlock.Locker) {
			for i := range 5 {
				lockers = append(lockers, c.over([]int{0, 1, 2, 3, 4}, i, (i+1)%5))
			}
			return lockers
		},
	} {
		runBubble(t, what, 5, func(t *testing.T, c *cluster) {
			c.Slow(time.Millisecond)
			lockers := views(c)
			assert.Less(t, virtual.Elapsed(func() { takeTurns(t, lockers, 20, time.Millisecond) }), 2*time.Second)
			for _, l := range lockers {
				assert.True(t, what != "orders" || l.Stats().Polls == 0, "every waiter was woken")
			}
		})
	}
}

// Each Locker waits a node timeout (0.5 s) when it first finds the coordinator mute, and again each
// time it retries that node. A waiter that its wake-up did not reach waits for a poll. A node in
// quarantine is no coordinator. A run beside a slow one takes 1.3 s, but one in a hundred lasts
// until the Lockers try that node again, and takes more than 3 s: of several, most must not.
func TestACoordinatorInTroubleDelaysWaitersOnce(t *testing.T) {
	for name, test := range map[string]struct {
		trouble         func(*fakeredis.Node)
		lockers, rounds int
		runs            int
		most            time.Duration
	}{
		"quarantined": {virtual.Empty, 3, 5, 1, 100 * time.Millisecond},
		"mute":        {virtual.Mute, 2, 20, 1, 5 * time.Second},
		"slow":        {virtual.Delaying(100*time.Millisecond, 100*time.Millisecond), 8, 20, 7, 3 * time.Second}, // 160 turns of 3 ms
	} {
		for node := range 5 { // one of them is the coordinator
			var quick, late []time.Duration
			for range test.runs {
				if max(len(quick), len(late)) > test.runs/2 {
					break
				}
				runBubble(t, fmt.Sprint(name, node), 5, func(t *testing.T, c *cluster) {
					c.Grown()
					c.Slow(time.Millisecond)
					lockers := c.lockers(test.lockers)
					takeTurns(t, lockers, 2, time.Millisecond)
					c.Each(test.trouble, node)
					if name == "quarantined" {
						time.Sleep(time.Second) // to connect again
					}
					took := virtual.Elapsed(func() { takeTurns(t, lockers, test.rounds, time.Millisecond) })
					t.Log(took)
					if took < test.most {
						quick = append(quick, took)
					} else {
						late = append(late, took)
					}
					c.Each(virtual.Unmute, node)
					c.LeavesNothing(15 * time.Second)
				})
			}
			assert.LessOrEqual(t, len(late), test.runs/2, "%s%d took %v", name, node, late)
		}
	}
}

// All that reaches a client is late for a moment, as when its process was not run. It keeps its
// coordinator: with coordinators of their own, the clients would split the votes for as long as
// they disagree.
func TestAShortStallDoesNotMakeClientsDisagreeOnTheCoordinator(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var stalled atomic.Bool
		c.Slow(time.Millisecond)
		c.Each(func(n *fakeredis.Node) {
			n.Delay(nil, func() time.Duration {
				if stalled.Load() {
					return 100 * time.Millisecond
				}
				return time.Millisecond
			})
		})
		lockers := c.lockers(4)
		takeTurns(t, lockers, 5, time.Millisecond)
		before := splits(lockers)
		var all sync.WaitGroup
		all.Go(func() {
			for range 5 {
				stalled.Store(true)
				time.Sleep(500 * time.Microsecond)
				stalled.Store(false)
				time.Sleep(300 * time.Millisecond)
			}
		})
		takeTurns(t, lockers, 150, time.Millisecond)
		all.Wait()
		assert.LessOrEqual(t, splits(lockers)-before, uint64(5), "one for each stall at most")
	})
}

// splits returns how many attempts got votes, but no quorum.
func splits(lockers []*redlock.Locker) (n uint64) {
	for _, l := range lockers {
		n += l.Stats().Split
	}
	return n
}

// spin is a crowd of clients that take a lock again and again without waiting, beside one waiter.
type spin struct {
	spinners int
	half     time.Duration // half a round trip
	jitter   bool
	fresh    bool // each try comes from a new process
}

// run returns how often the waiter got the lock, and the most tenures of others during one of its
// waits.
func (s spin) run(c *cluster, length time.Duration) (waits int, worst int64) {
	vary := func(d time.Duration) time.Duration { return d }
	if s.jitter {
		vary = func(d time.Duration) time.Duration { return d/2 + rand.N(d) }
	}
	delay := func() time.Duration { return vary(s.half) }
	c.Each(func(n *fakeredis.Node) { n.Delay(delay, delay) })
	spinning, stop := context.WithTimeout(ctx, length+time.Minute) // no wait takes that long
	defer stop()
	var had atomic.Int64
	hold := func(lock *redlock.Lock) {
		had.Add(1)
		time.Sleep(vary(5 * time.Millisecond))
		assert.NoError(c.T, lock.Unlock(ctx))
	}
	var all sync.WaitGroup
	for range s.spinners {
		l := c.Locker()
		all.Go(func() {
			for spinning.Err() == nil {
				if s.fresh {
					l = c.Connecting(redlock.WithoutRenewal())
					_ = l.Ready(spinning) //nolint:errcheck // the try fails if it must
				}
				if lock, err := l.TryLock(spinning, "a"); err == nil {
					hold(lock)
				}
				if s.fresh {
					_ = l.Close()
				}
				time.Sleep(vary(500 * time.Microsecond))
			}
		})
	}
	waiter := c.Locker()
	time.Sleep(100 * time.Millisecond)
	for began := time.Now(); time.Since(began) < length; waits++ {
		before := had.Load()
		lock, err := waiter.Lock(spinning, "a")
		if worst = max(worst, had.Load()-before); err != nil {
			break
		}
		hold(lock)
	}
	stop() // not before the last wait has ended
	all.Wait()
	return waits, worst
}

func TestAWaiterIsNotOvertakenAgainAndAgain(t *testing.T) {
	t.Parallel()
	length, sizes := time.Duration(max(virtual.SizeOf(3, 200), 3))*time.Second/10, []int{3}
	if virtual.Thorough() {
		sizes = []int{3, 1, 5}
	}
	for _, nodes := range sizes {
		all := []spin{{3, 50 * time.Microsecond, true, false}, {8, time.Millisecond, true, true}}
		for _, spinners := range []int{1, 3, 8} {
			for _, half := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
				all = append(all, spin{spinners, half, false, false}, spin{spinners, half, true, false})
			}
		}
		for _, s := range all {
			runBubble(t, fmt.Sprintf("%d nodes, %+v", nodes, s), nodes, func(t *testing.T, c *cluster) {
				waits, worst := s.run(c, length)
				t.Log(waits, "waits, overtaken", worst)
				assert.LessOrEqual(t, worst, int64(10), "overtaken in one wait")
				assert.NotZero(t, waits)
			})
		}
	}
}

// Waiters of the same age, each with a place at every node, are in another order on each list.
// Their votes split at the first hand-over. Then they get into one order, and need no standoff.
func TestWaitersOfTheSameAgeDoNotSplitTheirVotesAgainAndAgain(t *testing.T) {
	const waiters, held = 16, 500 * time.Millisecond // so a standoff lasts 60 to 100 ms
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		first := c.Lock(c.Renewing(), "a")
		var lockers []*redlock.Locker
		for range waiters {
			lockers = append(lockers, c.Renewing())
		}
		delay := func() time.Duration { return 100*time.Microsecond + rand.N(time.Millisecond) }
		c.Each(func(n *fakeredis.Node) { n.Delay(delay, delay) })
		over := make(chan error, waiters)
		for _, l := range lockers {
			go func() {
				lock, err := redlock.LockOvertaken(ctx, l, "a")
				if err == nil {
					err = lock.Unlock(ctx)
				}
				over <- err
			}()
		}
		time.Sleep(held)
		c.Unlock(first)
		took := virtual.Elapsed(func() {
			for range waiters {
				assert.NoError(t, <-over)
			}
		})
		t.Log("all had it after", took)
		// About two standoffs. With one or more per hand-over, it took 2.1 to 20 s.
		assert.Less(t, took, 1500*time.Millisecond)
	})
}

// Without a quorum a vote is useless and goes to the next waiter, which cannot use it either.
// Passing it around must not keep the remaining nodes busy.
func TestWaitersDoNotPassAVoteAroundWithoutAQuorum(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Slow(time.Millisecond)
		lock := c.Lock(c.Locker(), "a")
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		const waiters = 3
		var ends []<-chan error
		for _, l := range c.lockers(waiters) {
			ends = append(ends, c.Ending(func() error { _, err := l.Lock(limited, "a"); return err }))
		}
		time.Sleep(50 * time.Millisecond)
		for coordinator, server := range c.Servers {
			if _, _, found := server.Get("redquorum:wait:a"); found {
				c.Each(virtual.Kill, (coordinator+1)%5, (coordinator+2)%5, (coordinator+3)%5)
				break
			}
		}
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNoQuorum)
		before := c.Commands()
		time.Sleep(10 * time.Second)
		// An attempt is a coordinator request, a round and a release to each of the two remaining
		// nodes.
		assert.LessOrEqual(t, c.Commands()-before, waiters*6*100, "ten attempts per second each")
		cancel()
		for _, end := range ends {
			err := <-end
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
		}
	})
}
