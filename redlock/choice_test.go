package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

var threeNames = []string{"a", "b", "c"}

// choice is a way to hold one of three: a name or a permit.
type choice struct {
	names     []string
	try, wait func(l *redlock.Locker) (*redlock.Lock, error)
}

// eachChoice runs a test for each choice.
func eachChoice(t *testing.T, nodes int, test func(t *testing.T, c *cluster, of choice)) {
	t.Helper()
	s := func(l *redlock.Locker) *redlock.Semaphore {
		s, err := l.Semaphore("s", 3)
		require.NoError(t, err)
		return s
	}
	for what, of := range map[string]choice{
		"names": {
			threeNames,
			func(l *redlock.Locker) (*redlock.Lock, error) { return l.TryLockAny(ctx, threeNames) },
			func(l *redlock.Locker) (*redlock.Lock, error) { return l.LockAny(ctx, threeNames) },
		},
		"permits": {
			[]string{"s#1", "s#2", "s#3"},
			func(l *redlock.Locker) (*redlock.Lock, error) { return s(l).TryAcquire(ctx) },
			func(l *redlock.Locker) (*redlock.Lock, error) { return s(l).Acquire(ctx) },
		},
	} {
		runBubble(t, what, nodes, func(t *testing.T, c *cluster) { test(t, c, of) })
	}
}

// chooses acquires one that must be free.
func (c *cluster) chooses(of choice, l *redlock.Locker) *redlock.Lock {
	c.T.Helper()
	lock, err := of.try(l)
	require.NoError(c.T, err)
	virtual.Settle()
	return lock
}

// allChosen holds all three, in the order of their names.
func (c *cluster) allChosen(of choice, l *redlock.Locker) []*redlock.Lock {
	c.T.Helper()
	locks := []*redlock.Lock{c.chooses(of, l), c.chooses(of, l), c.chooses(of, l)}
	slices.SortFunc(locks, func(a, b *redlock.Lock) int { return strings.Compare(a.Name(), b.Name()) })
	for i, lock := range locks {
		require.Equal(c.T, of.names[i], lock.Name())
	}
	return locks
}

// Crashed clients have left something behind at one node each, so each node gives the caller
// another name, or another slot.
func TestNodesThatGiveDifferentNamesAreAskedForOne(t *testing.T) {
	eachChoice(t, 3, func(t *testing.T, c *cluster, of choice) {
		for i, name := range of.names {
			c.Set(name, "crashed", 5*time.Second, i)
		}
		c.Set("redquorum:permits:s", "3", time.Minute)
		l := c.Locker()
		for range 3 {
			lock, held := c.chooses(of, l), 0
			for _, name := range of.names {
				for _, value := range c.Holders(name) {
					if value == lock.Value() {
						held++
						assert.Equal(t, lock.Name(), name, "no other one")
					}
				}
			}
			assert.GreaterOrEqual(t, held, 2)
		}
		_, err := of.try(l)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.UnlockAll(ctx))
		c.LeavesNothing(6 * time.Second)
	})
}

// acquiring is a call of Acquire that waits.
func (c *cluster) acquiring(s *redlock.Semaphore) <-chan *redlock.Lock {
	c.T.Helper()
	return c.Queued(func() (*redlock.Lock, error) { return s.Acquire(ctx) })
}

// numbered lets a node know a number of permits, because somebody holds one of them.
func (c *cluster) numbered(n int, node int) {
	c.T.Helper()
	c.Set(fmt.Sprint("s#", n), "somebody", time.Minute, node)
	c.Set("redquorum:permits:s", fmt.Sprint(n), 10*time.Minute, node)
}

// Per-node counting would let three in.
func TestClientsThatReachDifferentPairsOfNodesHoldNoMoreThanTheNumber(t *testing.T) {
	for range 20 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			held := 0
			for away := range 3 {
				s := c.Permits("s", 2)
				c.Servers[away].Mute(true)
				lock, err := s.TryAcquire(ctx)
				c.Servers[away].Mute(false)
				virtual.Settle()
				switch {
				case err == nil:
					held++
					assert.NoError(t, lock.Verify(ctx))
				default:
					assert.ErrorIs(t, err, redlock.ErrTaken)
				}
			}
			assert.Equal(t, 2, held)
		})
	}
}

