package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// freeAt waits until fewer than a quorum of the nodes hold a key, and returns when that was, to a
// millisecond. Nobody may acquire the name before.
func (c *cluster) freeAt(key string) clock.Instant {
	c.T.Helper()
	stranger := c.Locker()
	for i := range 120_000 {
		held := 0
		for _, value := range c.Holders(key) {
			if value != "" {
				held++
			}
		}
		if held <= len(c.Servers)/2 {
			return c.Clock.Now()
		}
		if i%100 == 0 {
			_, err := stranger.TryLock(ctx, key)
			require.Error(c.T, err)
		}
		time.Sleep(time.Millisecond)
	}
	c.T.Fatalf("%q is never free", key)
	return 0
}

// lasts requires that a name which was acquired at an instant is taken for d from then on, and free
// within a few milliseconds after: the nodes count in whole ones, from when they run a command.
func (c *cluster) lasts(key string, acquired clock.Instant, d time.Duration) {
	c.T.Helper()
	free := c.freeAt(key).Sub(acquired)
	assert.GreaterOrEqual(c.T, free, d)
	assert.LessOrEqual(c.T, free, d+5*time.Millisecond)
}

func TestANameIsTakenForItsMinimumHoldHoweverEarlyTheLockIsReleased(t *testing.T) {
	const d = 2 * time.Second
	ends := endsOfAll()
	for name, test := range map[string]struct {
		opt redlock.LockOption
		end func(*redlock.Locker) error // nil for Unlock
	}{
		"a short TTL":  {opt: redlock.WithTTL(time.Second)},
		"the same TTL": {opt: redlock.WithTTL(d)},
		"a long TTL":   {opt: redlock.WithTTL(time.Minute)},
		"a token":      {opt: redlock.WithFencing()},
		"UnlockAll":    {redlock.WithTTL(20 * time.Second), ends["UnlockAll"]},
		"Close":        {redlock.WithTTL(20 * time.Second), ends["Close"]},
	} {
		for _, nodes := range []int{1, 3, 4} {
			for _, held := range []time.Duration{0, 700 * time.Millisecond, d - 2*time.Millisecond} {
				inBubble(t, nodes, func(t *testing.T, c *cluster) {
					c.Slow(100 * time.Microsecond)
					l, other := c.Renewing(redlock.WithMinHold(d)), c.Renewing()
					acquired := c.Clock.Now()
					lock := c.Lock(l, "a", test.opt)
					c.Lock(l, "b", redlock.WithMinHold(0))
					time.Sleep(held)
					require.NoError(t, lock.Err(), name)
					_, left, _ := c.Servers[0].Get("a")
					assert.Greater(t, left, lock.Remaining(), "the TTL may be longer")
					end := test.end
					if end == nil {
						end = func(*redlock.Locker) error { return lock.Unlock(ctx) }
					}
					assert.Less(t, virtual.Elapsed(func() { require.NoError(t, end(l)) }), time.Millisecond)
					require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
					require.NoError(t, lock.Unlock(ctx), "the second time")
					c.Taken(other, "a")
					if test.end == nil {
						c.Taken(l, "a") // nobody is exempt
					}
					c.lasts("a", acquired, d)
					c.Unlock(c.Lock(other, "a"))
					virtual.Settle()
					time.Sleep(time.Millisecond)
					assert.Empty(t, c.Holders("a")[0])
					assert.Equal(t, test.end != nil, c.Holders("b")[0] == "")
				})
			}
		}
	}
}

// A choice takes the name that is free.
func TestEveryNameOfALockIsTakenForItsMinimumHold(t *testing.T) {
	const d = 3 * time.Second
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		if !k.holds {
			return
		}
		l := c.Locker(redlock.WithTTL(time.Second), redlock.WithMinHold(d))
		acquired := c.Clock.Now()
		lock := c.of(k, l)
		c.Unlock(lock)
		_, err := k.all(ctx, l)
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = l.TryLockAll(ctx, []string{"a", "c"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		virtual.Settle()
		assert.Equal(t, []string{""}, uniq(c.Holders("c")), "a set that was refused leaves nothing")
		names := lock.Names()
		c.lasts(names[len(names)-1], acquired, d)
		_, err = k.try(ctx, l)
		require.NoError(t, err)
	})
}

