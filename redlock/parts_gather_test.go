package redlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// counters counts the calls of hooks.
type counters struct{ acquired, refused, renewed, released, lost, waited atomic.Int64 }

func (n *counters) hooks() redlock.Option {
	return redlock.WithHooks(redlock.Hooks{
		Acquired: func(*redlock.Lock) { n.acquired.Add(1) },
		Refused:  func(string, error) { n.refused.Add(1) },
		Renewed:  func(*redlock.Lock) { n.renewed.Add(1) },
		Released: func(*redlock.Lock) { n.released.Add(1) },
		Lost:     func(*redlock.Lock, error) { n.lost.Add(1) },
		Waited:   func(*redlock.Lock, time.Duration) { n.waited.Add(1) },
	})
}

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
	first, err := g.other.Lock(ctx, "a")
	require.NoError(c.t, err)
	g.second, err = g.other.Lock(ctx, "b")
	require.NoError(c.t, err)
	go func() {
		lock, err := l.LockAll(limited, []string{"b", "a"}, opts...)
		g.got <- lock
		g.failed <- err
	}()
	time.Sleep(time.Second)
	for i := range 10 { // each name is free now and then, but never both
		require.NoError(c.t, first.Unlock(ctx))
		if i > 0 {
			happens()
		}
		if first = g.take("a", 20*time.Millisecond); first == nil {
			return g
		}
		require.NoError(c.t, g.second.Unlock(ctx))
		g.second = g.take("b", time.Second)
		require.NotNil(c.t, g.second)
	}
	require.Fail(c.t, "the set has not taken its first name")
	return nil
}

// take is Lock in another process, for a limited time.
func (g *gathering) take(name string, within time.Duration) *redlock.Lock {
	soon, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	lock, err := g.other.Lock(soon, name)
	if err != nil {
		assert.ErrorIs(g.t, err, redlock.ErrTaken)
		return nil
	}
	return lock
}

func TestASetKeepsItsPartsWhileItWaitsForTheRest(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var told counters
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
		require.NoError(t, g.second.Unlock(ctx))
		lock := <-g.got
		require.NoError(t, <-g.failed)
		assert.Equal(t, []string{"b", "a"}, lock.Names())
		assert.Greater(t, lock.Fence(), token)
		assert.Greater(t, lock.Remaining(), 150*time.Millisecond, "validity counts from the last round")
		for _, name := range lock.Names() {
			assert.Equal(t, []string{lock.Value(), lock.Value(), lock.Value(), lock.Value(), lock.Value()}, c.holders(name))
		}
		settle()
		assert.Equal(t, []int64{1, 0, 0, 0, 1},
			[]int64{told.acquired.Load(), told.renewed.Load(), told.released.Load(), told.lost.Load(), told.waited.Load()})
		assert.Equal(t, 1, l.Stats().Held)
		assert.Equal(t, uint64(1), l.Stats().Acquired)
		require.NoError(t, lock.Unlock(ctx))
		settle()
		assert.Equal(t, int64(1), told.released.Load())
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
				require.NoError(t, lock.Unlock(ctx))
				require.NoError(t, g.second.Unlock(ctx))
				assert.Zero(t, l.Stats().Held)
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

// A client that holds the rest of a set for long and also wants its first name gets it: the two do
// not wait for each other for ever.
func TestASetDoesNotKeepItsPartsForEver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		g := c.gather(ctx, c.locker())
		lock := g.take("a", 3*time.Second)
		require.NotNil(t, lock)
		time.Sleep(time.Second)
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, g.second.Unlock(ctx))
		set := <-g.got
		require.NoError(t, <-g.failed)
		require.NoError(t, set.Unlock(ctx))
	})
}

func TestASetThatLosesAPartBeginsAnew(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(200 * time.Millisecond))
		g := c.gather(ctx, l)
		for i := range c.servers {
			c.do(i, "DEL", "a")
		}
		lock := g.take("a", 50*time.Millisecond)
		require.NotNil(t, lock)
		time.Sleep(100 * time.Millisecond) // a renewal finds that the part is lost
		require.NoError(t, g.second.Unlock(ctx))
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, lock.Err(), "the set takes nothing from others")
		require.NoError(t, lock.Unlock(ctx))
		set := <-g.got
		require.NoError(t, <-g.failed)
		require.NoError(t, set.Err())
		assert.Zero(t, l.Stats().Lost)
		require.NoError(t, set.Unlock(ctx))
	})
}

// A node where another client has one of the names does not stop the set, and keeps none of its
// parts.
func TestNoPartIsLeftBehindWhenTheSetIsAcquired(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		g := c.gather(ctx, c.locker())
		c.do(4, "SET", "b", "somebody's", "PX", 60_000)
		require.NoError(t, g.second.Unlock(ctx))
		set := <-g.got
		require.NoError(t, <-g.failed)
		settle()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, []string{set.Value(), set.Value(), set.Value(), set.Value(), ""}, c.holders("a"))
		require.NoError(t, set.Unlock(ctx))
	})
}
