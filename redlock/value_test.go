package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// Two processes give the name of their host, so that people see who has the lock.
func TestAValueThatALockHasIsTakenAndStaysItsOwn(t *testing.T) {
	own := redlock.WithValue("host-1")
	for how, try := range map[string]func(context.Context, *redlock.Locker) (*redlock.Lock, error){
		"TryLock": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) { return l.TryLock(ctx, "a", own) },
		"Lock":    func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) { return l.Lock(ctx, "a", own) },
		"TryLockAll": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			return l.TryLockAll(ctx, []string{"a", "b"}, own)
		},
		"LockAll": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			return l.LockAll(ctx, []string{"b", "a"}, own)
		},
	} {
		runBubble(t, how, 3, func(t *testing.T, c *cluster) {
			first := c.lock(c.renewing(), "a", own)
			assert.Equal(t, []string{"host-1"}, uniq(c.holders("a")))
			_, err := try(c.within(3*time.Second), c.locker())
			require.ErrorIs(t, err, redlock.ErrTaken)
			time.Sleep(time.Second) // what was refused is undone
			assert.Equal(t, []string{"host-1"}, uniq(c.holders("a")))
			require.NoError(t, first.Verify(ctx))
			c.unlock(first)
			lock, err := try(ctx, c.locker())
			require.NoError(t, err)
			assert.Equal(t, "host-1", lock.Value())
			require.NoError(t, lock.Verify(ctx))
			c.unlock(lock)
			time.Sleep(time.Second)
			assert.Equal(t, []string{""}, uniq(append(c.holders("a"), c.holders("b")...)), "under neither value")
		})
	}
}

// The context ends at any moment of the first round and of the swap.
func TestAnAttemptWithAValueThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	for patience := range 12 {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker()
			c.slow(2 * time.Millisecond)
			lock, err := l.TryLock(c.within(time.Duration(patience)*time.Millisecond), "a", redlock.WithValue("host-1"))
			if err == nil {
				c.unlock(lock)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			time.Sleep(time.Second)
			assert.Equal(t, []string{""}, uniq(c.holders("a")), "after %d ms", patience)
		})
	}
}

func TestCloseLeavesTheLockOfDoToItsFunction(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		err   error
	}{"returns in time": {900 * time.Millisecond, nil}, "does not": {5 * time.Second, redlock.ErrUndelivered}} {
		runBubble(t, name, 3, func(t *testing.T, c *cluster) {
			l, other := c.connecting(), c.locker()
			returned := make(chan struct{})
			did := c.ending(func() error {
				return l.Do(ctx, "a", func(ctx context.Context, _ *redlock.Lock) error {
					<-ctx.Done()
					time.Sleep(test.takes)
					close(returned)
					return nil
				})
			})
			time.Sleep(time.Second)
			closed := c.ending(l.Close)
			lock, err := other.Lock(ctx, "a")
			require.NoError(t, err)
			select {
			case <-returned:
			default:
				t.Error("the next holder is in before the function has returned")
			}
			synctest.Wait()
			require.ErrorIs(t, <-did, redlock.ErrClosed)
			require.ErrorIs(t, <-closed, test.err)
			c.unlock(lock)
		})
	}
}