func TestAnotherNumberOfPermitsIsRefusedWhileOneIsHeld(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.Permit(c.Permits("s", 2))
		s := c.Permits("s", 5)
		for _, acquire := range []func(context.Context, ...redlock.LockOption) (*redlock.Lock, error){s.TryAcquire, s.Acquire} {
			_, err := acquire(ctx)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			assert.NotErrorIs(t, err, redlock.ErrTaken)
			assert.ErrorContains(t, err, `semaphore "s" has 2 permits at a quorum of nodes, not 5`)
		}
		c.Unlock(lock)
		virtual.Settle()
		c.Unlock(c.Permit(s)) // nobody holds one
	})
}

// The answers of two nodes show that no slot can have a quorum, and not yet why.
func TestTheAnswerThatTellsAboutAnotherNumberIsAwaited(t *testing.T) {
	for slow := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for i, permits := range []int{1, 7, 7} {
				c.numbered(permits, i)
			}
			s := c.Permits("s", 1)
			c.Each(virtual.Delaying(time.Millisecond, 0), slow)
			_, err := s.TryAcquire(ctx)
			require.ErrorIs(t, err, redlock.ErrInvalid)
		})
	}
}

func TestAPermitIsRenewedWithTheNumber(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Renewing(redlock.WithTTL(time.Second))
		s, err := l.Semaphore("s", 2)
		require.NoError(t, err)
		lock, mutex := c.Permit(s), c.Lock(l, "m")
		for i := range c.Servers {
			c.Do(i, "PEXPIRE", "redquorum:permits:s", 10_000)
		}
		c.Del(lock.Name(), 2) // which is healed, and takes an extension more, outside of the batches
		before := c.Commands()
		time.Sleep(20 * time.Second)
		assert.Less(t, c.Commands()-before, 2*3*60+20, "in the batches of the mutex")
		require.NoError(t, lock.Verify(ctx))
		require.NoError(t, mutex.Verify(ctx))
		assert.Equal(t, []string{lock.Value()}, uniq(c.Holders(lock.Name())))
		assert.Equal(t, []string{"2"}, uniq(c.Holders("redquorum:permits:s")))
		// A quorum that knows another number has forgotten that it gave this permit.
		c.Set("redquorum:permits:s", "7", 10*time.Minute, 0, 1)
		require.ErrorIs(t, lock.Extend(ctx, time.Second), redlock.ErrLost)
		require.NoError(t, mutex.Verify(ctx))
	})
}

// A client with another number gets slots at masters that forgot, or missed the acquisition, before
// it is refused. They go back to the right number as the holder renews.
func TestAWrongNumberCostsTheHolderOfAPermitNoMaster(t *testing.T) {
	for name, away := range map[string]func(*fakeredis.Node){
		"forgot": func(n *fakeredis.Node) { n.Restart(false) },
		"missed": func(n *fakeredis.Node) { n.Expire("s#1"); n.Expire("redquorum:permits:s") },
	} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing()
			s, err := l.Semaphore("s", 1)
			require.NoError(t, err)
			wrong, permit := c.Permits("s", 5), c.Permit(s)
			for _, node := range []int{2, 1} {
				c.Each(away, node)
				for range 400 { // longer than a quarantine
					_, err := wrong.TryAcquire(ctx)
					require.Error(t, err)
					time.Sleep(250 * time.Millisecond)
				}
				require.NoError(t, permit.Err())
			}
			time.Sleep(10 * time.Second)
			assert.Equal(t, []string{"1"}, uniq(c.Holders("redquorum:permits:s")))
			assert.Equal(t, []string{permit.Value()}, uniq(c.Holders("s#1")))
			c.Each(virtual.Kill, 0)
			time.Sleep(time.Minute)
			assert.NoError(t, permit.Err())
		})
	}
}

