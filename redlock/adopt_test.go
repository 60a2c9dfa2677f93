package redlock_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

func TestAdoptRefusesTheValueThatTheLockHas(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		holder, adopter := c.locker(), c.locker()
		lock, err := holder.TryLock(ctx, "a", redlock.WithValue("v"), redlock.WithOwner("o"))
		require.NoError(t, err)
		settle()
		_, err = adopter.Adopt(ctx, "a", lock.Value(), redlock.WithValue("v"), redlock.WithOwner("o"))
		require.ErrorIs(t, err, redlock.ErrInvalid, "two would hold it")
		require.NoError(t, lock.Verify(ctx))

		adopted, err := adopter.Adopt(ctx, "a", lock.Value(), redlock.WithValue("v"), redlock.WithOwner("p"))
		require.NoError(t, err, "another owner makes another value")
		require.ErrorIs(t, lock.Verify(ctx), redlock.ErrLost)
		assert.Equal(t, uint64(1), adopter.Stats().Acquired)
		require.NoError(t, adopted.Unlock(ctx))
	})
}
