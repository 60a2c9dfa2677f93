package redlock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

func TestLimitsThemselvesAreGood(t *testing.T) {
	const year = 365 * 24 * time.Hour
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, opts := range [][]redlock.Option{
			{redlock.WithKeyPrefix(strings.Repeat("p", 1024)), redlock.WithMaxTTL(24 * time.Hour), redlock.WithNodeTimeout(time.Minute)},
			{redlock.WithMaxTTL(10 * time.Millisecond), redlock.WithTTL(10 * time.Millisecond), redlock.WithNodeTimeout(time.Millisecond)},
			{redlock.WithRetry(time.Millisecond, time.Minute), redlock.WithRetry(time.Minute, time.Minute), redlock.WithDrift(0, 0)},
		} {
			c.Connecting(opts...)
		}
		l := c.Locker()
		for i, opts := range [][]redlock.LockOption{
			{redlock.WithOwner(strings.Repeat("o", 256))},
			{redlock.WithMaxHold(year)},
			{redlock.WithMaxHold(10 * time.Millisecond)},
			{redlock.WithMinHold(virtual.MaxTTL)},
			{redlock.WithTTL(virtual.MaxTTL)},
			{redlock.WithTTL(10 * time.Millisecond)},
		} {
			c.Unlock(c.Lock(l, fmt.Sprint("a", i), opts...))
		}
		c.Unlock(c.Lock(l, strings.Repeat("n", 4096)))
		names := make([]string, 256)
		for i := range names {
			names[i] = fmt.Sprint("of many ", i)
		}
		for _, try := range []func(*redlock.Locker) (*redlock.Lock, error){
			func(l *redlock.Locker) (*redlock.Lock, error) { return l.TryLockAll(ctx, names) },
			func(l *redlock.Locker) (*redlock.Lock, error) { return l.TryLockAny(ctx, names) },
		} {
			lock, err := try(l)
			require.NoError(t, err)
			c.Unlock(lock)
		}
		value := strings.Repeat("v", 1024) // of another library
		c.Set("of others", value, time.Second)
		adopted, err := l.Adopt(ctx, "of others", value)
		require.NoError(t, err)
		c.Unlock(adopted)
		c.Unlock(c.Permit(c.Permits(strings.Repeat("s", 4091), 1024)))
	})
}

// What a call is given counts, whichever call it is, and whether it waits or not.
func TestEachCallTakesItsOptions(t *testing.T) {
	const longest = 700 * time.Millisecond
	opts := []redlock.LockOption{redlock.WithMaxHold(longest), redlock.WithFencing(), redlock.WithOwner("this one"), redlock.WithoutRenewal()}
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		l := c.Renewing()
		has := func(lock *redlock.Lock) {
			t.Helper()
			assert.NotZero(t, lock.Fence())
			assert.Contains(t, lock.Value(), "this one")
			assert.InDelta(t, longest, lock.Remaining(), float64(10*time.Millisecond))
		}
		tried := c.of(k, l, opts...)
		has(tried)
		c.Unlock(tried)
		first := c.allOf(k, l)
		next := c.queue(k, l, opts...)
		c.Unlock(first)
		last := <-next
		require.NotNil(t, last)
		has(last)
		if k.what != "reader" && k.what != "names" {
			var err error
			last, err = l.Adopt(ctx, last.Name(), last.Value(), opts...)
			require.NoError(t, err)
			has(last)
		}
		time.Sleep(longest)
		require.ErrorIs(t, last.Err(), redlock.ErrLost)
	})
}

func TestTheNamesOfACallAreItsCallersAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.Locker()
		names := []string{"b", "a"}
		all, err := l.TryLockAll(ctx, names)
		require.NoError(t, err)
		names[0], names[1] = "c", "d"
		all.Names()[0] = "e"
		assert.Equal(t, []string{"b", "a"}, all.Names())
		assert.Equal(t, "b", all.Name())
		one, err := l.TryLockAny(ctx, names)
		require.NoError(t, err)
		names[0] = "f"
		assert.Equal(t, "c", one.Name())
		c.Unlock(all, one)
		c.LeavesNothing(time.Second)
	})
}
