package interop

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// marker is what readers have under the key of their lock.
const marker = "READERSHOLDTHISLOCKTOGETHE|readers"

func (c *cluster) read(name string, opts ...redlock.LockOption) *redlock.Lock {
	c.t.Helper()
	lock, err := c.ours.TryRLock(c.t.Context(), name, opts...)
	require.NoError(c.t, err)
	c.requireKey(name, marker)
	return lock
}

func TestReadersExcludeRedsyncUntilTheLastOfThemIsGone(t *testing.T) {
	c := newCluster(t)
	first, second := c.read(name), c.read(name)
	c.requireRefused(name)
	c.requireKey(name, marker) // undoing its attempt left it alone

	waited := make(chan *redsync.Mutex, 1)
	go func() {
		mutex := c.mutex(name, redsync.WithTries(10_000), redsync.WithRetryDelay(5*time.Millisecond))
		assert.NoError(t, mutex.LockContext(t.Context()))
		waited <- mutex
	}()
	require.NoError(t, first.Unlock(t.Context()))
	c.requireRefused(name)
	require.NoError(t, second.Verify(t.Context()))
	require.Empty(t, waited)
	require.NoError(t, second.Unlock(t.Context()))
	mutex := <-waited
	c.requireQuorum(name, mutex.Value())

	_, err := c.ours.TryRLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrTaken)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		lock, err := c.ours.RLock(ctx, name)
		if err == nil {
			err = lock.Unlock(ctx)
		}
		got <- err
	}()
	require.Eventually(t, func() bool { return c.ours.Stats().Waiting == 1 }, patience, time.Millisecond)
	require.Empty(t, got)
	ok, err := mutex.UnlockContext(t.Context())
	require.NoError(t, err)
	assert.True(t, ok)
	require.NoError(t, <-got)
	c.requireKey(name, "")
}

// A mutex of redsync that has expired is extended and unlocked late, when readers have the lock.
func TestALateRedsyncDoesNotTouchTheReadersOfALock(t *testing.T) {
	c := newCluster(t)
	mutex := c.mutex(name, redsync.WithExpiry(time.Second), redsync.WithSetNXOnExtend())
	require.NoError(t, mutex.LockContext(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reader, err := c.ours.RLock(ctx, name)
	granted := time.Now()
	require.NoError(t, err)
	assert.False(t, granted.Before(mutex.Until()))
	c.requireQuorum(name, marker) // elsewhere, the expired key may have gone a moment later

	ok, err := mutex.ExtendContext(t.Context())
	assert.False(t, ok)
	require.Error(t, err)
	ok, err = mutex.UnlockContext(t.Context())
	assert.False(t, ok)
	require.Error(t, err)
	c.requireQuorum(name, marker)
	require.NoError(t, reader.Verify(t.Context()))
	require.NoError(t, reader.Unlock(t.Context()))
	c.requireKey(name, "")
}

func TestWhatTheLastReaderLostIsRedsyncsWhenItExpires(t *testing.T) {
	c := newCluster(t)
	living := c.read(name)
	dying := c.read(name, redlock.WithTTL(time.Second), redlock.WithoutRenewal())
	require.NoError(t, living.Unlock(t.Context()))
	c.extend(name, servers-quorum, 3*time.Second) // as if the reader had come there later
	mutex := c.mutex(name, redsync.WithTries(1000), redsync.WithRetryDelay(10*time.Millisecond))
	require.NoError(t, mutex.LockContext(t.Context()))
	require.ErrorIs(t, dying.Err(), redlock.ErrLost)
	require.ErrorIs(t, dying.Unlock(t.Context()), redlock.ErrLost)
	c.requireQuorum(name, mutex.Value())
	ok, err := mutex.UnlockContext(t.Context())
	require.NoError(t, err)
	assert.True(t, ok)
}
