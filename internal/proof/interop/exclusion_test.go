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

const name = "orders/42"

func TestWhatRedsyncHoldsIsTakenUntilItUnlocks(t *testing.T) {
	c := newCluster(t)
	mutex := c.mutex(name)
	require.NoError(t, mutex.LockContext(t.Context()))
	c.requireKey(name, mutex.Value())

	_, err := c.ours.TryLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrTaken)
	c.requireKey(name, mutex.Value()) // undoing our attempt left it alone

	type outcome struct {
		lock *redlock.Lock
		err  error
	}
	waited := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		lock, err := c.ours.Lock(ctx, name)
		waited <- outcome{lock, err}
	}()
	polled := func() bool { return c.ours.Stats().Polls >= 2 }
	require.Eventually(t, polled, patience, time.Millisecond, "nothing wakes Lock, so it polls")
	require.Empty(t, waited)

	ok, err := mutex.UnlockContext(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	got := <-waited
	require.NoError(t, got.err)
	// Lock may return before the last server has run the release.
	c.requireQuorum(name, got.lock.Value())
	require.NoError(t, got.lock.Unlock(t.Context()))
	c.requireKey(name, "")
}

func TestWhatRedsyncLeftBehindIsOursWhenItExpires(t *testing.T) {
	c := newCluster(t)
	mutex := c.mutex(name, redsync.WithExpiry(time.Second))
	require.NoError(t, mutex.LockContext(t.Context()))
	c.extend(name, servers-quorum, 3*time.Second) // as if its SET had arrived there later

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := c.ours.Lock(ctx, name)
	granted := time.Now()
	require.NoError(t, err)
	assert.False(t, granted.Before(mutex.Until()), "granted %v before redsync's validity ended", mutex.Until().Sub(granted))
	c.requireQuorum(name, lock.Value())

	// Its late unlock must not release our lock.
	ok, err := mutex.UnlockContext(t.Context())
	assert.False(t, ok)
	assert.Error(t, err)
	c.requireQuorum(name, lock.Value())
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestWhatWeHoldIsTakenForRedsyncUntilWeUnlock(t *testing.T) {
	c := newCluster(t)
	lock, err := c.ours.TryLock(t.Context(), name)
	require.NoError(t, err)
	c.requireKey(name, lock.Value())

	c.requireRefused(name)
	c.requireKey(name, lock.Value()) // undoing its attempt left it alone
	require.NoError(t, lock.Verify(t.Context()))

	require.NoError(t, lock.Unlock(t.Context()))
	mutex := c.mutex(name) // a quorum has deleted the key, so one attempt is enough
	require.NoError(t, mutex.LockContext(t.Context()))
	_, err = mutex.UnlockContext(t.Context())
	require.NoError(t, err)
	c.requireKey(name, "")
}

func TestWhatWeLostIsRedsyncsWhenItExpires(t *testing.T) {
	c := newCluster(t)
	lock, err := c.ours.TryLock(t.Context(), name, redlock.WithTTL(time.Second), redlock.WithoutRenewal())
	require.NoError(t, err)
	c.requireRefused(name)
	c.extend(name, servers-quorum, 3*time.Second) // as if our SET had arrived there later

	mutex := c.mutex(name, redsync.WithTries(1000), redsync.WithRetryDelay(10*time.Millisecond))
	require.NoError(t, mutex.LockContext(t.Context()))
	assert.ErrorIs(t, lock.Err(), redlock.ErrLost, "redsync has the lock")
	c.requireQuorum(name, mutex.Value())

	// Our late unlock must not release its lock.
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrLost)
	c.requireQuorum(name, mutex.Value())
	_, err = c.ours.TryLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrTaken)
	ok, err := mutex.UnlockContext(t.Context())
	require.NoError(t, err)
	assert.True(t, ok)
}

func TestAKeyPrefixIsPartOfTheNameForRedsync(t *testing.T) {
	c := newCluster(t)
	var addresses []string
	for _, server := range c.servers {
		addresses = append(addresses, server.Addr())
	}
	prefixed, err := redlock.New(addresses, redlock.WithKeyPrefix("locks:"), redlock.WithTTL(ttl),
		redlock.WithNodeTimeout(patience), redlock.WithOwner("host-7"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, prefixed.Close()) })
	require.NoError(t, prefixed.Ready(t.Context()))

	lock, err := prefixed.TryLock(t.Context(), name)
	require.NoError(t, err)
	c.requireKey("locks:"+name, lock.Value())
	c.requireRefused("locks:" + name)
	require.NoError(t, c.mutex(name).LockContext(t.Context()), "without the prefix it is another lock")
}
