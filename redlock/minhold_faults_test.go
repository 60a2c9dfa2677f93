package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

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
