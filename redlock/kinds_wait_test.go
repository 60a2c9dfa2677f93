package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// What holds for the calls of every kind that wait.

// rarely makes a waiter that nobody wakes wait for a long time.
var rarely = redlock.WithRetry(time.Minute, time.Minute)

func TestAReleaseHandsTheLockToTheOldestWaiterOfAnyLocker(t *testing.T) {
	const roundTrip = 2 * time.Millisecond
	for _, lockers := range []int{1, 4} {
		t.Run(fmt.Sprint(lockers, " lockers"), func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				c.Slow(roundTrip)
				holder := c.Locker()
				lock := c.allOf(k, holder)
				var all []*redlock.Locker
				for range lockers {
					all = append(all, c.Locker(rarely))
				}
				var got []<-chan *redlock.Lock
				for i := range 4 {
					got = append(got, c.queue(k, all[i%lockers]))
				}
				released := c.Clock.Now()
				for i := range got {
					c.Unlock(lock)
					lock = <-got[i]
					// Half a round trip to the coordinator, half to the waiter, and one round.
					assert.LessOrEqual(t, c.Clock.Now().Sub(released), 2*roundTrip)
					assert.Positive(t, lock.Remaining())
					released = c.Clock.Now()
				}
				c.Unlock(lock)
				assert.NotZero(t, holder.Stats().HandedOver)
				for _, l := range all {
					stats := l.Stats()
					assert.Equal(t, uint64(4/lockers), stats.Waits)
					assert.NotZero(t, stats.Woken)
					assert.Zero(t, stats.Polls)
					assert.Zero(t, stats.Waiting+stats.Held)
				}
				c.LeavesNothing(3*time.Minute + time.Second) // the life of the lists
			})
		})
	}
}

func TestAWaiterThatGivesUpSaysWhyAndLeavesNoPlace(t *testing.T) {
	why := errors.New("shutting down")
	for name, test := range map[string]struct {
		end   func(c *cluster) context.Context // in 50 ms
		wants []error
	}{
		"deadline": {
			func(c *cluster) context.Context { return c.Within(50 * time.Millisecond) },
			[]error{context.DeadlineExceeded},
		},
		"cause": {func(*cluster) context.Context {
			caused, stop := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { stop(why) })
			return caused
		}, []error{context.Canceled, why}},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				c.Slow(time.Millisecond)
				holder, l := c.Locker(), c.Locker()
				held, busy := c.allOf(k, holder), c.Lock(holder, "busy")
				var err error
				ending := test.end(c)
				placed := c.Ending(func() error { _, err := redlock.LockOvertaken(ending, l, "busy"); return err })
				assert.Equal(t, 50*time.Millisecond, virtual.Elapsed(func() { _, err = k.wait(ending, l) }))
				require.ErrorIs(t, err, redlock.ErrTaken)
				for _, want := range test.wants {
					require.ErrorIs(t, err, want)
				}
				require.ErrorIs(t, <-placed, test.wants[0], "with a place at every node")
				c.Unlock(busy)
				time.Sleep(10 * time.Millisecond)
				for i := range c.Servers {
					assert.EqualValues(t, 0, c.Do(i, "EXISTS", k.list, "redquorum:wait:busy"))
				}
				next := c.queue(k, c.Locker(rarely))
				c.Unlock(held)
				time.Sleep(10 * time.Millisecond)
				require.Len(t, next, 1, "the next waiter gets the lock")
				c.Unlock(<-next)
				assert.Zero(t, l.Stats().Waiting)
			})
		})
	}
}

func TestWaitingWorksWherePubSubIsForbidden(t *testing.T) {
	for _, forbidden := range [][]string{
		{"SUBSCRIBE"},
		{"PUBLISH"},
		{"ZADD", "ZPOPMIN", "ZREM", "ZCARD", "ZSCORE"},
		{"SUBSCRIBE", "PUBLISH", "ZADD", "ZPOPMIN", "ZREM"},
		{"TIME"},
	} {
		t.Run(strings.Join(forbidden, " "), func(t *testing.T) {
			eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
				if k.what == "reader" && (slices.Contains(forbidden, "ZADD") || slices.Contains(forbidden, "TIME")) {
					return // readers are kept in a sorted set, by their time
				}
				for i := range c.Servers {
					c.Deny(i, forbidden...)
				}
				c.Slow(time.Millisecond)
				held := c.allOf(k, c.Locker())
				got := c.queue(k, c.Locker())
				time.Sleep(2 * time.Second)
				c.Unlock(held)
				took := virtual.Elapsed(func() { c.Unlock(<-got) })
				assert.LessOrEqual(t, took, time.Second+50*time.Millisecond)
			})
		})
	}
}

