package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// inLongBubble is inBubble with masters that keep no record of what they were asked.
func inLongBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{&virtual.Cluster{T: t, Clock: clocktest.New()}}
		for range nodes {
			node := fakeredis.New(c.Clock, fakeredis.WithoutCommandLog())
			node.Delay(virtual.Transit, virtual.Transit)
			t.Cleanup(node.Close)
			c.Servers = append(c.Servers, node)
		}
		t.Cleanup(c.Calls.Wait)
		c.Limit(longestTTL)
		test(t, c)
	})
}

const (
	longestTTL = 24 * time.Hour
	year       = 365 * 24 * time.Hour
)

// passes lets time pass of which nobody notices more than the beginning and the end.
func (c *cluster) passes(d time.Duration) {
	c.Clock.Suspend(d)
	time.Sleep(2 * clock.MaxNap)
	virtual.Settle()
}

// onceOnly uses a name once, and is done with it.
type onceOnly func(c *cluster, l, other *redlock.Locker, name string) error

// released releases what a call has got.
func released(lock *redlock.Lock, err error) error {
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func handedOver(c *cluster, l, other *redlock.Locker, name string) error {
	lock, err := l.TryLock(ctx, name)
	if err != nil {
		return err
	}
	next := c.Ending(func() error { return released(other.Lock(ctx, name)) })
	time.Sleep(10 * time.Millisecond)
	return errors.Join(lock.Unlock(ctx), <-next)
}

func givenUp(_ *cluster, l, other *redlock.Locker, name string) error {
	lock, err := l.TryLock(ctx, name)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := other.RLock(limited, name); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it is taken: %w", err)
	}
	return lock.Unlock(ctx)
}

func permitted(_ *cluster, l, _ *redlock.Locker, name string) error {
	s, err := l.Semaphore(name, 3)
	if err != nil {
		return err
	}
	return released(s.Acquire(ctx))
}

func both(name string) []string { return []string{name, name + "'"} }

// Masters and Lockers forget names. There is more room for what is kept of some of them: a Locker
// knows some thousands at which others waited, and masters have a log.
func TestNamesThatAreUsedOnceLeaveNothing(t *testing.T) {
	if virtual.Raced {
		t.Skip("a statistic of memory, which the race detector needs much of")
	}
	type locker = redlock.Locker
	const alone, beside = 300, 400 // bytes of a name
	for what, row := range map[string]struct {
		room int
		once onceOnly
	}{
		"mutex": {alone, func(_ *cluster, l, _ *locker, name string) error { return released(l.TryLock(ctx, name)) }},
		"fenced": {alone, func(_ *cluster, l, _ *locker, name string) error {
			return released(l.Lock(ctx, name, redlock.WithFencing()))
		}},
		"reader": {alone, func(_ *cluster, l, _ *locker, name string) error { return released(l.RLock(ctx, name)) }},
		"permit": {alone, permitted},
		"any":    {alone, func(_ *cluster, l, _ *locker, name string) error { return released(l.LockAny(ctx, both(name))) }},
		"names":  {alone, func(_ *cluster, l, _ *locker, name string) error { return released(l.LockAll(ctx, both(name))) }},
		"for a while": {alone, func(_ *cluster, l, _ *locker, name string) error {
			return released(l.TryLock(ctx, name, redlock.WithMinHold(time.Minute)))
		}},
		"lost": {beside, func(_ *cluster, l, _ *locker, name string) error {
			_, err := l.TryLock(ctx, name, redlock.WithTTL(10*time.Millisecond), redlock.WithoutRenewal())
			return err
		}},
		"handed over": {beside, handedOver},
		"given up":    {beside, givenUp},
		"another library's": {beside, func(c *cluster, l, _ *locker, name string) error {
			c.Set(name, "theirs", time.Millisecond)
			return released(l.Lock(ctx, name))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			inLongBubble(t, 3, func(t *testing.T, c *cluster) {
				l, other := c.Renewing(), c.Renewing()
				size := 40_000 / row.room // with fewer, what comes and goes outweighs what is left
				if virtual.Soaks() {
					size = 350_000 // in all a million names
				}
				heap := func(from, to int) (bytes, goroutines int) {
					for i := from; i < to; i++ {
						require.NoError(t, row.once(c, l, other, fmt.Sprint(i)))
						if (i+1)%50 == 0 {
							c.passes(2 * longestTTL)
							c.LeavesNothing(0)
						}
					}
					runtime.GC()
					runtime.GC() // pools keep what they have for one
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					return int(m.HeapAlloc), runtime.NumGoroutine()
				}
				before, some := heap(0, size)
				after, more := heap(size, 3*size)
				assert.Less(t, after-before, min(2*size*row.room, 4<<20))
				assert.LessOrEqual(t, more, some)
			})
		})
	}
}