// At all masters, again and again. Meanwhile nobody else gets a permit, under any number.
func TestPermitsAreHeldWhateverOthersWriteOverTheirNumber(t *testing.T) {
	for _, what := range [][]any{{"SET", "x"}, {"SET", ""}, {"SET", 0}, {"SET", "-2"}, {"SET", "1e3"}, {"SET", 99999}, {"ZADD", 1, "2"}, nil} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing(redlock.WithTTL(3 * time.Second))
			s, err := l.Semaphore("s", 2)
			require.NoError(t, err)
			held, other := []*redlock.Lock{c.Permit(s), c.Permit(s)}, c.Permits("s", 3)
			for range 8 { // four times to live
				for i := range c.Servers {
					c.Do(i, "DEL", "redquorum:permits:s")
					if what != nil {
						c.Do(i, what[0].(string), append([]any{"redquorum:permits:s"}, what[1:]...)...)
						_, err := other.TryAcquire(ctx)
						require.Error(t, err)
					}
				}
				time.Sleep(1500 * time.Millisecond)
			}
			for _, permit := range held {
				require.NoError(t, permit.Verify(ctx), "%v", what)
			}
			assert.Equal(t, []string{"2"}, uniq(c.Holders("redquorum:permits:s")), "%v", what)
		})
	}
}

// What has another type is a failure of its master also where others are free or held, and is left
// alone.
func TestAChoiceIsNotTakenByWhatIsNoLock(t *testing.T) {
	eachChoice(t, 3, func(t *testing.T, c *cluster, of choice) {
		l := c.Renewing()
		fails := func() {
			_, err := of.try(l)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrTaken)
			require.ErrorContains(t, err, "WRONGTYPE")
		}
		spoil := func(name string) {
			for i := range c.Servers {
				c.Do(i, "ZADD", name, 1, "x")
			}
		}
		spoil(of.names[1])
		before := l.Stats().SecondRounds
		first, second := c.chooses(of, l), c.chooses(of, l)
		assert.ElementsMatch(t, []string{of.names[0], of.names[2]}, []string{first.Name(), second.Name()})
		assert.Equal(t, before, l.Stats().SecondRounds)
		fails() // others may release theirs, and this one stays
		c.Unlock(first, second)
		virtual.Settle()
		spoil(of.names[0])
		spoil(of.names[2])
		fails()
		for _, name := range of.names {
			for i := range c.Servers {
				assert.Equal(t, []byte("1"), c.Do(i, "ZSCORE", name, "x"))
			}
		}
	})
}

// Waiters for the other permits are on the list, and learn at the end why they got none.
func TestAWaiterForAPermitIsServedBesideWhatIsNoLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Slow(time.Millisecond)
		for i := range c.Servers {
			c.Do(i, "ZADD", "s#1", 1, "x")
		}
		s := c.Permits("s", 2, rarely)
		held := c.Permit(s)
		got := c.acquiring(s)
		time.Sleep(time.Second)
		began := time.Now()
		c.Unlock(held)
		next := <-got
		assert.Less(t, time.Since(began), 5*time.Millisecond, "handed over")
		c.Unlock(next)
		virtual.Settle()
		for i := range c.Servers {
			c.Do(i, "ZADD", "s#2", 1, "x")
		}
		_, err := s.Acquire(c.Within(time.Minute))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
	})
}

func TestWaitersForPermitsAreServedInOrderAndWithoutPolling(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		for _, lockers := range []int{1, 8} {
			eachChoice(t, nodes, func(t *testing.T, c *cluster, of choice) {
				c.Slow(time.Millisecond)
				var all []*redlock.Locker
				for range lockers {
					all = append(all, c.Locker(rarely))
				}
				held := c.allChosen(of, c.Locker())
				var got []<-chan *redlock.Lock
				for i := range 8 {
					got = append(got, c.Queued(func() (*redlock.Lock, error) { return of.wait(all[i%lockers]) }))
				}
				for i := range got { // one of the three after the other
					began := time.Now()
					c.Unlock(held[i%3])
					held[i%3] = <-got[i]
					assert.Less(t, time.Since(began), 5*time.Millisecond, "handed over")
					assert.Equal(t, of.names[i%3], held[i%3].Name())
				}
				for _, l := range all {
					stats := l.Stats()
					assert.Equal(t, []uint64{0, uint64(8 / lockers)}, []uint64{stats.Polls, stats.Waits})
					assert.Zero(t, stats.Waiting)
				}
				c.Unlock(held...)
				c.LeavesNothing(3*time.Minute + time.Second) // the life of the list
			})
		}
	}
}

