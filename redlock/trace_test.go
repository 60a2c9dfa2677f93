package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// recordingTracer writes down each operation with its parent, when it ends.
type recordingTracer struct {
	mu    sync.Mutex
	ended []string
}

type parentKey struct{}

func (r *recordingTracer) Start(ctx context.Context, op redlock.Operation) (context.Context, func(error)) {
	path := fmt.Sprintf("%s %s", op.Kind, op.Name)
	if parent, ok := ctx.Value(parentKey{}).(string); ok {
		path = parent + " > " + path
	}
	return context.WithValue(ctx, parentKey{}, path), func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, fmt.Sprintf("%s: %t", path, err == nil))
	}
}

func (r *recordingTracer) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = nil
	return ended
}

func TestTracerSeesOperationsWithTheirParents(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		r := &recordingTracer{}
		l, other := c.locker(redlock.WithTracer(r)), c.locker()
		ctx := context.WithValue(ctx, parentKey{}, "job")

		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, 5*time.Second))
		require.NoError(t, lock.Unlock(ctx))
		assert.Equal(t, []string{"job > acquire a: true", "job > extend a: true", "job > release a: true"}, r.take())

		held, err := other.TryLock(ctx, "a")
		require.NoError(t, err)
		_, err = l.TryLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, []string{"job > acquire a: false"}, r.take())
		time.AfterFunc(time.Second, func() { assert.NoError(t, held.Unlock(ctx)) })
		require.NoError(t, l.Do(ctx, "a", func(ctx context.Context, lock *redlock.Lock) error { return lock.Err() }))
		assert.Equal(t, []string{"job > acquire a > wait a: true", "job > acquire a: true", "job > release a: true"}, r.take())

		s, err := l.Semaphore("s", 1)
		require.NoError(t, err)
		permit, err := s.Acquire(ctx)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = s.Acquire(soon)
		require.Error(t, err)
		require.NoError(t, permit.Unlock(ctx))
		assert.Equal(t, []string{
			"job > acquire s: true", "job > acquire s > wait s: false", "job > acquire s: false", "job > release s#1: true",
		}, r.take())

		for _, lockOne := range []func() (*redlock.Lock, error){
			func() (*redlock.Lock, error) { return l.TryLockAll(ctx, []string{"x", "y"}) },
			func() (*redlock.Lock, error) { return l.LockAll(ctx, []string{"x", "y"}) },
			func() (*redlock.Lock, error) { return l.TryLockAny(ctx, []string{"x", "y"}) },
			func() (*redlock.Lock, error) { return l.LockAny(ctx, []string{"x", "y"}) },
			func() (*redlock.Lock, error) { return l.TryRLock(ctx, "x") },
			func() (*redlock.Lock, error) { return l.RLock(ctx, "x") },
		} {
			lock, err := lockOne()
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(context.Background()))
			assert.Equal(t, "job > acquire x: true", r.take()[0])
		}
	})
}

func TestNoTracerIsRefused(t *testing.T) {
	_, err := redlock.New([]string{"a"}, redlock.WithTracer(nil))
	require.ErrorIs(t, err, redlock.ErrInvalid)
}

func TestWithoutATracerNothingIsAllocated(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithTracer(&recordingTracer{})}} {
		l, err := redlock.New([]string{"127.0.0.1:1"}, opts...)
		require.NoError(t, err)
		defer l.Close()
		allocated := testing.AllocsPerRun(10_000, func() { assert.NoError(t, l.Trace(t.Context())) })
		assert.Equal(t, opts != nil, allocated > 0, "%v per call with %d options", allocated, len(opts))
	}
}
