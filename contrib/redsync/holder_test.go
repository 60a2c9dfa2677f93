package redsync_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestExtendBringsNothingBackToLife(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a", redsync.WithSetNXOnExtend(), redsync.WithExpiry(time.Second))
		require.NoError(t, mutex.Lock())
		for range 3 { // not renewed, but extended
			time.Sleep(900 * time.Millisecond)
			requireDone(t, mutex.Extend)
		}
		time.Sleep(time.Until(mutex.Until()))
		assert.NotEmpty(t, c.Holder("a"), "the masters have it for a little longer")
		requireFailed(t, mutex.Extend, redsync.ErrExtendFailed)
		requireFailed(t, mutex.Valid, redsync.ErrLockAlreadyExpired)

		time.Sleep(time.Second)
		assert.Empty(t, c.Holder("a"))
		requireLost(t, mutex.Extend)
		assert.Empty(t, c.Holder("a"))
	})
}

func TestExtendGivesTheLockBackToAMasterThatForgotIt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		c.Node(0).Restart()
		requireDone(t, mutex.Extend)
	})
}

func TestExtendAndUnlockAtOnceLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		for _, value := range []string{"", "of another Mutex"} {
			for range 50 {
				mutex := rs.NewMutex("a")
				require.NoError(t, mutex.Lock())
				if value != "" {
					mutex = rs.NewMutex("a", redsync.WithValue(mutex.Value()))
				}
				var all sync.WaitGroup
				released := make(chan bool, 2)
				for range 2 {
					all.Go(func() {
						ok, err := mutex.Extend()
						assert.Equal(t, ok, err == nil, "%v", err)
					})
					all.Go(func() {
						ok, err := mutex.Unlock()
						assert.Equal(t, ok, err == nil, "%v", err)
						released <- ok
					})
				}
				all.Wait()
				assert.NotEqual(t, <-released, <-released, "one of the two released it")
				synctest.Wait()
				assert.Empty(t, c.Holder("a"))
				ok, err := mutex.Extend()
				assert.False(t, ok)
				assert.Error(t, err)
				assert.Empty(t, c.Holder("a"))
				assert.False(t, mutex.Until().After(time.Now()))
			}
		}
	})
}

// slowSecond lets a second pass before the second acquisition returns.
type slowSecond struct{ acquired atomic.Int32 }

func (s *slowSecond) Start(ctx context.Context, op redlock.Operation) (context.Context, func(error)) {
	return ctx, func(error) {
		if op.Kind == redlock.OperationAcquire && s.acquired.Add(1) == 2 {
			time.Sleep(time.Second)
		}
	}
}

func TestUnlockWaitsForTheExtendThatTakesTheLockOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		first := rs.NewMutex("a")
		require.NoError(t, first.Lock())
		mutex := rs.NewMutex("a", redsync.WithValue(first.Value()))
		extended := make(chan bool)
		go func() {
			ok, err := mutex.Extend()
			extended <- ok && err == nil
		}()
		time.Sleep(500 * time.Millisecond) // the masters have swapped the value
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		ok, err := mutex.ExtendContext(short)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		requireDone(t, mutex.Unlock)
		assert.True(t, <-extended)
		assert.Empty(t, c.Holder("a"))
	}, redlock.WithTracer(&slowSecond{}))
}

func TestTheDriftFactorShortensTheValidity(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, rs *redsync.Redsync) {
		began := time.Now()
		plain, mutex := rs.NewMutex("a"), rs.NewMutex("b", redsync.WithDriftFactor(0.25))
		require.NoError(t, plain.Lock())
		require.NoError(t, mutex.Lock())
		// 8 s, less 1 % and 2 ms of the Locker.
		assert.Equal(t, 7918*time.Millisecond, plain.Until().Sub(began))
		assert.Equal(t, 5918*time.Millisecond, mutex.Until().Sub(began))
		time.Sleep(time.Until(mutex.Until()))
		requireFailed(t, mutex.Extend, redsync.ErrExtendFailed)
		requireDone(t, mutex.Unlock) // the masters still have it
	})
}

func TestAnExtensionThatIsGrantedTooLateFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		options := []redsync.Option{redsync.WithExpiry(time.Second), redsync.WithDriftFactor(0.5)}
		mutex := rs.NewMutex("a", options...)
		require.NoError(t, mutex.Lock())
		for i := range masters {
			c.Node(i).Delay(600 * time.Millisecond)
		}
		requireFailed(t, mutex.Extend, redsync.ErrExtendFailed)
		requireFailed(t, rs.NewMutex("a", append(options, redsync.WithValue(mutex.Value()))...).Extend, redsync.ErrExtendFailed)
	}, redlock.WithNodeTimeout(900*time.Millisecond))
}

func TestUnlockAgainTellsWhatBecameOfTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		for i := range 3 { // of five
			c.Node(i).Pause()
		}
		for range 2 {
			ok, err := mutex.Unlock()
			assert.False(t, ok)
			var failure *redsync.RedisError
			assert.ErrorAs(t, err, &failure)
		}
		for i := range 3 {
			c.Node(i).Resume()
		}
		time.Sleep(time.Second)
		requireDone(t, mutex.Unlock)
		requireFailed(t, mutex.Unlock, redsync.ErrLockAlreadyExpired)
	})
}
