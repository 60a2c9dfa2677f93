package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestSetsThatOverlapExcludeEachOther(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		l, other := c.renewing(redlock.WithTTL(time.Second)), c.renewing()
		ab, err := l.TryLockAll(ctx, []string{"a", "b"})
		require.NoError(t, err)
		settle() // wait for the votes after the quorum
		assert.Equal(t, []string{"a", "b"}, ab.Names())
		assert.Equal(t, "a", ab.Name())
		for _, names := range [][]string{{"b", "c"}, {"c", "b"}, {"a"}, {"c", "d", "a"}} {
			_, err = other.TryLockAll(ctx, names)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		_, err = other.TryLock(ctx, "b")
		require.ErrorIs(t, err, redlock.ErrTaken)
		settle()
		assert.Equal(t, 10, c.keys(), "a failed set leaves no key")
		time.Sleep(10 * time.Second)
		require.NoError(t, ab.Err(), "a set is renewed")
		require.NoError(t, ab.Verify(ctx))
		require.NoError(t, ab.Extend(ctx, 2*time.Second))
		settle() // wait for the votes after the quorum
		c.do(0, "DEL", "b")
		c.do(1, "DEL", "b")
		c.do(2, "DEL", "b")
		require.ErrorIs(t, ab.Verify(ctx), redlock.ErrLost, "one name of the set is gone")
		require.ErrorIs(t, ab.Unlock(ctx), redlock.ErrLost)
		bc, err := other.LockAll(ctx, []string{"c", "b"})
		require.NoError(t, err)
		require.NoError(t, bc.Unlock(ctx))
		settle()
		assert.Zero(t, c.keys())
	})
}
