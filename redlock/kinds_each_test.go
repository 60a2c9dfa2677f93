package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// What holds for a lock of every kind.

func TestALockOfAnyKindExcludesTheOthersUntilItIsReleased(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		eachKind(t, nodes, func(t *testing.T, c *cluster, k kind) {
			a, b := c.locker(), c.locker()
			lock := c.of(k, a)
			assert.Equal(t, k.name, lock.Name())
			_, err := k.all(ctx, b)
			require.ErrorIs(t, err, redlock.ErrTaken)
			assert.NotErrorIs(t, err, redlock.ErrNoQuorum)
			c.taken(b, k.name)
			require.NoError(t, lock.Verify(ctx))
			c.unlock(lock)
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			c.leavesNothing(0)
			lock = c.allOf(k, b)
			_, err = k.try(ctx, a)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorContains(t, err, `acquire "`+k.asked+`": 0 granted`)
			c.unlock(lock)
			c.leavesNothing(0)
		})
	}
}

func TestACallOfAnyKindRefusesBadArgumentsAndSendsNothing(t *testing.T) {
	eachKind(t, 1, func(t *testing.T, c *cluster, k kind) {
		l := c.locker()
		var none context.Context
		ended, cancel := context.WithCancel(ctx)
		cancel()
		settle()
		before := len(c.servers[0].Commands())
		for _, call := range []call{k.try, k.wait} {
			bad := map[string]redlock.LockOption{"nil": nil, "TTL": redlock.WithTTL(time.Hour), "min validity": redlock.WithMinValidity(time.Hour)}
			if !k.valued {
				bad["value"] = redlock.WithValue("v")
			}
			if !k.holds {
				bad["min hold"] = redlock.WithMinHold(time.Second)
			}
			for name, opt := range bad {
				_, err := call(ctx, l, opt)
				require.ErrorIs(t, err, redlock.ErrInvalid, name)
			}
			_, err := call(none, l)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			_, err = call(ended, l)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, redlock.ErrInvalid)
		}
		settle()
		assert.Len(t, c.servers[0].Commands(), before)
		require.NoError(t, l.Close())
		for _, call := range []call{k.try, k.wait} {
			_, err := call(ctx, l)
			require.ErrorIs(t, err, redlock.ErrClosed)
		}
	})
}
