package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestANameIsTakenForItsMinimumHoldAfterACrash(t *testing.T) {
	const d = 20 * time.Second
	for _, after := range []time.Duration{0, 4 * time.Second, 16 * time.Second} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(3 * time.Second))
			acquired := c.clock.Now()
			c.lock(l, "a", redlock.WithMinHold(d))
			time.Sleep(after)
			settle()
			for i, server := range c.servers { // from here on, nobody hears of the holder
				server.Disconnect()
				server.RefuseWith("NOAUTH", "EVALSHA", "EVAL")
				c.admit(i, time.Minute)
			}
			time.Sleep(acquired.Add(d).Sub(c.clock.Now()))
			assert.NotContains(t, c.holders("a"), "")
			time.Sleep(2 * time.Millisecond)
			assert.Equal(t, []string{""}, uniq(c.holders("a")))
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
			c.each(mute)
			<-lock.Done()
			c.each(unmute)
		}},
		"it is extended as it is lost": {nil, func(c *cluster, lock *redlock.Lock) {
			c.each(stop, 0, 1)
			endsOnly(lock.Extend(ctx, time.Minute)) // one master does
			<-lock.Done()
			c.each(resume, 0, 1)
		}},
	} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithMinHold(d))
			acquired := c.clock.Now()
			lock := c.lock(l, "a", test.opts...)
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
		c.grown()
		lock := c.lock(c.renewing(redlock.WithMinHold(d)), "a")
		acquired := c.clock.Now()
		c.unlock(lock)
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
		c.lock(other, "a")
	})
}

func TestAReleaseThatIsPendingLeavesWhatIsLeftOfTheMinimumHold(t *testing.T) {
	const d = 20 * time.Second
	for _, away := range absences() {
		for _, back := range []time.Duration{5 * time.Second, 30 * time.Second} {
			runBubble(t, away.how+" for "+back.String(), 5, func(t *testing.T, c *cluster) {
				l := c.locker(redlock.WithTTL(time.Minute), redlock.WithMinHold(d))
				acquired := c.clock.Now()
				lock := c.lock(l, "a")
				settle()
				c.each(away.leave, 2, 3)
				c.unlock(lock)
				time.Sleep(back)
				c.each(away.back, 2, 3)
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
		}
	}
}

// A server that stops keeps what it was sent in its socket, and runs it when it continues. The
// release that comes behind it on the next connection names less time.
func TestAReleaseThatRunsLateDoesNotProlongItsKey(t *testing.T) {
	const d = 20 * time.Second
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		acquired := c.clock.Now()
		lock := c.lock(c.locker(redlock.WithMinHold(d)), "a")
		settle()
		c.each(delaying(15*time.Second, 0), 0)
		c.unlock(lock)
		time.Sleep(acquired.Add(d + 2*time.Millisecond).Sub(c.clock.Now()))
		assert.Equal(t, []string{""}, uniq(c.holders("a")))
	})
}
