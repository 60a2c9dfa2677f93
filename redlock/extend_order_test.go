package redlock_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// What happens to a lock while it is extended, in each order that the network and the scheduler
// may bring about.

// The machine sleeps past the validity before the answers come. They are read before any timer has
// found that out.
func TestAnExtensionThatIsAnsweredAfterASuspendDoesNotBringTheLockBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock, err := l.TryLock(ctx, "a", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		for _, server := range c.servers {
			server.Delay(nil, func() time.Duration { return 10 * time.Millisecond })
		}
		time.AfterFunc(5*time.Millisecond, func() { c.clock.Suspend(2 * time.Second) })
		require.ErrorIs(t, lock.Extend(ctx, 10*time.Second), redlock.ErrLost)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	})
}

// interrupted is a clock at which something happens once in the middle of a function of the
// library: when the function reads the clock.
type interrupted struct {
	clock.Clock
	within string // the function
	happen atomic.Pointer[func()]
}

func (c *interrupted) Now() clock.Instant {
	now := c.Clock.Now()
	if c.happen.Load() == nil {
		return now
	}
	var callers [1]uintptr
	runtime.Callers(2, callers[:])
	if frame, _ := runtime.CallersFrames(callers[:]).Next(); strings.HasSuffix(frame.Function, c.within) {
		if happen := c.happen.Swap(nil); happen != nil {
			(*happen)()
		}
	}
	return now
}

// A lock is released when its renewal has been decided on and not been sent. Behind the release,
// the extension would find no key and set it again.
func TestALockThatIsReleasedAsItsRenewalBeginsIsNotExtended(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		clk := &interrupted{Clock: c.clock, within: "(*Locker).extend"}
		l := c.renewing(redlock.WithTTL(3*time.Second), redlock.WithClock(clk))
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		unlock := func() { assert.NoError(t, lock.Unlock(ctx)) }
		clk.happen.Store(&unlock)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.Nil(t, clk.happen.Load(), "the renewal has begun")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		assert.Zero(t, c.keys())
	})
}

// A node refuses the lock, because it has the key of an earlier holder, and its answer is late. An
// extension sets the key there in the meantime. The release must reach that node, although it is
// away by then.
func TestALateRefusalDoesNotHideWhatAnExtensionHealed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(time.Second))
		c.do(2, "SET", "a", "earlier", "PX", 100)
		c.servers[2].Delay(nil, func() time.Duration { return 300 * time.Millisecond })
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		time.Sleep(150 * time.Millisecond)
		require.NoError(t, lock.Extend(ctx, time.Minute))
		time.Sleep(200 * time.Millisecond) // the refusal has come by now
		assert.Equal(t, lock.Value(), c.holders("a")[2])
		c.servers[2].Kill()
		synctest.Wait()
		require.NoError(t, lock.Unlock(ctx))
		c.servers[2].Delay(nil, nil)
		c.servers[2].Restart(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}