// A lock of any kind is held for a year, and ends with it.
func TestALockIsHeldForAYear(t *testing.T) {
	hold := time.Duration(virtual.SizeOf(30, 365)) * 24 * time.Hour
	for _, k := range kinds() {
		t.Run(k.what, func(t *testing.T) {
			inLongBubble(t, 3, func(t *testing.T, c *cluster) {
				l, other := c.Renewing(redlock.WithMaxTTL(longestTTL)), c.Renewing(redlock.WithMaxTTL(longestTTL))
				began := c.Clock.Now()
				lock, err := k.all(ctx, l, redlock.WithTTL(longestTTL), redlock.WithMaxHold(hold))
				require.NoError(t, err)
				for lock.Err() == nil {
					require.Less(t, c.Clock.Now().Sub(began), hold)
					_, err := k.try(ctx, other)
					require.ErrorIs(t, err, redlock.ErrTaken, "after %v", c.Clock.Now().Sub(began))
					c.passes(min(longestTTL/3, max(lock.Remaining()-3*time.Second, 0)))
				}
				assert.InDelta(t, hold.Seconds(), c.Clock.Now().Sub(began).Seconds(), 3)
				assert.ErrorContains(t, lock.Err(), "maximum hold")
				c.passes(longestTTL / 50) // by then its holder has noticed
				c.Unlock(c.of(k, other))
			})
		})
	}
}

// wallClock has a date that a user sets.
type wallClock struct {
	clock.Clock
	by atomic.Int64 // seconds
}

func (w *wallClock) Wall() time.Time {
	return w.Clock.Wall().Add(time.Duration(w.by.Load()) * time.Second)
}

func TestTokensGrowWhateverIsDoneToClocks(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("counters kept: %v", kept), func(t *testing.T) {
			inLongBubble(t, 3, func(t *testing.T, c *cluster) {
				wall := &wallClock{Clock: c.Clock}
				l, other := c.Renewing(redlock.WithClock(wall), redlock.WithFencing(), redlock.WithOwner("me")), c.Renewing(redlock.WithFencing(), redlock.WithOwner("me"))
				last := int64(0)
				take := func(l *redlock.Locker) {
					lock, err := l.Lock(c.Within(2*time.Minute), "a")
					require.NoError(t, err)
					assert.Greater(t, lock.Fence(), last)
					last = lock.Fence()
					status, err := admin.Of(other).Inspect(ctx, "a")
					require.NoError(t, err)
					assert.Equal(t, "me", status.Owner, "%v", status.Since)
					c.Unlock(lock)
					if !kept {
						c.passes(time.Hour) // longer than the counters live
					}
				}
				for _, by := range []time.Duration{-time.Hour, time.Hour, -50 * year, 50 * year, -100 * year, 0, 100 * year} {
					wall.by.Store(int64(by.Seconds()))
					take(l)
					take(other)
				}
				for _, by := range []time.Duration{-time.Hour, time.Hour, -50 * year, 50 * year, 0} {
					c.Servers[0].SetClock(by, 1)
					take(other)
					take(l)
				}
			})
		})
	}
}

