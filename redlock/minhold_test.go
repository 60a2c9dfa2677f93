package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// freeAt waits until fewer than a quorum of the nodes hold a key, and returns when that was, to a
// millisecond. Nobody may acquire the name before.
func (c *cluster) freeAt(key string) clock.Instant {
	c.t.Helper()
	stranger := c.locker()
	for i := range 120_000 {
		held := 0
		for _, value := range c.holders(key) {
			if value != "" {
				held++
			}
		}
		if held <= len(c.servers)/2 {
			return c.clock.Now()
		}
		if i%100 == 0 {
			_, err := stranger.TryLock(ctx, key)
			require.Error(c.t, err)
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatalf("%q is never free", key)
	return 0
}

// lasts requires that a name which was acquired at an instant is taken for d from then on, and free
// within a few milliseconds after: the nodes count in whole ones, from when they run a command.
func (c *cluster) lasts(key string, acquired clock.Instant, d time.Duration) {
	c.t.Helper()
	free := c.freeAt(key).Sub(acquired)
	assert.GreaterOrEqual(c.t, free, d)
	assert.LessOrEqual(c.t, free, d+5*time.Millisecond)
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
					c.slow(100 * time.Microsecond)
					l, other := c.renewing(redlock.WithMinHold(d)), c.renewing()
					acquired := c.clock.Now()
					lock := c.lock(l, "a", test.opt)
					c.lock(l, "b", redlock.WithMinHold(0))
					time.Sleep(held)
					require.NoError(t, lock.Err(), name)
					_, left, _ := c.servers[0].Get("a")
					assert.Greater(t, left, lock.Remaining(), "the TTL may be longer")
					end := test.end
					if end == nil {
						end = func(*redlock.Locker) error { return lock.Unlock(ctx) }
					}
					assert.Less(t, elapsed(func() { require.NoError(t, end(l)) }), time.Millisecond)
					require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
					require.NoError(t, lock.Unlock(ctx), "the second time")
					c.taken(other, "a")
					if test.end == nil {
						c.taken(l, "a") // nobody is exempt
					}
					c.lasts("a", acquired, d)
					c.unlock(c.lock(other, "a"))
					settle()
					time.Sleep(time.Millisecond)
					assert.Empty(t, c.holders("a")[0])
					assert.Equal(t, test.end != nil, c.holders("b")[0] == "")
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
		l := c.locker(redlock.WithTTL(time.Second), redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock := c.of(k, l)
		c.unlock(lock)
		_, err := k.all(ctx, l)
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = l.TryLockAll(ctx, []string{"a", "c"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		settle()
		assert.Equal(t, []string{""}, uniq(c.holders("c")), "a set that was refused leaves nothing")
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
				c.slow(200 * time.Microsecond)
				reader, l := c.read(c.renewing()), c.renewing()
				got := c.queued(func() (*redlock.Lock, error) { return l.LockAll(ctx, names, redlock.WithMinHold(d)) })
				time.Sleep(700 * time.Millisecond)
				assert.NotEqual(t, []string{""}, uniq(c.holders("redquorum:intent:a")))
				c.set("a", "somebody", time.Second, 2) // refuses to the end, and keeps the intent
				c.unlock(reader)
				c.unlock(<-got)
				time.Sleep(d + 5*time.Millisecond)
				assert.Equal(t, []string{""}, uniq(c.holders("redquorum:intent:a")), "minimum hold %v", d)
				c.unlock(c.read(c.renewing()))
			})
		}
	}
}

func TestForceUnlockEndsAMinimumHold(t *testing.T) {
	for _, released := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, operator := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(time.Minute)), c.locker()
			lock := c.lock(l, "a")
			if released {
				c.unlock(lock)
			}
			settle()
			require.NoError(t, admin.Of(operator).ForceUnlock(ctx, "a"))
			c.leavesNothing(0)
			c.leavesNothing(5 * time.Second) // the holder renews the lock, and finds out
			if !released {
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			}
			c.lock(operator, "a")
		})
	}
}

func TestAMinimumHoldDoesNotTravelWithAnAdoption(t *testing.T) {
	for _, d := range []time.Duration{0, 4 * time.Second, 50 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l, heir := c.renewing(redlock.WithMinHold(30*time.Second)), c.renewing()
			lock := c.lock(l, "a")
			time.Sleep(time.Second)
			adopted := c.clock.Now()
			taken, err := heir.Adopt(ctx, "a", lock.Value(), redlock.WithMinHold(d))
			require.NoError(t, err)
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			require.NoError(t, taken.Verify(ctx))
			c.unlock(taken)
			c.lasts("a", adopted, d)
		})
	}
}

// A set beside busy names takes them one after the other. Each of these parts is a lock that ends
// at once when the set gives it back; the set as a whole has the minimum hold.
func TestOnlyAWholeSetHasAMinimumHold(t *testing.T) {
	const d = 2 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		g := c.gather(c.within(patience), c.renewing(redlock.WithTTL(time.Second)), redlock.WithMinHold(d))
		began := c.clock.Now()
		c.unlock(g.second)
		c.unlock(g.set())
		c.lasts("a", began, d)
		c.lasts("b", began, d)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) { // it gives up while it has one of the names
		g := c.gather(c.within(20*time.Second), c.renewing(), redlock.WithMinHold(time.Minute))
		require.ErrorIs(t, <-g.failed, context.DeadlineExceeded)
		c.unlock(g.second)
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{""}, uniq(append(c.holders("a"), c.holders("b")...)))
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
				c.slow(time.Millisecond)
				a, b := c.renewing(), c.renewing(rarely)
				acquired := c.clock.Now()
				lock := c.lock(a, "a", append(opts, redlock.WithMinHold(d))...)
				got := c.waiting(b, "a", redlock.WithTTL(time.Second), redlock.WithMinHold(20*time.Second))
				time.Sleep(time.Second)
				c.unlock(lock)
				second := <-got
				took := c.clock.Now().Sub(acquired)
				assert.GreaterOrEqual(t, took, d)
				assert.LessOrEqual(t, took, d+20*time.Millisecond)
				assert.LessOrEqual(t, b.Stats().Polls, uint64(4))
				assert.Zero(t, a.Stats().HandedOver)
				settle()
				time.Sleep(time.Millisecond)
				for _, server := range c.servers {
					_, ttl, _ := server.Get("a")
					assert.Greater(t, ttl, 19*time.Second, "what the coordinator sets, too")
				}
				c.unlock(second)
			})
		}
	}
}
