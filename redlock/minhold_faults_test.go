package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock"
)

func TestANameIsTakenForItsMinimumHoldAfterACrash(t *testing.T) {
	const d = 20 * time.Second
	for _, after := range []time.Duration{0, 4 * time.Second, 16 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(3 * time.Second))
			acquired := c.clock.Now()
			_, err := l.TryLock(ctx, "a", redlock.WithMinHold(d))
			require.NoError(t, err)
			time.Sleep(after)
			settle()
			for i, server := range c.servers { // from here on, nobody hears of the holder
				server.Disconnect()
				server.RefuseWith("NOAUTH", "EVALSHA", "EVAL")
				c.admit(i, time.Minute)
			}
			time.Sleep(acquired.Add(d).Sub(c.clock.Now()))
			for _, value := range c.holders("a") {
				assert.NotEmpty(t, value)
			}
			time.Sleep(2 * time.Millisecond)
			for _, value := range c.holders("a") {
				assert.Empty(t, value)
			}
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
			for _, server := range c.servers {
				server.Mute(true)
			}
			<-lock.Done()
			for _, server := range c.servers {
				server.Mute(false)
			}
		}},
		"it is extended as it is lost": {nil, func(c *cluster, lock *redlock.Lock) {
			c.servers[0].Stop()
			c.servers[1].Stop()
			_ = lock.Extend(ctx, time.Minute) //nolint:errcheck // one master does
			<-lock.Done()
			c.servers[0].Continue()
			c.servers[1].Continue()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(d))
				acquired := c.clock.Now()
				lock, err := l.TryLock(ctx, "a", test.opts...)
				require.NoError(t, err)
				test.lose(c, lock)
				<-lock.Done()
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrLost)
				c.lasts("a", acquired, d)
			})
		})
	}
}

// What a master forgot, it may not grant to somebody else for longer than any minimum hold.
func TestAMinimumHoldOutlastsMastersThatForget(t *testing.T) {
	const d = time.Minute
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.grown()
		l := c.renewing(redlock.WithMinHold(d))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		acquired := c.clock.Now()
		require.NoError(t, lock.Unlock(ctx))
		settle()
		c.servers[0].Restart(false)
		c.servers[1].Restart(false)
		other := c.locker()
		for c.clock.Now() < acquired.Add(d) {
			_, err := other.TryLock(ctx, "a")
			require.Error(t, err, c.clock.Now().Sub(acquired))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		_, err = other.TryLock(ctx, "a")
		require.NoError(t, err)
	})
}

func TestAReleaseThatIsPendingLeavesWhatIsLeftOfTheMinimumHold(t *testing.T) {
	const d = 20 * time.Second
	for name, away := range map[string]struct{ leave, back func(*fake.Node) }{
		"killed, data kept": {(*fake.Node).Kill, func(n *fake.Node) { n.Restart(true) }},
		"stopped":           {(*fake.Node).Stop, (*fake.Node).Continue},
		"muted":             {func(n *fake.Node) { n.Mute(true) }, func(n *fake.Node) { n.Mute(false) }},
		"replies muted":     {func(n *fake.Node) { n.MuteReplies(true) }, func(n *fake.Node) { n.MuteReplies(false) }},
	} {
		for _, back := range []time.Duration{5 * time.Second, 30 * time.Second} {
			t.Run(name+" for "+back.String(), func(t *testing.T) {
				inBubble(t, 5, func(t *testing.T, c *cluster) {
					l := c.locker(redlock.WithTTL(time.Minute), redlock.WithMinHold(d))
					acquired := c.clock.Now()
					lock, err := l.TryLock(ctx, "a")
					require.NoError(t, err)
					settle()
					away.leave(c.servers[2])
					away.leave(c.servers[3])
					require.NoError(t, lock.Unlock(ctx))
					time.Sleep(back)
					away.back(c.servers[2])
					away.back(c.servers[3])
					time.Sleep(1500 * time.Millisecond) // a dial that hangs, and the pause after it
					synctest.Wait()
					if c.clock.Now() < acquired.Add(d) {
						assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")))
						time.Sleep(acquired.Add(d).Sub(c.clock.Now()))
						assert.Equal(t, []string{lock.Value()}, uniq(c.holders("a")))
						time.Sleep(2 * time.Millisecond)
					}
					assert.Zero(t, c.keys())
				})
			})
		}
	}
}

// A server that stops keeps what it was sent in its socket, and runs it when it continues. The
// release that comes behind it on the next connection names less time.
func TestAReleaseThatRunsLateDoesNotProlongItsKey(t *testing.T) {
	const d = 20 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.servers[0].Delay(func() time.Duration { return 15 * time.Second }, nil)
		require.NoError(t, lock.Unlock(ctx))
		time.Sleep(acquired.Add(d + 2*time.Millisecond).Sub(c.clock.Now()))
		assert.Equal(t, []string{""}, uniq(c.holders("a")))
	})
}

func TestAnAttemptThatFailsLeavesNothingOfItsMinimumHold(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(c *cluster)
		opts    []redlock.LockOption
		want    error
	}{
		"taken": {func(c *cluster) {
			for i := range 3 {
				c.do(i, "SET", "a", "other", "PX", 1000)
			}
		}, nil, redlock.ErrTaken},
		"no quorum": {func(c *cluster) {
			for i := range 3 {
				c.servers[i].Kill()
			}
		}, nil, redlock.ErrNoQuorum},
		"too late": {func(c *cluster) {
			for _, server := range c.servers {
				server.Delay(func() time.Duration { return 400 * time.Millisecond }, nil)
			}
		}, []redlock.LockOption{redlock.WithTTL(10 * time.Second), redlock.WithMinValidity(9800 * time.Millisecond)}, redlock.ErrNoValidity},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				l := c.locker(redlock.WithMinHold(time.Minute))
				test.prepare(c)
				_, err := l.TryLock(ctx, "a", test.opts...)
				require.ErrorIs(t, err, test.want)
				time.Sleep(time.Second)
				synctest.Wait()
				for _, value := range c.holders("a") {
					assert.Contains(t, []string{"", "other"}, value)
				}
			})
		})
	}
}

func TestAnAttemptThatIsCutShortLeavesNothingOfItsMinimumHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithMinHold(time.Minute))
		c.slow(20 * time.Millisecond)
		short, cancel := context.WithTimeout(ctx, 15*time.Millisecond)
		defer cancel()
		_, err := l.Lock(short, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{""}, uniq(c.holders("a")))
	})
}

func TestANodeThatHealsALockKeepsItForTheMinimumHold(t *testing.T) {
	const d = 20 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(d))
		acquired := c.clock.Now()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		settle()
		c.do(0, "DEL", "a")
		time.Sleep(2 * time.Second)
		value, ttl, _ := c.servers[0].Get("a")
		assert.Equal(t, lock.Value(), value)
		assert.GreaterOrEqual(t, c.clock.Now().Add(ttl), acquired.Add(d))
		require.NoError(t, lock.Unlock(ctx))
		c.lasts("a", acquired, d)
	})
}
