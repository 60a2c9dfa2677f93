package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// call acquires a lock.
type call func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error)

// kind is a kind of lock, and who is refused while it is held.
type kind struct {
	name  string
	room  int // how many may hold it at once
	try   call
	rival call
	wait  call // of the rival
}

var (
	tryLock call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLock(ctx, name)
	}
	waitLock call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.Lock(ctx, name)
	}
	tryRead call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryRLock(ctx, name)
	}
	tryNames call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLockAll(ctx, namesFrom(name))
	}
	waitNames call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.LockAll(ctx, namesFrom(name))
	}
	tryAny call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.TryLockAny(ctx, namesFrom(name))
	}
	waitAny call = func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.LockAny(ctx, namesFrom(name))
	}
	tryPermit  = permit((*redlock.Semaphore).TryAcquire)
	waitPermit = permit((*redlock.Semaphore).Acquire)
)

func namesFrom(name string) []string { return []string{name + "b", name, name + "a"} }

func permit(acquire func(*redlock.Semaphore, context.Context, ...redlock.LockOption) (*redlock.Lock, error)) call {
	return func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		s, err := l.Semaphore(name, 2)
		if err != nil {
			return nil, err
		}
		return acquire(s, ctx)
	}
}

var kinds = []kind{
	{"mutex", 1, tryLock, tryLock, waitLock},
	{"names", 1, tryNames, tryNames, waitNames},
	{"readers", 2, tryRead, tryLock, waitLock},
	{"permits", 2, tryPermit, tryPermit, waitPermit},
	{"any", 3, tryAny, tryAny, waitAny},
}

// On real masters, each kind of lock lets in as many as it should, is renewed past its TTL, is
// handed over to who waits for it, and ends when an operator ends it. It leaves no key.
func TestLockOfEachKindIsExclusiveRenewedAndHandedOver(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	t.Run("kinds", func(t *testing.T) {
		for _, k := range kinds {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				k.lives(t, c)
			})
		}
	})
	cluster.RequireClean(t, c.Masters...)
}

func (k kind) lives(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	ctx, name := t.Context(), cluster.LockName(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl * 2 / 3)}
	ours, theirs := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, c.URLs(), opts...)
	refused := func() {
		for _, l := range []*redlock.Locker{ours, theirs} { // a lock is not reentrant
			_, err := k.rival(ctx, l, name)
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
	}
	began := time.Now()
	var held []*redlock.Lock
	for range k.room {
		lock, err := k.try(ctx, ours, name)
		require.NoError(t, err)
		held = append(held, lock)
	}
	refused()
	for _, lock := range held {
		assert.LessOrEqual(t, lock.Remaining(), ttl-ttl/100, "TTL less drift")
		require.NoError(t, lock.Verify(ctx), "who is refused does no harm")
		require.NoError(t, lock.Extend(ctx, ttl))
	}
	await(t, "the TTL is over", func() bool { return time.Since(began) > ttl+ttl/8 })
	refused()
	got := inBackground(t, func() (*redlock.Lock, error) { return k.wait(ctx, theirs, name) })
	await(t, "somebody waits", func() bool { return theirs.Stats().Waiting == 1 })
	for _, lock := range held {
		require.NoError(t, lock.Verify(ctx), "renewed")
		give(t, lock)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	}
	next := <-got
	require.NotNil(t, next)
	assert.Zero(t, ours.Stats().Lost)
	require.NoError(t, admin.Of(ours).ForceUnlock(ctx, next.Name())) // the first of several names
	awaitLoss(t, next)
	requireLostBecause(t, next, "a quorum of nodes no longer has it")
	require.ErrorIs(t, next.Unlock(ctx), redlock.ErrLost)
}
