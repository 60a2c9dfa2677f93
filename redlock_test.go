// Package redquorum_test accepts the whole library from outside: on embedded nodes, and on real redis-servers with real
// faults. In a file each (acceptance_*_test.go): one kind of fault or of promise.
package redquorum_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// TestMain fails the package when the library leaves a goroutine behind (I8): every test closes its Lockers.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := awaitNoGoroutines(2 * time.Second); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines of the library are left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// awaitNoGoroutines waits until nothing of the library runs, and returns what does when the limit has passed.
func awaitNoGoroutines(limit time.Duration) (left string) {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if left = libraryGoroutines(); left == "" || time.Now().After(deadline) {
			return left
		}
	}
}

// libraryGoroutines returns the stacks of the goroutines that run, or were started by, a function of the library.
func libraryGoroutines() string {
	buf := make([]byte, 16<<20) // some thousand stacks; more are left out
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "redquorum/redquorum/redlock.") || strings.Contains(stack, "redquorum/redquorum/pool.") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func TestLockIsExclusiveFromLockToUnlock(t *testing.T) {
	t.Parallel()
	onEachKind(t, 5, func(t *testing.T, c *cluster) {
		ctx, name := t.Context(), lockName(t)
		ours, theirs := newConnected(t, c.urls()), newConnected(t, c.urls())
		lock, err := ours.TryLock(ctx, name, redlock.WithOwner("worker 7"))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, c.holding(t, name, lock.Value()), 3)
		assert.True(t, strings.HasSuffix(lock.Value(), "|worker 7"), lock.Value())
		assert.Greater(t, lock.Remaining(), 5*time.Second)
		assert.LessOrEqual(t, lock.Remaining(), 10*time.Second-102*time.Millisecond, "TTL less drift")
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Verify(ctx))

		_, err = theirs.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = ours.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken, "not reentrant")
		require.NoError(t, lock.Verify(ctx), "failed attempts must not touch the holder's key")

		require.NoError(t, lock.Extend(ctx, longTTL))
		assert.Greater(t, lock.Remaining(), 20*time.Second)
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, lock.Unlock(ctx), "again")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))

		lock, err = theirs.TryLock(ctx, name)
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		requireClean(t, c.masters...)
	})
}

func TestLockWaitsForTheHolderAsLongAsItsContextAllows(t *testing.T) {
	t.Parallel()
	onEachKind(t, 5, func(t *testing.T, c *cluster) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // a wait that never ends tells nothing
		defer stop()
		name := lockName(t)
		ours, theirs := newConnected(t, c.urls()), newConnected(t, c.urls())
		lock, err := ours.Lock(ctx, name)
		require.NoError(t, err)

		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err = theirs.Lock(short, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		next := make(chan error, 1)
		go func() {
			lock, err := theirs.Lock(ctx, name)
			if err == nil {
				err = lock.Unlock(ctx)
			}
			next <- err
		}()
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, <-next)
		requireClean(t, c.masters...)
	})
}

func TestHeldLockIsRenewedPastItsTTL(t *testing.T) {
	t.Parallel()
	onEachKind(t, 5, func(t *testing.T, c *cluster) {
		const ttl = time.Second
		l := newConnected(t, c.urls(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/2))
		lock, err := l.TryLock(t.Context(), lockName(t))
		require.NoError(t, err)
		work, stop := context.WithTimeout(lock.Context(t.Context()), 5*ttl/2)
		defer stop()
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), context.DeadlineExceeded, "not lost before")
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		requireClean(t, c.masters...)
	})
}