func TestWaitersTurnToAnotherNodeWhenTheCoordinatorIsAway(t *testing.T) {
	for _, since := range []time.Duration{20 * time.Millisecond, 5 * time.Second} {
		for down := range 5 {
			t.Run(fmt.Sprint("node ", down, " since ", since), func(t *testing.T) {
				eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
					c.Slow(time.Millisecond)
					held := c.allOf(k, c.Locker())
					got := c.queue(k, c.Locker())
					c.Servers[down].Kill()
					time.Sleep(since) // the waiter finds another coordinator if this node was the coordinator
					c.Unlock(held)
					took := virtual.Elapsed(func() { c.Unlock(<-got) })
					assert.Less(t, took, 10*time.Millisecond, "without waiting for a poll")
				})
			})
		}
	}
}

func TestTheNextWaiterGetsTheLockOfADeadHolderAsItExpires(t *testing.T) {
	eachKind(t, 5, func(t *testing.T, c *cluster, k kind) {
		c.Slow(time.Millisecond)
		l := c.Locker()
		c.allOf(k, c.Locker(), redlock.WithTTL(5*time.Second)) // it is not renewed
		expiry := c.Clock.Now().Add(5 * time.Second)
		lock, err := k.wait(ctx, l)
		require.NoError(t, err)
		assert.Less(t, c.Clock.Now().Sub(expiry), 20*time.Millisecond)
		assert.LessOrEqual(t, l.Stats().Polls, uint64(5*10+1), "at most one every 100 ms")
		c.Unlock(lock)
	})
}

// A master whose clock was set back keeps the keys of a dead holder for as much longer, and may be
// the one at which the waiters queue.
func TestAMasterThatKeepsALockTooLongHoldsUpNobody(t *testing.T) {
	for which := range 3 {
		eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
			c.Slow(time.Millisecond)
			dead := make([]atomic.Bool, len(c.Servers))
			c.allOf(k, c.Locker(c.Sparing(dead)), redlock.WithTTL(5*time.Second))
			for i := range dead {
				dead[i].Store(true)
			}
			got := c.queue(k, c.Locker())
			c.Servers[which].SetClock(-time.Hour, 1)
			took := virtual.Elapsed(func() { require.NotNil(t, <-got) })
			assert.Less(t, took, 8*time.Second)
		})
	}
}

// Two processes that take turns: the one that has just released the lock does not overtake, nor
// does a reader of its process overtake the writer to which it was handed. (Two sets, and choices,
// have no such order.)
func TestWhoWantsALockAgainQueuesBehindTheWaiter(t *testing.T) {
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		if k.what == "any" || k.what == "names" {
			return
		}
		c.Slow(2 * time.Millisecond)
		waits := k
		if k.what == "reader" {
			waits = kinds()[0]
		}
		a, b := c.Locker(), c.Locker()
		lock := c.allOf(k, a)
		for range 10 {
			next := c.queue(waits, b)
			c.Unlock(lock)
			again := c.Background(func() (*redlock.Lock, error) { return k.wait(ctx, a) })
			lock = <-next
			time.Sleep(10 * time.Millisecond)
			require.Empty(t, again, "it was faster")
			c.Unlock(lock)
			lock = <-again
			time.Sleep(100 * time.Millisecond)
		}
		c.Unlock(lock)
	})
}

func TestAMessageThatSomebodyElseSendsHarmsNobody(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		s := c.Permits("s", 1)
		held := c.Permit(s)
		got := c.acquiring(c.Permits("s", 1))
		for i := range c.Servers {
			places, _ := c.Do(i, "ZRANGE", "redquorum:permit:wait:s", 0, -1).([]any)
			for _, place := range places {
				process, value, _ := strings.Cut(string(place.([]byte)), ":")
				c.Do(i, "PUBLISH", "redquorum:wake:"+process, value)
			}
		}
		time.Sleep(time.Second)
		c.Unlock(held)
		c.Unlock(<-got)
	})
}
