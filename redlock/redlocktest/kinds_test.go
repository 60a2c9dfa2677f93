package redlocktest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// take asks for a lock of a kind, with the names that it has or goes by.
func take(l *redlock.Locker, kind string, names ...string) (*redlock.Lock, error) {
	ctx := context.Background()
	switch kind {
	case "reader":
		return l.TryRLock(ctx, names[0])
	case "names":
		return l.TryLockAll(ctx, names)
	case "any":
		return l.LockAny(ctx, names)
	case "permit":
		s, err := l.Semaphore(names[0], 1)
		if err != nil {
			return nil, err
		}
		return s.TryAcquire(ctx)
	case "adopted":
		held, err := l.TryLock(ctx, names[0])
		if err != nil {
			return nil, err
		}
		return l.Adopt(ctx, names[0], held.Value())
	default:
		return l.TryLock(ctx, names[0])
	}
}

// onTwo runs a test with two Lockers on five masters, in real time and in virtual time.
func onTwo(t *testing.T, test func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker)) {
	t.Helper()
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		test(t, c, c.Locker(t, patiently()...), c.Locker(t, patiently()...))
	})
}

func TestEachKindOfLockIsThatOfPackageRedlock(t *testing.T) {
	for kind, other := range map[string]string{ // what cannot be taken beside it
		"mutex": "reader", "reader": "mutex", "names": "names", "any": "mutex", "permit": "permit", "adopted": "mutex",
	} {
		t.Run(kind, func(t *testing.T) {
			onTwo(t, func(t *testing.T, c *redlocktest.Cluster, ours, theirs *redlock.Locker) {
				first, err := take(ours, kind, "a", "b")
				require.NoError(t, err)
				_, err = take(theirs, other, "a", "c")
				require.ErrorIs(t, err, redlock.ErrTaken)
				key := "a"
				if kind == "permit" {
					key = first.Name()
				}
				assert.NotEmpty(t, c.Holder(key))
				assert.Equal(t, kind != "reader", c.Holder(key) == first.Value(), "readers have a value in common")
				c.Expire(key)
				require.ErrorIs(t, first.Verify(t.Context()), redlock.ErrLost)
				second, err := take(theirs, other, "a", "c")
				require.NoError(t, err)
				require.NoError(t, second.Unlock(t.Context()))
			})
		})
	}
}
