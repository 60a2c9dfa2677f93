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
)

func TestExtendGivesTheWholeExpiryAgain(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a", redsync.WithExpiry(time.Minute))
	require.NoError(t, mutex.Lock())
	until := mutex.Until()
	for _, m := range c.Masters {
		_, err := m.Do("PEXPIRE", "a", 50_000)
		require.NoError(t, err)
	}
	requireDone(t, mutex.Extend)
	assert.True(t, mutex.Until().After(until))
	cluster.Eventually(t, patience, func() string {
		for _, m := range c.Masters {
			if left, err := m.Do("PTTL", "a"); err != nil || left.(int64) <= 50_000 {
				return "a minute on every master"
			}
		}
		return ""
	})
}

func TestAGoroutineExtendsTheLock(t *testing.T) {
	_, rs := start(t)
	mutex := rs.NewMutex("a", redsync.WithExpiry(time.Minute))
	require.NoError(t, mutex.Lock())
	ctx, cancel := context.WithCancel(background)
	results, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			ok, err := mutex.ExtendContext(background)
			if ok != (err == nil) {
				err = errors.Join(err, errors.New("true with an error, or false without"))
			}
			select {
			case results <- err:
			case <-ctx.Done():
			}
		}
	}()
	for range 20 {
		require.NoError(t, <-results)
	}
	cancel()
	<-ended
	assert.True(t, mutex.Until().After(time.Now()))
	requireDone(t, mutex.Unlock)
}

func TestALockThatTheMastersLostIsGone(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a")
	require.NoError(t, mutex.Lock())
	c.AwaitHeldEverywhere(t, "a", mutex.Value())
	set(t, c.Masters, "a", "")

	requireLost(t, func() (bool, error) { return mutex.ValidContext(background) }, 0, 1, 2, 3, 4)
	requireLost(t, mutex.Extend)
	ok, err := mutex.Unlock()
	assert.False(t, ok)
	assert.Error(t, err)
}

func TestALockThatExpiredIsGone(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a", redsync.WithExpiry(300*time.Millisecond))
	require.NoError(t, mutex.Lock())
	cluster.RequireClean(t, c.Masters...)
	assert.True(t, mutex.Until().Before(time.Now()))

	requireLost(t, mutex.Extend, 0, 1, 2, 3, 4)
	requireFailed(t, mutex.Unlock, redsync.ErrLockAlreadyExpired)
	require.NoError(t, rs.NewMutex("a").TryLock())
	requireLost(t, mutex.Extend)
}

func TestUnlockTouchesNobodyElsesLock(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a")
	require.NoError(t, mutex.Lock())
	c.AwaitHeldEverywhere(t, "a", mutex.Value())
	set(t, c.Masters, "a", "other")
	for _, unlock := range []func() (bool, error){mutex.Unlock, mutex.Unlock, rs.NewMutex("a").Unlock} {
		requireLost(t, unlock, 0, 1, 2, 3, 4)
	}
	assert.Equal(t, masters, c.Holding(t, "a", "other"))

	for _, m := range c.Masters { // a value, too
		_, err := m.Do("SET", "a", "")
		require.NoError(t, err)
	}
	_, err := mutex.Unlock()
	requireTaken(t, err, 0, 1, 2, 3, 4)
}

func TestAMinorityHasNothingToSay(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a")
	require.NoError(t, mutex.Lock())
	c.AwaitHeldEverywhere(t, "a", mutex.Value())
	set(t, c.Masters[:2], "a", "")
	require.NoError(t, c.Masters[2].Kill())
	ok, err := mutex.Valid() // two have it, two have not
	assert.False(t, ok)
	var refusal *redsync.ErrNodeTaken
	require.ErrorAs(t, err, &refusal)
	assert.Less(t, refusal.Node, 2)
	var failure *redsync.RedisError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, 2, failure.Node)
	var taken *redsync.ErrTaken
	assert.False(t, errors.As(err, &taken), "%v", err)
}

func TestAMutexThatWasNotLockedHasNothingToUnlock(t *testing.T) {
	_, rs := start(t)
	mutex := rs.NewMutex("a")
	requireFailed(t, mutex.Unlock, redsync.ErrLockAlreadyExpired)
	requireLost(t, mutex.Extend, 0, 1, 2, 3, 4)
	requireLost(t, mutex.Valid, 0, 1, 2, 3, 4)
}

func TestAMutexWithTheValueOfALockReleasesIt(t *testing.T) {
	c, rs := start(t)
	first := rs.NewMutex("a")
	require.NoError(t, first.Lock())
	c.AwaitHeldEverywhere(t, "a", first.Value())

	second := rs.NewMutex("a", redsync.WithValue(first.Value()))
	assert.Equal(t, first.Value(), second.Value())
	requireDone(t, second.Valid)
	requireDone(t, second.Unlock)
	cluster.RequireClean(t, c.Masters...)
	for _, mutex := range []*redsync.Mutex{first, second, rs.NewMutex("a", redsync.WithValue(first.Value()))} {
		requireFailed(t, mutex.Unlock, redsync.ErrLockAlreadyExpired)
	}
}

func TestAMutexWithTheValueOfALockExtendsIt(t *testing.T) {
	_, rs := start(t)
	first := rs.NewMutex("a")
	require.NoError(t, first.Lock())
	second := rs.NewMutex("a", redsync.WithValue(first.Value()))
	for range 2 {
		requireDone(t, second.Extend)
	}
	assert.True(t, second.Until().After(time.Now()))
	requireTaken(t, rs.NewMutex("a").TryLock())
	requireDone(t, second.Unlock)
}
