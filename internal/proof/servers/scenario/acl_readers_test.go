package scenario_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// shares has two readers, and a writer that waits for them and keeps others out.
func (row *aclRow) shares(t *testing.T, l *redlock.Locker, name string) {
	t.Helper()
	var opts []redlock.LockOption
	if !row.notFenced {
		opts = append(opts, redlock.WithFencing())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*slack)
	defer cancel()
	first, err := l.TryRLock(ctx, name, opts...)
	if row.noReaders {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		lock, err := l.Lock(ctx, name)
		require.NoError(t, err, "what was undone keeps nobody out")
		require.NoError(t, lock.Unlock(ctx))
		return
	}
	require.NoError(t, err)
	require.NoError(t, first.Extend(ctx, longTTL))
	require.NoError(t, first.Verify(ctx))
	if row.readersStay {
		require.Error(t, first.Unlock(ctx))
		_, err := l.TryLock(ctx, name)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.ForceUnlock(ctx, name))
		return
	}
	second, err := l.RLock(ctx, name, opts...)
	require.NoError(t, err)
	got := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := l.Lock(ctx, name, opts...)
		assert.NoError(t, err)
		got <- lock
	}()
	cluster.Eventually(t, slack, func() string {
		if row.timeless && l.Stats().Waiting > 0 {
			return "" // readers come in as long as they like
		}
		lock, err := l.TryRLock(ctx, name)
		if err == nil {
			assert.NoError(t, lock.Unlock(ctx))
			return "the writer keeps readers out"
		}
		assert.ErrorIs(t, err, redlock.ErrTaken)
		return ""
	})
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
	writer := <-got
	require.NotNil(t, writer)
	if !row.notFenced {
		assert.Greater(t, writer.Fence(), max(first.Fence(), second.Fence()))
	}
	require.NoError(t, writer.Unlock(ctx))
}
