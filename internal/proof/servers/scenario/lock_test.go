package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
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
	require.NoError(t, ours.ForceUnlock(ctx, next.Name())) // the first of several names
	awaitLoss(t, next)
	requireLostBecause(t, next, "a quorum of nodes no longer has it")
	require.ErrorIs(t, next.Unlock(ctx), redlock.ErrLost)
}

// A lock that is not renewed expires at the masters, and nothing brings it back. What its holder
// does then touches nobody else's key.
func TestLockThatExpiredIsLostAndTheNextHoldersIsNotTouched(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	ctx, name := t.Context(), cluster.LockName(t)
	const ttl = time.Second
	l := connected(t, c.URLs())
	first, err := l.TryLock(ctx, name, redlock.WithTTL(ttl), redlock.WithoutRenewal())
	if errors.Is(err, redlock.ErrNoValidity) {
		first, err = l.Lock(ctx, name, redlock.WithTTL(ttl), redlock.WithoutRenewal()) // the machine is busy
	}
	require.NoError(t, err)
	work := first.Context(ctx)
	awaitLoss(t, first)
	requireLostBecause(t, first, "its validity has ended")
	require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
	await(t, "the keys have expired", func() bool { return c.Holding(t, name, first.Value()) == 0 })
	tryAll := func() {
		require.ErrorIs(t, first.Extend(ctx, longTTL), redlock.ErrLost)
		require.ErrorIs(t, first.Verify(ctx), redlock.ErrLost)
		require.ErrorIs(t, first.Unlock(ctx), redlock.ErrLost)
		_, err := l.Inspect(ctx, name) // behind whatever these might have sent
		require.NoError(t, err)
	}
	tryAll()
	assert.Equal(t, make([]string, 5), c.Holders(t, name))
	next := take(t, l, name)
	c.AwaitHeldEverywhere(t, name, next.Value())
	tryAll()
	for _, m := range c.Masters {
		left, err := redis.Int64(m.Do("PTTL", name))
		require.NoError(t, err)
		assert.Greater(t, left, (longTTL - 20*time.Second).Milliseconds())
	}
	give(t, next)
	cluster.RequireClean(t, c.Masters...)
}

// An Adopt that fails leaves the lock to its holder: with a wrong value, with too few nodes in
// reach, that say so or nothing. One that succeeds is told to the old holder.
func TestHoldingGoesOverToTheOneThatAdopts(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second // a busy machine may stop us for half of it
	c := cluster.Start(t, 5)
	proxies, urls := c.BehindProxies(t)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 3)}
	giver, taker := cluster.NewConnected(t, c.URLs(), opts...), cluster.NewConnected(t, urls, opts...)
	name := cluster.LockName(t)
	old, err := giver.Lock(t.Context(), name, redlock.WithOwner("giver"))
	require.NoError(t, err)
	for _, value := range []string{"wrong", old.Value() + "|owner", old.Value()[1:]} {
		_, err = taker.Adopt(t.Context(), name, value)
		require.ErrorIs(t, err, redlock.ErrLost)
	}
	for _, cut := range []func(){
		func() { leave(proxies[2:]...) },
		func() {
			for _, proxy := range proxies[2:] {
				proxy.Drop(redistest.Both, true)
			}
		},
	} {
		cut()
		_, err = taker.Adopt(t.Context(), name, old.Value())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, proxy := range proxies {
			proxy.Refuse(false)
			proxy.Heal()
		}
		awaitUp(t, taker, 0, 1, 2, 3, 4)
		c.AwaitHeldEverywhere(t, name, old.Value())
	}
	require.NoError(t, old.Verify(t.Context()))

	adopted, err := taker.Adopt(t.Context(), name, old.Value(), redlock.WithOwner("taker"))
	require.NoError(t, err)
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	awaitLoss(t, old)
	requireLostBecause(t, old, "a quorum of nodes no longer has it")
	require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	_, err = taker.Adopt(t.Context(), name, old.Value())
	require.ErrorIs(t, err, redlock.ErrLost, "the old value is nobody's")
	await(t, "it is renewed", func() bool { return taker.Stats().Renewed > 0 })
	require.NoError(t, adopted.Verify(t.Context()))
	c.AwaitHeldEverywhere(t, name, adopted.Value())
	status, err := giver.Inspect(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, "taker", status.Owner)
	give(t, adopted)
	cluster.RequireClean(t, c.Masters...)
}

// Close ends calls that run and wait, and releases what is held. It returns when the masters have
// answered, and leaves no connection.
func TestCloseWithLocksInFlightLeavesNothing(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	for round := range sizeOf(t, 5, 100) {
		client := fmt.Sprintf("closing-%d", round)
		l := connected(t, c.URLs(), redlock.WithPool(pool.WithClientName(client)))
		acquired := hammerAndClose(t, l, time.Duration(round)*4*time.Millisecond)
		for _, m := range c.Masters {
			keys, err := m.Keys()
			require.NoError(t, err)
			assert.Empty(t, keys, "at once: Close waits for the answers (round %d, %d acquired)", round, acquired)
		}
		for _, m := range c.Masters {
			await(t, "no connection is left", func() bool {
				list, err := redis.String(m.Do("CLIENT", "LIST"))
				require.NoError(t, err)
				return !strings.Contains(list, "name="+client)
			})
		}
	}
}

// hammerAndClose closes a Locker that goroutines are using, and returns when all of them have seen
// that it is closed.
func hammerAndClose(t *testing.T, l *redlock.Locker, after time.Duration) (acquired int64) {
	t.Helper()
	var count atomic.Int64
	var workers, closers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for {
				lock, err := useOnce(t.Context(), l, worker)
				if lock != nil {
					count.Add(1)
				}
				if errors.Is(err, redlock.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, redlock.ErrTaken) {
					t.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	time.Sleep(after)
	for range 2 {
		closers.Go(func() { assert.NoError(t, l.Close()) })
	}
	closers.Wait()
	workers.Wait()
	require.ErrorIs(t, l.Ready(t.Context()), redlock.ErrClosed)
	assert.Zero(t, l.Stats().Held)
	return count.Load()
}

// useOnce acquires one of a few names, by trying or by waiting, and releases it.
func useOnce(ctx context.Context, l *redlock.Locker, worker int) (*redlock.Lock, error) {
	acquire := l.TryLock
	if worker%2 == 0 {
		acquire = l.Lock
	}
	lock, err := acquire(ctx, fmt.Sprint("name ", worker/3))
	if err != nil {
		return nil, err
	}
	if worker%4 == 0 {
		<-lock.Done() // held until Close
	}
	return lock, lock.Unlock(ctx)
}