// A writer that waited for readers keeps new ones out by an intent at every node. Nothing of it is
// left when the name is free, however it was released.
func TestNoIntentIsLeftOfALockThatIsFree(t *testing.T) {
	for _, d := range []time.Duration{0, 50 * time.Millisecond} {
		for name, names := range map[string][]string{"one name": {"a"}, "a set": {"a", "b"}} {
			runBubble(t, name, 3, func(t *testing.T, c *cluster) {
				c.Slow(200 * time.Microsecond)
				reader, l := c.Read(c.Renewing()), c.Renewing()
				got := c.Queued(func() (*redlock.Lock, error) { return l.LockAll(ctx, names, redlock.WithMinHold(d)) })
				time.Sleep(700 * time.Millisecond)
				assert.NotEqual(t, []string{""}, uniq(c.Holders("redquorum:intent:a")))
				c.Set("a", "somebody", time.Second, 2) // refuses to the end, and keeps the intent
				c.Unlock(reader)
				c.Unlock(<-got)
				time.Sleep(d + 5*time.Millisecond)
				assert.Equal(t, []string{""}, uniq(c.Holders("redquorum:intent:a")), "minimum hold %v", d)
				c.Unlock(c.Read(c.Renewing()))
			})
		}
	}
}

func TestForceUnlockEndsAMinimumHold(t *testing.T) {
	for _, released := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, operator := c.Renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(time.Minute)), c.Locker()
			lock := c.Lock(l, "a")
			if released {
				c.Unlock(lock)
			}
			virtual.Settle()
			require.NoError(t, admin.Of(operator).ForceUnlock(ctx, "a"))
			c.LeavesNothing(0)
			c.LeavesNothing(5 * time.Second) // the holder renews the lock, and finds out
			if !released {
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			}
			c.Lock(operator, "a")
		})
	}
}

func TestAMinimumHoldDoesNotTravelWithAnAdoption(t *testing.T) {
	for _, d := range []time.Duration{0, 4 * time.Second, 50 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, heir := c.Renewing(redlock.WithMinHold(30*time.Second)), c.Renewing()
			lock := c.Lock(l, "a")
			time.Sleep(time.Second)
			adopted := c.Clock.Now()
			taken, err := heir.Adopt(ctx, "a", lock.Value(), redlock.WithMinHold(d))
			require.NoError(t, err)
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			require.NoError(t, taken.Verify(ctx))
			c.Unlock(taken)
			c.lasts("a", adopted, d)
		})
	}
}

// A set beside busy names takes them one after the other. Each of these parts is a lock that ends
// at once when the set gives it back; the set as a whole has the minimum hold.
func TestOnlyAWholeSetHasAMinimumHold(t *testing.T) {
	const d = 2 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		g := c.gather(c.Within(virtual.Patience), c.Renewing(redlock.WithTTL(time.Second)), redlock.WithMinHold(d))
		began := c.Clock.Now()
		c.Unlock(g.second)
		c.Unlock(g.set())
		c.lasts("a", began, d)
		c.lasts("b", began, d)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) { // it gives up while it has one of the names
		g := c.gather(c.Within(20*time.Second), c.Renewing(), redlock.WithMinHold(time.Minute))
		require.ErrorIs(t, <-g.failed, context.DeadlineExceeded)
		c.Unlock(g.second)
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{""}, uniq(append(c.Holders("a"), c.Holders("b")...)))
	})
}

// Where the TTL is longer, a waiter that hardly polls knew when the key would end: a minute later
// than it does.
func TestAWaiterGetsTheNameAsItsMinimumHoldEnds(t *testing.T) {
	const d = 5 * time.Second
	for name, opts := range map[string][]redlock.LockOption{
		"a short TTL":             {redlock.WithTTL(time.Second)},
		"a TTL beyond it":         {redlock.WithTTL(time.Minute)},
		"a TTL beyond it, fenced": {redlock.WithTTL(time.Minute), redlock.WithFencing()},
	} {
		for _, nodes := range []int{1, 3, 5} {
			runBubble(t, name, nodes, func(t *testing.T, c *cluster) {
				c.Slow(time.Millisecond)
				a, b := c.Renewing(), c.Renewing(rarely)
				acquired := c.Clock.Now()
				lock := c.Lock(a, "a", append(opts, redlock.WithMinHold(d))...)
				got := c.Waiting(b, "a", redlock.WithTTL(time.Second), redlock.WithMinHold(20*time.Second))
				time.Sleep(time.Second)
				c.Unlock(lock)
				second := <-got
				took := c.Clock.Now().Sub(acquired)
				assert.GreaterOrEqual(t, took, d)
				assert.LessOrEqual(t, took, d+20*time.Millisecond)
				assert.LessOrEqual(t, b.Stats().Polls, uint64(4))
				assert.Zero(t, a.Stats().HandedOver)
				virtual.Settle()
				time.Sleep(time.Millisecond)
				for _, server := range c.Servers {
					_, ttl, _ := server.Get("a")
					assert.Greater(t, ttl, 19*time.Second, "what the coordinator sets, too")
				}
				c.Unlock(second)
			})
		}
	}
}