// A Locker without a pause for a year, whose cluster replaces a master each month.
func TestALockerServesForAYear(t *testing.T) {
	inCluster(t, 3, 1, func(t *testing.T, c *cluster) {
		l, other := c.Among([]int{0, 1, 2}), c.Among([]int{0, 1, 2})
		members := admin.Of(c.Among([]int{0, 1, 2})).Cluster()
		goroutines := func() int { virtual.Settle(); return runtime.NumGoroutine() }
		out, first := 3, 0
		for month := range 14 {
			c.passes(30 * 24 * time.Hour)
			require.NoError(t, members.Add(c.Within(2*time.Minute), virtual.Endpoint(out)))
			out = month % 4
			m, err := members.Members(ctx)
			require.NoError(t, err)
			at := slices.IndexFunc(m.Members, func(one admin.Member) bool { return one.Endpoint == virtual.Endpoint(out) })
			require.NoError(t, members.Remove(c.Within(2*time.Minute), m.Members[at].ID))
			c.Servers[out].FlushAll()
			c.passes(time.Minute)
			lock, got := c.Lock(l, "a"), c.Waiting(other, "a")
			c.Unlock(lock)
			took := virtual.Elapsed(func() { lock = <-got })
			assert.Less(t, took, 10*time.Millisecond, "month %d", month)
			c.Unlock(lock)
			virtual.Settle()
			connections := 0
			for i := range c.Servers {
				connections += c.Servers[i].Connections()
			}
			assert.LessOrEqual(t, connections, 15, "for each Locker three, and one to a master that it leaves; the waiter's")
			assert.LessOrEqual(t, len(l.Stats().Nodes), 5)
			if month == 5 {
				first = goroutines()
			}
		}
		assert.LessOrEqual(t, goroutines(), first+9, "the masters at which it waited differ, by three connections at most")
	})
}

// What is stuck shows by its age: how long the oldest lock is held, and the oldest call waits.
func TestStatsTellTheAgesOfTheOldestHoldAndTheOldestWait(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l, other := c.Renewing(), c.Renewing()
		ages := func(l *redlock.Locker) (hold, wait time.Duration) {
			virtual.Settle()
			s := l.Stats()
			return s.OldestHold.Round(time.Second), s.OldestWait.Round(time.Second)
		}
		requireAges := func(l *redlock.Locker, wantHold, wantWait time.Duration) {
			t.Helper()
			hold, wait := ages(l)
			require.Equal(t, wantHold, hold, "hold")
			require.Equal(t, wantWait, wait, "wait")
		}
		requireAges(l, 0, 0)
		office := door.Office.(redlock.LockOption)
		term := c.Lock(l, "office", office)
		c.Calls.Go(func() {
			_, err := other.Lock(c.Within(time.Minute), "office", office)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		time.Sleep(time.Minute / 2)
		requireAges(l, 0, 0)
		requireAges(other, 0, 0)
		c.Calls.Wait()
		require.NoError(t, term.Unlock(ctx))
		first, err := k.all(ctx, l)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		second := c.Lock(l, "another")
		time.Sleep(10 * time.Minute)
		requireAges(l, 11*time.Minute, 0)

		got := make(chan *redlock.Lock, 2)
		for range 2 {
			c.Calls.Go(func() {
				lock, err := k.wait(ctx, other)
				assert.NoError(t, err)
				got <- lock
			})
			time.Sleep(10 * time.Second)
		}
		requireAges(other, 0, 20*time.Second)
		require.NoError(t, first.Unlock(ctx))
		requireAges(l, 20*time.Second+10*time.Minute, 0)
		lock := <-got
		if k.what != "reader" && k.what != "any" { // of which both have one
			requireAges(other, 0, 10*time.Second)
		}
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, (<-got).Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))
		requireAges(l, 0, 0)
		requireAges(other, 0, 0)
	})
}
