package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
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
	c.T.Helper()
	return c.gatherAfter(limited, func() {}, l, opts...)
}

// gatherAfter is gather, with something that happens just as the set takes its first name.
func (c *cluster) gatherAfter(limited context.Context, happens func(), l *redlock.Locker, opts ...redlock.LockOption) *gathering {
	c.T.Helper()
	c.Slow(time.Millisecond)
	g := &gathering{cluster: c, other: c.Renewing(redlock.WithFencing()), got: make(chan *redlock.Lock, 1), failed: make(chan error, 1)}
	first := c.Lock(g.other, "a")
	g.second = c.Lock(g.other, "b")
	go func() {
		lock, err := l.LockAll(limited, []string{"b", "a"}, opts...)
		g.got <- lock
		g.failed <- err
	}()
	time.Sleep(time.Second)
	for i := range 10 { // each name is free now and then, but never both
		c.Unlock(first)
		if i > 0 {
			happens()
		}
		if first = g.take("a", 20*time.Millisecond); first == nil {
			return g
		}
		c.Unlock(g.second)
		g.second = g.take("b", time.Second)
		require.NotNil(c.T, g.second)
	}
	require.Fail(c.T, "the set has not taken its first name")
	return nil
}

// take is Lock in another process, for a limited time.
func (g *gathering) take(name string, limit time.Duration) *redlock.Lock {
	lock, err := g.other.Lock(g.Within(limit), name)
	if err != nil {
		assert.ErrorIs(g.T, err, redlock.ErrTaken)
		return nil
	}
	return lock
}

// set returns the lock of the set, once it has it.
func (g *gathering) set() *redlock.Lock {
	g.T.Helper()
	lock := <-g.got
	require.NoError(g.T, <-g.failed)
	return lock
}

func TestASetKeepsItsPartsWhileItWaitsForTheRest(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var told diary
		l := c.Locker(told.hooks(), redlock.WithTTL(200*time.Millisecond)) // no renewal either
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
		c.Unlock(g.second)
		lock := g.set()
		assert.Equal(t, []string{"b", "a"}, lock.Names())
		assert.Greater(t, lock.Fence(), token)
		assert.Greater(t, lock.Remaining(), 150*time.Millisecond, "validity counts from the last round")
		for _, name := range lock.Names() {
			assert.Equal(t, []string{lock.Value()}, uniq(c.Holders(name)))
		}
		assert.Equal(t, []string{"waiting b", "acquired b", "waited b"}, told.take())
		assert.Equal(t, 1, l.Stats().Held)
		assert.Equal(t, uint64(1), l.Stats().Acquired)
		c.Unlock(lock)
		assert.Contains(t, told.take(), "released b")
	})
}

// It gives up as the last name is handed over, or as all are joined to one lock.
func TestASetThatGivesUpAsItIsCompleteGivesAllBack(t *testing.T) {
	for after := time.Millisecond; after < 5*time.Millisecond; after += 500 * time.Microsecond {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			g := c.gather(limited, c.Locker())
			time.AfterFunc(after, cancel)
			c.Unlock(g.second)
			if lock, err := <-g.got, <-g.failed; err == nil {
				c.Unlock(lock)
			} else {
				require.ErrorIs(t, err, context.Canceled, "after %v", after)
			}
			time.Sleep(100 * time.Millisecond)
			assert.Equal(t, []string{""}, uniq(append(c.Holders("a"), c.Holders("b")...)), "after %v", after)
		})
	}
}

// A client that holds the rest of a set for long and also wants its first name gets it: the two do
// not wait for each other for ever.
func TestASetDoesNotKeepItsPartsForEver(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		g := c.gather(ctx, c.Locker())
		lock := g.take("a", 3*time.Second)
		require.NotNil(t, lock)
		time.Sleep(time.Second)
		c.Unlock(lock, g.second)
		c.Unlock(g.set())
	})
}

// A client of another library holds one vote for the set's first name as the set takes it. So the
// set wins that name without a node where it has a ticket.
func TestASetLeavesNoTicketOfItsParts(t *testing.T) {
	for node := range 5 { // one of them is the coordinator
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			g := c.gatherAfter(ctx, func() { c.Set("a", "foreign", 500*time.Millisecond, node) }, c.Locker())
			time.Sleep(900 * time.Millisecond)
			c.Unlock(g.second)
			set := g.set()
			got := c.Waiting(g.other, "a")
			time.Sleep(50 * time.Millisecond)
			began := c.Clock.Now()
			c.Unlock(set)
			next := <-got
			assert.Less(t, c.Clock.Now().Sub(began), 100*time.Millisecond, "node %d", node)
			c.Unlock(next)
		})
	}
}

// A part is won without a node at which readers have its name, which keeps its intent. Where
// messages are forbidden, the part is on no list, from which it would be taken in the end.
func TestASetThatIsReleasedLetsReadersIn(t *testing.T) {
	kept := 0
	for node := range 3 { // one of them is the coordinator
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Slow(time.Millisecond)
			for i := range 3 {
				c.Deny(i, "SUBSCRIBE")
			}
			other, l := c.Renewing(), c.Renewing(redlock.WithRetry(time.Millisecond, 2*time.Millisecond))
			held := map[string]*redlock.Lock{"a": c.Lock(other, "a"), "b": c.Lock(other, "b")}
			got := c.Background(func() (*redlock.Lock, error) { return l.LockAll(ctx, []string{"b", "a"}) })
			for _, free := range []string{"b", "a", "b"} { // then it takes its names one after the other
				time.Sleep(100 * time.Millisecond)
				c.Unlock(held[free])
				time.Sleep(100 * time.Millisecond)
				held[free] = c.Lock(other, free)
			}
			time.Sleep(100 * time.Millisecond)
			c.Slow(0) // the two that grant the part are free at the same moment
			c.Set("a", wire.Marker, 20*time.Millisecond)
			c.Set("a", wire.Marker, 60*time.Millisecond, node)
			c.Slow(time.Millisecond)
			time.Sleep(80 * time.Millisecond)
			if c.Holders("redquorum:intent:a")[node] != "" {
				kept++
			}
			c.Unlock(held["b"])
			c.Unlock(<-got)
			virtual.Settle()
			assert.Equal(t, []string{"", "", ""}, c.Holders("redquorum:intent:a"))
			c.Unlock(c.Read(c.Renewing()))
		})
	}
	assert.Equal(t, 2, kept, "two nodes that could not grant the part keep readers out")
}
