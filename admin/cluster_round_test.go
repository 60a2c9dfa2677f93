package admin_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// whileOneIsRemoved runs a test on four members and a lock. One is silent to the client, another
// one has something else under the keys, the other two grant whatever they are asked. Once the one
// that refuses is removed, two are a quorum, and no vote comes in that would say so.
func whileOneIsRemoved(t *testing.T, name string, test func(*cluster, *redlock.Locker, *redlock.Lock, func())) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
			all, silent := []int{0, 1, 2, 3}, make([]atomic.Bool, 4)
			operator := c.Among(all)
			l := c.Among(all, c.Sparing(silent), redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(4*time.Second))
			time.Sleep(2 * virtual.MaxTTL)
			lock := c.Lock(l, "held")
			time.Sleep(time.Second)
			silent[2].Store(true)
			for _, key := range []string{"a", "held"} {
				c.Set(key, "of another client", time.Minute, 3)
			}
			test(c, l, lock, func() { c.change(operator, remove(3)) })
		})
	})
}

// calls are those whose rounds are awaited in ways of their own.
var calls = map[string]func(ctx context.Context, l *redlock.Locker, lock *redlock.Lock) error{
	"Lock": func(ctx context.Context, l *redlock.Locker, _ *redlock.Lock) error {
		_, err := l.Lock(ctx, "a")
		return err
	},
	"TryLock": func(ctx context.Context, l *redlock.Locker, _ *redlock.Lock) error {
		_, err := l.TryLock(ctx, "a")
		return err
	},
	"TryLockAny": func(ctx context.Context, l *redlock.Locker, _ *redlock.Lock) error {
		_, err := l.TryLockAny(ctx, []string{"a"})
		return err
	},
	"Verify": func(ctx context.Context, _ *redlock.Locker, lock *redlock.Lock) error { return lock.Verify(ctx) },
	"Extend": func(ctx context.Context, _ *redlock.Locker, lock *redlock.Lock) error {
		return lock.Extend(ctx, 9*time.Second)
	},
}

func TestACallEndsOnceTheListInForceDecidesIt(t *testing.T) {
	ends := maps.Clone(calls)
	ends["Unlock"] = func(ctx context.Context, _ *redlock.Locker, lock *redlock.Lock) error { return lock.Unlock(ctx) }
	for name, call := range ends {
		whileOneIsRemoved(t, name, func(c *cluster, l *redlock.Locker, lock *redlock.Lock, remove func()) {
			var learns <-chan error // a call by which the client hears of the change
			took := virtual.Elapsed(func() {
				ended := c.Ending(func() error { return call(ctx, l, lock) })
				time.Sleep(time.Second)
				remove()
				learns = c.Ending(func() error { _, err := l.Lock(ctx, "another"); return err })
				assert.NoError(c.T, <-ended)
			})
			assert.Less(c.T, took, 3*time.Second, "less than the node timeout")
			assert.NoError(c.T, <-learns)
		})
	}
}

// While a client knows that masters were told another list, and not that list, their votes do not
// count: a context that ends just then decides nothing. They count again by the list that comes.
func TestACallWhoseContextEndsWhileAListIsLearnedIsNotDecidedByThat(t *testing.T) {
	for name, call := range calls {
		whileOneIsRemoved(t, name, func(c *cluster, l *redlock.Locker, lock *redlock.Lock, remove func()) {
			c.Slow(200 * time.Millisecond)
			live, cancel := context.WithCancel(ctx)
			ended := c.Ending(func() error { return call(live, l, lock) })
			c.Calls.Go(remove)
			for s := l.Stats(); s.Nodes[0].Barred == nil || s.Nodes[1].Barred == nil; s = l.Stats() {
				require.Equal(c.T, 4, s.Members, "that moment never came")
				time.Sleep(time.Millisecond)
			}
			cancel()
			require.ErrorIs(c.T, <-ended, context.Canceled)
			time.Sleep(4 * time.Second)
			assert.Equal(c.T, name == "Extend", lock.Remaining() > 3*time.Second)
		})
	}
}

