package redsync_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestAContextThatHasEndedLocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		pause := redsync.WithRetryDelayFunc(func(int) time.Duration { return time.Hour })
		assert.Equal(t, redsync.ErrFailed, rs.NewMutex("a").LockContext(ended))
		assert.Equal(t, redsync.ErrFailed, rs.NewMutex("a", pause).LockContext(ended))
		err := rs.NewMutex("a").TryLockContext(ended)
		assert.ErrorIs(t, err, context.Canceled)
		var failure *redsync.RedisError
		assert.ErrorAs(t, err, &failure)
		assert.Empty(t, c.Holder("a"))

		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.LockContext(noContext))
		ok, err := mutex.ExtendContext(ended)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.Canceled)
		ok, err = mutex.UnlockContext(ended) // a release is not cut short
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Empty(t, c.Holder("a"))

		require.NoError(t, mutex.Lock())
		ok, err = rs.NewMutex("a", redsync.WithValue(mutex.Value())).UnlockContext(ended)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Empty(t, c.Holder("a"))
	})
}

func TestATryThatItsContextCutsShortIsNotTaken(t *testing.T) {
	c := cluster.Start(t, masters)
	rs := newRedsync(t, c)
	set(t, c.Masters[:2], "a", "other")
	for _, m := range c.Masters[3:] {
		require.NoError(t, m.Stop())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// Two masters refuse, one grants, and two do not answer.
	err := rs.NewMutex("a", redsync.WithExpiry(time.Minute)).TryLockContext(ctx)
	for _, m := range c.Masters[3:] {
		require.NoError(t, m.Continue())
	}
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	var failure *redsync.RedisError
	assert.ErrorAs(t, err, &failure)
	var taken *redsync.ErrTaken
	assert.False(t, errors.As(err, &taken), "%v", err)
}
