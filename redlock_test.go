package redquorum_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// What the library promises, on redis-servers that this test starts, kills, stops and empties. Each
// test is one sentence of README.md; docs/safety.md has the rest.

// masters are independent redis-servers.
type masters []*redistest.Server

func start(t *testing.T, n int) masters {
	redistest.Require(t)
	t.Parallel() // they mostly wait
	return redistest.Start(t, n)
}

// program returns what a program on one machine has: a Locker on all masters, or on some more.
func (m masters) program(t *testing.T, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	var endpoints []string
	for _, master := range m {
		endpoints = append(endpoints, master.URL())
	}
	opts = append([]redlock.Option{redlock.WithTTL(time.Second), redlock.WithMaxTTL(2 * time.Second), redlock.WithNodeTimeout(time.Second)}, opts...)
	locker, err := redlock.New(endpoints, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	ready(t, locker)
	return locker
}

// A lock that must be renewed in time lasts for long enough that a busy machine does so.
var (
	patient = []redlock.Option{redlock.WithMaxTTL(5 * time.Second), redlock.WithTTL(5 * time.Second)}
	longer  = 6 * time.Second
)

// ready waits until a quorum answers.
func ready(t *testing.T, locker *redlock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, locker.Ready(ctx))
}

// lock acquires a lock that is or becomes free.
func lock(t *testing.T, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held, err := locker.Lock(ctx, name, opts...)
	require.NoError(t, err)
	return held
}

func TestANameHasOneHolderAcrossMachines(t *testing.T) {
	m := start(t, 3)
	var inside, runs atomic.Int32
	var working sync.WaitGroup
	for range 4 {
		program := m.program(t)
		for range 4 {
			working.Go(func() {
				for range 10 {
					err := program.Do(t.Context(), "orders/42", func(context.Context, *redlock.Lock) error {
						defer inside.Add(-1)
						assert.EqualValues(t, 1, inside.Add(1), "holders")
						runs.Add(1)
						return nil
					})
					assert.NoError(t, err)
				}
			})
		}
	}
	working.Wait()
	assert.EqualValues(t, 160, runs.Load(), "everybody had its turns")
}

func TestWhoeverComesSecondIsRefusedOrWaits(t *testing.T) {
	m := start(t, 3)
	first, second := m.program(t, patient...), m.program(t, patient...)
	held := lock(t, first, "orders/42")
	_, err := second.TryLock(t.Context(), "orders/42")
	require.ErrorIs(t, err, redlock.ErrTaken)
	_, err = second.TryLock(t.Context(), "orders/43")
	require.NoError(t, err, "another name")

	next := make(chan *redlock.Lock)
	go func() { next <- lock(t, second, "orders/42") }()
	time.Sleep(longer) // than the TTL: the lock is renewed while it is held
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, (<-next).Err(), "a release hands the lock over")
	require.ErrorIs(t, held.Err(), redlock.ErrReleased)
}

func TestAMinorityOfMastersMayBeDead(t *testing.T) {
	m := start(t, 5)
	program := m.program(t, patient...)
	held := lock(t, program, "a")
	require.NoError(t, m[0].Kill())
	require.NoError(t, m[1].Stop()) // it accepts connections, and never answers
	defer m[1].Continue()           //nolint:errcheck // the test is over
	another := lock(t, program, "b")
	time.Sleep(longer)
	require.NoError(t, held.Err(), "renewed by three of five")
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, another.Unlock(t.Context()))

	require.NoError(t, m[2].Kill())
	_, err := program.TryLock(t.Context(), "c")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	var votes *redlock.QuorumError
	require.ErrorAs(t, err, &votes)
	assert.Len(t, votes.Nodes, 3, "it says why each master gave no vote")
}