// A key of another type is no lock. Of the other three, two refuse, and one is silent.
func TestRefusalsAreConfirmedByTheListInForce(t *testing.T) {
	for name, gone := range map[string]int{"of another type": 0, "silent": 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
				all, silent := []int{0, 1, 2, 3}, make([]atomic.Bool, 4)
				operator := c.Among(all)
				l := c.Among(all, c.Sparing(silent), redlock.WithNodeTimeout(4*time.Second))
				time.Sleep(2 * virtual.MaxTTL)
				c.Do(0, "ZADD", "a", 1, "x")
				c.Set("a", "another client", time.Minute, 1, 2)
				silent[3].Store(true)
				var learns <-chan error
				took := virtual.Elapsed(func() {
					ended := c.Ending(func() error { _, err := l.TryLock(ctx, "a"); return err })
					time.Sleep(time.Second)
					c.change(operator, remove(gone))
					learns = c.Ending(func() error { _, err := l.Lock(ctx, "another"); return err })
					err := <-ended
					require.ErrorIs(t, err, redlock.ErrTaken)
					assert.ErrorContains(t, err, "0 granted, 2 refused, 2 needed")
				})
				assert.Less(t, took, 3*time.Second, "less than the node timeout")
				assert.NoError(t, <-learns)
			})
		})
	}
}

// Two of four grant, which is a quorum once the one that is down is removed. That comes too late:
// the round was denied, and what it was granted is given back.
func TestADenialIsNotConfirmedByAListByWhichItIsNone(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		all, silent := []int{0, 1, 2, 3}, make([]atomic.Bool, 4)
		operator := c.Among(all)
		l := c.Among(all, c.Sparing(silent), redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(8*time.Second))
		time.Sleep(2 * virtual.MaxTTL)
		c.Set("a", "another client", time.Minute, 2)
		c.Each(virtual.Kill, 3)
		c.Slow(200 * time.Millisecond)
		ended := c.Ending(func() error { _, err := l.TryLock(ctx, "a"); return err })
		time.Sleep(150 * time.Millisecond) // its SET is answered, and its release gets lost
		silent[2].Store(true)
		c.change(operator, remove(3))
		c.Calls.Go(func() { // it hears of the change, and may find no quorum for it
			if other, err := l.TryLock(c.Within(time.Second), "another"); err == nil {
				assert.NoError(t, other.Unlock(ctx))
			}
		})
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, l.Stats().Members)
		require.Empty(t, ended, "its release is not confirmed yet")
		err := <-ended
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.ErrorContains(t, err, "2 granted, 1 refused, 3 needed")
	})
}

// Two masters are silent, and one of them is removed: the other two are a quorum then.
func TestAQuestionThatDoesNotWaitForAllEndsByTheListInForce(t *testing.T) {
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		all, silent := []int{0, 1, 2, 3}, make([]atomic.Bool, 4)
		operator := c.Among(all)
		l := c.Among(all, c.Sparing(silent), redlock.WithNodeTimeout(9*time.Second))
		time.Sleep(2 * virtual.MaxTTL)
		silent[2].Store(true)
		silent[3].Store(true)
		took := virtual.Elapsed(func() {
			ended := c.Ending(func() error {
				_, err := admin.Of(l).Inspect(look.Within(ctx, 100*time.Millisecond), "a")
				return err
			})
			time.Sleep(time.Second)
			c.change(operator, remove(3))
			assert.NoError(t, <-ended)
		})
		assert.Less(t, took, 5*time.Second)
	})
}

// One of two that answered loses its vote while the last one has its time to answer.
func TestAQuestionThatDoesNotWaitForAllHasTheAnswersOfAQuorum(t *testing.T) {
	inCluster(t, 3, 0, func(t *testing.T, c *cluster) {
		l := c.Among([]int{0, 1, 2}, redlock.WithNodeTimeout(9*time.Second))
		time.Sleep(2 * virtual.MaxTTL)
		c.Each(virtual.Delaying(150*time.Millisecond, 150*time.Millisecond), 2)
		took := virtual.Elapsed(func() {
			ended := c.Ending(func() error {
				_, err := admin.Of(l).Inspect(look.Within(ctx, 250*time.Millisecond), "a")
				return err
			})
			time.Sleep(50 * time.Millisecond)
			c.Each(virtual.Empty, 1)
			assert.NoError(t, <-ended)
		})
		assert.Less(t, took, time.Second)
	})
}
