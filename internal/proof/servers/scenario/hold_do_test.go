package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

var errWork = errors.New("the work went wrong")

func TestHoldingForAFunctionEndsWithIt(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	other := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	for _, want := range []error{nil, errWork} {
		var after context.Context
		err := l.Do(t.Context(), cluster.LockName(t), func(ctx context.Context, lock *redlock.Lock) error {
			after = ctx
			assert.NoError(t, ctx.Err())
			c.AwaitHeldEverywhere(t, cluster.LockName(t), lock.Value())
			_, err := other.TryLock(ctx, cluster.LockName(t))
			assert.ErrorIs(t, err, redlock.ErrTaken)
			return want
		})
		if want == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, want)
			assert.NotErrorIs(t, err, redlock.ErrLost)
		}
		require.ErrorIs(t, context.Cause(after), redlock.ErrReleased)
		cluster.RequireClean(t, c.Masters...)
	}
	require.PanicsWithValue(t, "the work", func() {
		_ = l.Do(t.Context(), cluster.LockName(t), func(context.Context, *redlock.Lock) error { panic("the work") }) //nolint:errcheck // it panics
	})
	cluster.RequireClean(t, c.Masters...)

	held, err := other.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = l.Do(ctx, cluster.LockName(t), func(context.Context, *redlock.Lock) error {
		t.Error("run without the lock")
		return nil
	})
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, held.Unlock(t.Context()))
}

// The lock is lost while the function runs: its context ends, and the error of Do has both reasons.
func TestHoldingForAFunctionThatLosesTheLockTellsIt(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4))
	var late []time.Duration
	work := func(lose func(lock *redlock.Lock), why string) func(context.Context, *redlock.Lock) error {
		return func(ctx context.Context, lock *redlock.Lock) error {
			lose(lock)
			select {
			case <-lock.Done():
			case <-time.After(ttl + slack):
				t.Error("still held")
			}
			ended := time.Now()
			<-ctx.Done()
			late = append(late, time.Since(ended))
			assert.ErrorContains(t, context.Cause(ctx), why)
			assert.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			requireLostBecause(t, lock, why)
			return errWork
		}
	}
	taken := func(lock *redlock.Lock) { assert.NoError(t, l.ForceUnlock(t.Context(), lock.Name())) }
	err := l.Do(t.Context(), cluster.LockName(t), work(taken, "a quorum of nodes no longer has it"))
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, errWork)
	cluster.RequireClean(t, c.Masters...)

	err = l.Do(t.Context(), cluster.LockName(t), work(func(*redlock.Lock) {}, "its validity has ended"), redlock.WithoutRenewal())
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, errWork)
	cluster.RequireClean(t, c.Masters...)

	began := time.Now()
	err = l.Do(t.Context(), cluster.LockName(t), work(func(*redlock.Lock) {}, "its maximum hold has ended"), redlock.WithMaxHold(2*ttl))
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, errWork)
	assert.GreaterOrEqual(t, time.Since(began), 2*ttl)
	cluster.RequireClean(t, c.Masters...)
	t.Logf("contexts ended after the locks by %v", late)
}

// A release that no quorum answers is reported beside the error of the function.
func TestHoldingForAFunctionTellsThatTheReleaseFailed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(100*time.Millisecond))
	err := l.Do(t.Context(), cluster.LockName(t), func(context.Context, *redlock.Lock) error {
		for _, m := range c.Masters[:3] {
			assert.NoError(t, m.Stop())
		}
		return errWork
	})
	require.ErrorIs(t, err, errWork)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.NotErrorIs(t, err, redlock.ErrLost)
	for _, m := range c.Masters[:3] {
		must(t, m.Continue())
	}
	cluster.RequireClean(t, c.Masters...)
}
