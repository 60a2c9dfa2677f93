package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
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

// A set is lost with any of its names. The others stay taken, whoever took that one, and however
// the holder finds out.
func TestASetThatLosesANameKeepsTheOthersForItsMinimumHold(t *testing.T) {
	const d = 9 * time.Second
	for name, take := range map[string]func(other *redlock.Locker, lock *redlock.Lock) error{
		"by force": func(other *redlock.Locker, _ *redlock.Lock) error {
			return admin.Of(other).ForceUnlock(ctx, "b")
		},
		"by an adoption": func(other *redlock.Locker, lock *redlock.Lock) error {
			_, err := other.Adopt(ctx, "b", lock.Value())
			return err
		},
	} {
		for found, find := range map[string]func(*redlock.Lock) error{
			"by a renewal": func(lock *redlock.Lock) error { <-lock.Done(); return lock.Err() },
			"by Verify":    func(lock *redlock.Lock) error { return lock.Verify(ctx) },
		} {
			t.Run(name+", found "+found, func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, c *cluster) {
					acquired := c.Clock.Now()
					lock, err := c.Renewing(redlock.WithTTL(3*time.Second)).LockAll(ctx, []string{"a", "b"}, redlock.WithMinHold(d))
					require.NoError(t, err)
					require.NoError(t, take(c.Renewing(), lock))
					require.ErrorIs(t, find(lock), redlock.ErrLost)
					c.lasts("a", acquired, d)
				})
			})
		}
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

func TestANameIsTakenForItsMinimumHoldAfterACrash(t *testing.T) {
	const d = 20 * time.Second
	for _, after := range []time.Duration{0, 4 * time.Second, 16 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing(redlock.WithTTL(3 * time.Second))
			acquired := c.Clock.Now()
			c.Lock(l, "a", redlock.WithMinHold(d))
			time.Sleep(after)
			virtual.Settle()
			for i, server := range c.Servers { // from here on, nobody hears of the holder
				server.Disconnect()
				server.RefuseWith("NOAUTH", "EVALSHA", "EVAL")
				c.Admit(i, time.Minute)
			}
			time.Sleep(acquired.Add(d).Sub(c.Clock.Now()))
			assert.NotContains(t, c.Holders("a"), "")
			time.Sleep(2 * time.Millisecond)
			assert.Equal(t, []string{""}, uniq(c.Holders("a")))
		})
	}
}

func TestANameIsTakenForItsMinimumHoldAfterALoss(t *testing.T) {
	const d = 20 * time.Second
	for name, test := range map[string]struct {
		opts []redlock.LockOption
		lose func(c *cluster, lock *redlock.Lock)
	}{
		"its validity ends":     {[]redlock.LockOption{redlock.WithoutRenewal()}, func(*cluster, *redlock.Lock) {}},
		"its maximum hold ends": {[]redlock.LockOption{redlock.WithMaxHold(time.Second)}, func(*cluster, *redlock.Lock) {}},
		"the masters are away": {nil, func(c *cluster, lock *redlock.Lock) {
			c.Each(virtual.Mute)
			<-lock.Done()
			c.Each(virtual.Unmute)
		}},
		"it is extended as it is lost": {nil, func(c *cluster, lock *redlock.Lock) {
			c.Each(virtual.Stop, 0, 1)
			virtual.EndsOnly(lock.Extend(ctx, time.Minute)) // one master does
			<-lock.Done()
			c.Each(virtual.Resume, 0, 1)
		}},
	} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(d))
			acquired := c.Clock.Now()
			lock := c.Lock(l, "a", test.opts...)
			test.lose(c, lock)
			<-lock.Done()
			require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			time.Sleep(2 * time.Second)
			require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
			c.lasts("a", acquired, d)
		})
	}
}

// What a master forgot, it may not grant to somebody else for longer than any minimum hold.
func TestAMinimumHoldOutlastsMastersThatForget(t *testing.T) {
	const d = time.Minute
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Grown()
		lock := c.Lock(c.Renewing(redlock.WithMinHold(d)), "a")
		acquired := c.Clock.Now()
		c.Unlock(lock)
		virtual.Settle()
		c.Servers[0].Restart(false)
		c.Servers[1].Restart(false)
		other := c.Locker()
		for c.Clock.Now() < acquired.Add(d) {
			_, err := other.TryLock(ctx, "a")
			require.Error(t, err, c.Clock.Now().Sub(acquired))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		c.Lock(other, "a")
	})
}

func TestAReleaseThatIsPendingLeavesWhatIsLeftOfTheMinimumHold(t *testing.T) {
	const d = 20 * time.Second
	for _, away := range absences() {
		for _, back := range []time.Duration{5 * time.Second, 30 * time.Second} {
			runBubble(t, away.how+" for "+back.String(), 5, func(t *testing.T, c *cluster) {
				l := c.Locker(redlock.WithTTL(time.Minute), redlock.WithMinHold(d))
				acquired := c.Clock.Now()
				lock := c.Lock(l, "a")
				virtual.Settle()
				c.Each(away.leave, 2, 3)
				c.Unlock(lock)
				time.Sleep(back)
				c.Each(away.back, 2, 3)
				time.Sleep(1500 * time.Millisecond) // a dial that hangs, and the pause after it
				synctest.Wait()
				if c.Clock.Now() < acquired.Add(d) {
					assert.Equal(t, []string{lock.Value()}, uniq(c.Holders("a")))
					time.Sleep(acquired.Add(d).Sub(c.Clock.Now()))
					assert.Equal(t, []string{lock.Value()}, uniq(c.Holders("a")))
					time.Sleep(2 * time.Millisecond)
				}
				assert.Zero(t, c.Keys())
			})
		}
	}
}

// A server that stops keeps what it was sent in its socket, and runs it when it continues. The
// release that comes behind it on the next connection names less time.
func TestAReleaseThatRunsLateDoesNotProlongItsKey(t *testing.T) {
	const d = 20 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		acquired := c.Clock.Now()
		lock := c.Lock(c.Locker(redlock.WithMinHold(d)), "a")
		virtual.Settle()
		c.Each(virtual.Delaying(15*time.Second, 0), 0)
		c.Unlock(lock)
		time.Sleep(acquired.Add(d + 2*time.Millisecond).Sub(c.Clock.Now()))
		assert.Equal(t, []string{""}, uniq(c.Holders("a")))
	})
}