// The hole that a single master with a replica has, and plain Redlock, too: a master that comes
// back without its keys would grant the lock again.
func TestAMasterThatForgotDoesNotGrantALockTwice(t *testing.T) {
	m := start(t, 3)
	first, second := m.program(t), m.program(t)
	require.NoError(t, m[2].Kill())
	held := lock(t, first, "orders/42", redlock.WithTTL(2*time.Second), redlock.WithoutRenewal())
	require.NoError(t, m[1].Kill()) // it granted the lock,
	require.NoError(t, m[1].Restart())
	require.NoError(t, m[2].Restart()) // and two of three masters know nothing of it now.
	for held.Err() == nil {
		other, err := second.TryLock(t.Context(), "orders/42")
		if err == nil {
			require.Error(t, held.Err(), "two holders")
			require.NoError(t, other.Unlock(t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, lock(t, second, "orders/42").Unlock(t.Context()), "and afterwards it is had again")
}

func TestTheHolderIsToldOfALoss(t *testing.T) {
	m := start(t, 3)
	held := lock(t, m.program(t), "orders/42")
	work := held.Context(t.Context())
	for _, master := range m {
		require.NoError(t, master.Stop())
		defer master.Continue() //nolint:errcheck // the test is over
	}
	select {
	case <-work.Done():
	case <-time.After(time.Minute):
		t.Fatal("no master answers, and the holder works on")
	}
	require.ErrorIs(t, context.Cause(work), redlock.ErrLost)
	assert.LessOrEqual(t, held.Remaining(), time.Duration(0))
}

func TestAHolderThatCrashedKeepsALockForItsTTL(t *testing.T) {
	m := start(t, 3)
	crashed, next := m.program(t), m.program(t)
	lock(t, crashed, "orders/42", redlock.WithoutRenewal()) // nobody unlocks it
	began := time.Now()
	lock(t, next, "orders/42")
	assert.Greater(t, time.Since(began), 500*time.Millisecond)
}

func TestAWriteThatComesLateIsRefused(t *testing.T) {
	m := start(t, 3)
	var resource fence.Gate // it remembers the largest token that it has seen
	late := lock(t, m.program(t), "orders/42", redlock.WithFencing(), redlock.WithoutRenewal(), redlock.WithTTL(100*time.Millisecond))
	next := lock(t, m.program(t), "orders/42", redlock.WithFencing())
	require.Greater(t, next.Fence(), late.Fence())
	require.NoError(t, resource.Do(next.Fence(), func() error { return nil }))
	err := resource.Do(late.Fence(), func() error { return errors.New("it was written") })
	require.ErrorIs(t, err, fence.ErrStale)
}

func TestReadersShareAndPermitsAreCounted(t *testing.T) {
	m := start(t, 3)
	program, other := m.program(t), m.program(t)
	one, err := program.TryRLock(t.Context(), "prices")
	require.NoError(t, err)
	two, err := other.TryRLock(t.Context(), "prices")
	require.NoError(t, err)
	_, err = other.TryLock(t.Context(), "prices")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, errors.Join(one.Unlock(t.Context()), two.Unlock(t.Context())))
	lock(t, other, "prices")

	machines, err := program.Semaphore("machines", 2)
	require.NoError(t, err)
	for range 2 {
		_, err = machines.TryAcquire(t.Context())
		require.NoError(t, err)
	}
	_, err = machines.TryAcquire(t.Context())
	require.ErrorIs(t, err, redlock.ErrTaken)
}

func TestAMasterIsReplacedWhileALockIsHeld(t *testing.T) {
	m := start(t, 4)
	spare, m := m[3], m[:3]
	program := m.program(t)
	held := lock(t, program, "orders/42")
	require.NoError(t, m[0].Kill()) // for good
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before, err := admin.Of(program).Cluster().Members(ctx)
	require.NoError(t, err)
	for _, member := range before.Members {
		if member.Endpoint == m[0].URL() {
			require.NoError(t, admin.Of(program).Cluster().Remove(ctx, member.ID))
		}
	}
	require.NoError(t, admin.Of(program).Cluster().Add(ctx, spare.URL()))
	require.NoError(t, m[1].Kill()) // now the new one is needed
	require.NoError(t, held.Verify(ctx))
	require.NoError(t, held.Unlock(ctx))
}
