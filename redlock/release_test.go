package redlock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestUnlockGoesToEveryNode(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(time.Minute))
		c.servers[0].Stop() // grants when it continues
		c.servers[1].Kill() // grants nothing
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		time.Sleep(10 * time.Second)
		c.servers[0].Continue()
		c.servers[1].Restart(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

func TestUnlockAllReportsWhatItCouldNotRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.renewing()
		for i := range 100 {
			_, err := l.TryLock(ctx, fmt.Sprint(i))
			require.NoError(t, err)
		}
		require.NoError(t, l.UnlockAll(ctx))
		settle()
		assert.Zero(t, c.keys())
		assert.Zero(t, l.Stats().Held)
		_, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Kill()
		c.servers[1].Kill()
		require.ErrorIs(t, l.UnlockAll(ctx), redlock.ErrNoQuorum)
	})
}

// A caller's own value is the same in every attempt, so the release of one must not delete the
// next one's key.
func TestTheReleaseOfAnAttemptSparesTheNextOneWithItsValue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.locker(redlock.WithNodeTimeout(50*time.Millisecond)), c.locker(redlock.WithNodeTimeout(50*time.Millisecond))
		for _, s := range c.servers {
			s.RefuseWith("NOPERM this user has no permissions to run the 'script|load' command", "SCRIPT")
			s.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
			s.Delay(func() time.Duration { return 10 * time.Millisecond }, func() time.Duration { return 10 * time.Millisecond })
		}
		time.AfterFunc(15*time.Millisecond, func() {
			for _, s := range c.servers {
				s.RefuseWith("", "SET")
			}
		})
		held, err := a.Lock(ctx, "x", redlock.WithValue("handed over"), redlock.WithRetry(10*time.Millisecond, 10*time.Millisecond))
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, held.Err())
		_, err = b.TryLock(ctx, "x")
		require.ErrorIs(t, err, redlock.ErrTaken)
	})
}

// A node that was stopped runs the SET when it continues, but the lock has ended by then and nobody
// unlocks it.
func TestALostLockDoesNotAppearOnANodeThatWasStopped(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.locker(redlock.WithTTL(30 * time.Second))
		c.servers[0].Stop()
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		<-lock.Done()
		time.Sleep(time.Second)
		c.servers[0].Continue()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

// A node that missed the SET gets the key from an extension, and its connection breaks before the
// release that follows.
func TestReleaseBehindAnExtensionIsKeptForTheNodeThatItHeals(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.servers[0].Kill()
		l := c.locker(redlock.WithTTL(time.Minute))
		time.Sleep(time.Second)
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		c.servers[0].Restart(true)
		time.Sleep(time.Second)
		for _, server := range c.servers {
			server.Delay(func() time.Duration { return 50 * time.Millisecond }, nil)
		}
		// The script is loaded and run; its reply and all that follows are lost.
		c.servers[0].CutAfterWrite(2)
		var extending sync.WaitGroup
		extending.Go(func() { endsOnly(lock.Extend(ctx, time.Minute)) })
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lock.Unlock(ctx))
		extending.Wait()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Zero(t, c.keys())
	})
}

// A server that answers a script with an error may have run part of it.
func TestAReleaseIsKeptForANodeWhoseScriptFailedMidway(t *testing.T) {
	for words, kept := range map[string]bool{
		"ERR user_script:12: something went wrong":                      true,
		"NOPERM this user has no permissions to access one of the keys": true,
		"OOM command not allowed when used memory > 'maxmemory'.":       false,
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker(redlock.WithFencing(), redlock.WithTTL(time.Minute))
			c.know(l)
			c.servers[0].RefuseWith(words, "EVALSHA")
			// A refusal that arrives after the lock is won is not looked at.
			for _, later := range c.servers[1:] {
				later.Delay(func() time.Duration { return time.Millisecond }, nil)
			}
			lock, err := l.TryLock(ctx, "a")
			require.NoError(t, err)
			settle()
			c.servers[0].RefuseWith("", "EVALSHA")
			c.do(0, "SET", "a", lock.Value(), "PX", 60000) // the part of the script that ran
			c.servers[0].Kill()
			require.NoError(t, lock.Unlock(ctx))
			time.Sleep(5 * time.Second)
			c.servers[0].Restart(true)
			time.Sleep(5 * time.Second)
			assert.Equal(t, kept, c.holders("a")[0] == "", words)
		})
	}
}