// Also if that node is the coordinator.
func TestWaitersForPermitsAreServedBesideANodeThatKnowsAnotherNumber(t *testing.T) {
	for other := range 3 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Slow(time.Millisecond)
			c.numbered(7, other)
			lock := c.Permit(c.Permits("s", 1))
			virtual.Settle()
			got := make(chan *redlock.Lock) // in any order
			for range 3 {
				next := c.acquiring(c.Permits("s", 1))
				go func() { got <- <-next }()
			}
			began := time.Now()
			for range 3 {
				c.Unlock(lock)
				lock = <-got
			}
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

func TestBadNamesAndNumbersOfSemaphoresAreRefused(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.Locker()
		for name, permits := range map[string]int{"": 1, string(make([]byte, 4092)): 1, "redquorum:s": 1, "a": 0, "b": -1, "c": 1025} {
			_, err := l.Semaphore(name, permits)
			require.ErrorIs(t, err, redlock.ErrInvalid, "%.10q %d", name, permits)
		}
		s, err := l.Semaphore(string(make([]byte, 4091)), 1024)
		require.NoError(t, err, "the limits themselves are valid")
		lock, err := s.TryAcquire(ctx)
		require.NoError(t, err)
		_, err = admin.Of(l).Inspect(ctx, lock.Name())
		require.NoError(t, err)
		var none context.Context
		_, err = admin.Of(l).InspectSemaphore(none, "s")
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.NoError(t, l.Close())
		_, err = admin.Of(l).InspectSemaphore(ctx, "s")
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

// The waits for the names end in any order.
func TestTheErrorOfLockAnyNamesWhatMatters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, l := c.Renewing(), c.Locker()
		for _, name := range threeNames {
			c.Lock(holder, name)
		}
		var failure *redlock.QuorumError
		for range 10 {
			_, err := l.LockAny(c.Within(time.Second), threeNames)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, threeNames[0], failure.Name)
		}
		c.Del(threeNames[1])
		for i := range c.Servers {
			c.Do(i, "ZADD", threeNames[1], 1, "no lock")
		}
		_, err := l.LockAny(c.Within(time.Second), threeNames)
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, threeNames[1], failure.Name, "it is not taken")
		require.NotErrorIs(t, err, redlock.ErrTaken)
	})
}

// The last refusal comes while an attempt that was won too late is given up.
func TestALateRefusalMeetsAChoiceThatIsGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Set("a", "somebody", time.Hour, 2)
		c.Set("b", "somebody", time.Hour, 2)
		l := c.Locker(redlock.WithDrift(0, 0))
		attempts := 100
		if virtual.Raced {
			attempts = 3000
		}
		for range attempts {
			_, err := l.TryLockAny(ctx, []string{"a", "b"}, redlock.WithTTL(10*time.Second), redlock.WithMinValidity(10*time.Second-time.Nanosecond))
			require.ErrorIs(t, err, redlock.ErrNoValidity)
			time.Sleep(time.Millisecond)
		}
	})
}

func TestWhatAnEarlierRoundWasGivenIsGivenBackWhereTheLastOneFailed(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.Set("a", "somebody", time.Minute, 1, 2, 3)
		c.Set("b", "somebody", time.Minute, 3)
		l := c.Locker()
		c.Each(virtual.Delaying(5*time.Millisecond, 5*time.Millisecond), 1, 2)
		time.AfterFunc(3*time.Millisecond, c.Servers[0].Kill)
		lock, err := l.TryLockAny(ctx, []string{"a", "b"}, redlock.WithTTL(30*time.Second))
		require.NoError(t, err)
		require.Equal(t, "b", lock.Name())
		value, _, _ := c.Servers[0].Get("a")
		require.Equal(t, lock.Value(), value)
		virtual.Settle()
		require.NoError(t, lock.Unlock(ctx))
		c.Servers[0].Restart(true)
		time.Sleep(2 * time.Second)
		virtual.Settle()
		value, _, _ = c.Servers[0].Get("a")
		assert.Empty(t, value, "given back")
	})
}
