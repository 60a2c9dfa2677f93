package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// inBubble runs a test on embedded masters in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, masters)
		test(t, c, redsync.New(c.Locker(t, opts...)))
	})
}

var noContext context.Context // nil, as redsync allows

func TestValidIsTrueWithAnErrorWhileAMasterIsQuarantined(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		valid, err := mutex.ValidContext(t.Context())
		require.NoError(t, err)
		require.True(t, valid)
		c.Node(0).Restart()
		valid, err = mutex.ValidContext(t.Context())
		assert.True(t, valid)
		require.ErrorIs(t, err, pool.ErrQuarantined)
		assert.ErrorContains(t, err, c.Endpoints()[0])
	})
}

func TestABadArgumentIsAnErrorOfLock(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		for _, mutex := range []*redsync.Mutex{
			rs.NewMutex(""),
			rs.NewMutex("redquorum:memory"),
			rs.NewMutex("a", nil),
			rs.NewMutex("a", redsync.WithExpiry(time.Hour)), // the Locker allows a minute
			rs.NewMutex("a", redsync.WithExpiry(0)),
			rs.NewMutex("a", redsync.WithRetryDelayFunc(nil)),
			rs.NewMutex("a", redsync.WithGenValueFunc(nil)),
			rs.NewMutex("a", redsync.WithGenValueFunc(func() (string, error) { return strings.Repeat("x", 257), nil })),
			rs.NewMutex("a", redsync.WithDriftFactor(-0.1)),
			rs.NewMutex("a", redsync.WithDriftFactor(math.NaN())),
			rs.NewMutex("a", redsync.WithDriftFactor(0.999)),
			redsync.New(nil).NewMutex("a"),
			{},
		} {
			for _, lock := range []func() error{
				mutex.Lock,
				mutex.TryLock,
				func() error { return mutex.LockContext(noContext) },
			} {
				assert.ErrorIs(t, lock(), redlock.ErrInvalid)
			}
			assert.Empty(t, mutex.Value())
			assert.Zero(t, mutex.Until())
		}
		assert.ErrorContains(t, rs.NewMutex("a", redsync.WithExpiry(time.Hour)).Lock(), "maximum TTL of 1m0s")
		for _, call := range []func() (bool, error){
			(&redsync.Mutex{}).Unlock, (&redsync.Mutex{}).Extend, (&redsync.Mutex{}).Valid,
			rs.NewMutex("").Unlock, rs.NewMutex("").Extend, rs.NewMutex("").Valid,
			rs.NewMutex("a", redsync.WithValue("x"), redsync.WithExpiry(time.Hour)).Extend,
			rs.NewMutex("a", redsync.WithValue(strings.Repeat("x", 1025))).Extend,
			rs.NewMutex("a", redsync.WithValue(strings.Repeat("x", 1025))).Unlock,
		} {
			requireFailed(t, call, redlock.ErrInvalid)
		}
		assert.Empty(t, c.Holder("a"))
	})
}

func TestTheLongestValuesCanBeUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		text := strings.Repeat("x", 256)
		made := redsync.WithGenValueFunc(func() (string, error) { return text, nil })
		for _, by := range []func() string{func() string { return c.Holder("a") }, func() string { return text }} {
			require.NoError(t, rs.NewMutex("a", made).Lock())
			requireDone(t, rs.NewMutex("a", redsync.WithValue(by())).Unlock)
		}
	}, redlock.WithOwner("cron@db-1"))
}

func TestLockWaitsForAsLongAsAllPausesTake(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, rs *redsync.Redsync) {
		require.NoError(t, rs.NewMutex("a", redsync.WithExpiry(time.Minute)).Lock())
		for want, options := range map[time.Duration][]redsync.Option{
			0:                       {redsync.WithTries(1)},
			31 * time.Millisecond:   {redsync.WithRetryDelay(-1)},
			2 * time.Second:         {redsync.WithTries(3), redsync.WithRetryDelay(time.Second)},
			4650 * time.Millisecond: nil,
			3 * time.Second: {redsync.WithTries(3), redsync.WithRetryDelayFunc(func(tries int) time.Duration {
				return time.Duration(tries) * time.Second
			})},
		} {
			began := time.Now()
			err := rs.NewMutex("a", options...).Lock()
			var taken *redsync.ErrTaken
			require.ErrorAs(t, err, &taken)
			require.ErrorIs(t, err, redlock.ErrTaken)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, want, time.Since(began).Round(time.Millisecond))
		}
		began := time.Now() // and no pause is too long to count
		forever := rs.NewMutex("a", redsync.WithTries(math.MaxInt), redsync.WithRetryDelay(math.MaxInt64))
		require.NoError(t, forever.Lock())
		assert.LessOrEqual(t, time.Since(began), time.Minute)
	})
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, rs *redsync.Redsync) {
		holder := rs.NewMutex("a")
		require.NoError(t, holder.Lock())
		var order []int // guarded by the lock
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				mutex := rs.NewMutex("a")
				assert.NoError(t, mutex.Lock())
				order = append(order, i)
				_, err := mutex.Unlock()
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		_, err := holder.Unlock()
		require.NoError(t, err)
		all.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

func TestAPanicOfTheFunctionForPausesLeavesNoLockBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		holder := rs.NewMutex("a")
		require.NoError(t, holder.Lock())
		other := rs.NewMutex("a", redsync.WithRetryDelayFunc(func(tries int) time.Duration {
			if tries == 1 {
				return time.Second
			}
			_, err := holder.Unlock() // so that the wait may have the lock already
			assert.NoError(t, err)
			synctest.Wait()
			panic("no pause")
		}))
		assert.PanicsWithValue(t, "no pause", func() { assert.NoError(t, other.Lock()) })
		synctest.Wait()
		assert.Empty(t, c.Holder("a"))
		assert.Empty(t, other.Value())
	})
}

func TestOneMutexOfManyGoroutinesExcludesThem(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		held := 0 // guarded by the mutex
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 10 {
					assert.NoError(t, mutex.Lock())
					held++
					assert.Equal(t, 1, held)
					held--
					ok, err := mutex.Unlock()
					assert.True(t, ok, "%v", err)
				}
			})
		}
		all.Wait()
	})
}

func TestAFurtherLockOfAHeldMutexLeavesItsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		value := mutex.Value()
		require.Error(t, mutex.Lock()) // waits for itself, 4.65 s of the 8
		assert.Equal(t, value, mutex.Value())
		assert.Equal(t, value, c.Holder("a"))
		require.NoError(t, mutex.Lock()) // until its lock has expired
		assert.NotEqual(t, value, mutex.Value())
		assert.True(t, mutex.Until().After(time.Now()))
		requireDone(t, mutex.Unlock)
	})
}

// As with redsync, whoever knows what the program makes acts on the lock that has the name now. A
// Mutex that held a lock before does not.
func TestATextStandsForTheLockThatHasTheNameNow(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		host := redsync.WithGenValueFunc(func() (string, error) { return "pod-7", nil })
		before, mutex := rs.NewMutex("a", host), rs.NewMutex("a", host)
		require.NoError(t, before.Lock())
		var taken *redsync.ErrTaken
		require.ErrorAs(t, mutex.TryLock(), &taken)
		time.Sleep(10 * time.Second) // it expires
		require.NoError(t, mutex.Lock())
		assert.NotEqual(t, before.Value(), mutex.Value())
		for _, call := range []func() (bool, error){before.Valid, before.Extend, before.Unlock} {
			ok, err := call()
			assert.False(t, ok)
			require.Error(t, err)
		}
		requireDone(t, mutex.Valid)

		third := rs.NewMutex("a", redsync.WithValue("pod-7"))
		requireDone(t, third.Valid)
		requireDone(t, third.Extend)
		assert.Equal(t, c.Holder("a"), third.Value())
		requireLost(t, mutex.Extend)
		requireDone(t, third.Unlock)
		assert.Empty(t, c.Holder("a"))
	})
}

// Everybody knows what the masters have for readers, and "readers" is shown as its owner.
func TestNoTextStandsForReaders(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		_, err := c.Locker(t).RLock(t.Context(), "a")
		require.NoError(t, err)
		mutex := rs.NewMutex("a", redsync.WithValue("readers"))
		for _, call := range []func() (bool, error){mutex.Valid, mutex.Extend, mutex.Unlock} {
			requireLost(t, call)
		}
	})
}

func TestALockThatIsGrantedTooLateFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		for i := range masters {
			c.Node(i).Delay(100 * time.Millisecond)
		}
		mutex := rs.NewMutex("a", redsync.WithExpiry(200*time.Millisecond), redsync.WithDriftFactor(0.9))
		assert.Equal(t, redsync.ErrFailed, mutex.TryLock())
	}, redlock.WithNodeTimeout(150*time.Millisecond))
}

func TestAClosedLockerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, masters)
		locker := c.Locker(t)
		rs := redsync.New(locker)
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		require.NoError(t, locker.Close())
		assert.ErrorIs(t, rs.NewMutex("a").Lock(), redlock.ErrClosed)
		assert.ErrorIs(t, rs.NewMutex("a").TryLock(), redlock.ErrClosed)
		for _, call := range []func() (bool, error){mutex.Extend, mutex.Valid, rs.NewMutex("a").Unlock} {
			requireFailed(t, call, redlock.ErrClosed)
		}
		assert.Empty(t, c.Holder("a"))
	})
}

func TestErrorsWrapAsRedsyncsDo(t *testing.T) {
	inner := errors.New("inner")
	assert.ErrorIs(t, redsync.RedisError{Node: 1, Err: inner}, inner)
	assert.ErrorIs(t, &redsync.RedisError{Node: 1, Err: inner}, inner)
	assert.ErrorIs(t, redsync.ErrTaken{}, redlock.ErrTaken)
	for _, err := range []error{
		redsync.RedisError{Node: 3, Err: inner}, &redsync.ErrNodeTaken{Node: 3}, &redsync.ErrTaken{Nodes: []int{3}},
	} {
		assert.ErrorContains(t, err, "3")
	}
}

func TestAFailureNamesItsMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.Lock())
		for i := range 3 {
			c.Node(i).Stop()
		}
		_, valid := mutex.Valid()
		for _, err := range []error{rs.NewMutex("b").TryLock(), valid} {
			var failure *redsync.RedisError
			require.ErrorAs(t, err, &failure)
			var node *redlock.NodeError
			require.ErrorAs(t, failure.Err, &node)
			assert.Contains(t, node.Endpoint, fmt.Sprintf("node%d.", failure.Node))
			assert.ErrorContains(t, err, node.Endpoint)
		}
	})
}

func TestAContextThatHasEndedLocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *redsync.Redsync) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		pause := redsync.WithRetryDelayFunc(func(int) time.Duration { return time.Hour })
		assert.Equal(t, redsync.ErrFailed, rs.NewMutex("a").LockContext(ended))
		assert.Equal(t, redsync.ErrFailed, rs.NewMutex("a", pause).LockContext(ended))
		err := rs.NewMutex("a").TryLockContext(ended)
		assert.ErrorIs(t, err, context.Canceled)
		var failure *redsync.RedisError
		assert.ErrorAs(t, err, &failure)
		assert.Empty(t, c.Holder("a"))

		mutex := rs.NewMutex("a")
		require.NoError(t, mutex.LockContext(noContext))
		ok, err := mutex.ExtendContext(ended)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.Canceled)
		// A release is not cut short.
		requireDone(t, func() (bool, error) { return mutex.UnlockContext(ended) })
		assert.Empty(t, c.Holder("a"))

		require.NoError(t, mutex.Lock())
		requireDone(t, func() (bool, error) {
			return rs.NewMutex("a", redsync.WithValue(mutex.Value())).UnlockContext(ended)
		})
		assert.Empty(t, c.Holder("a"))
	})
}

func TestATryThatItsContextCutsShortIsNotTaken(t *testing.T) {
	c := cluster.Start(t, masters)
	rs := newRedsync(t, c)
	set(t, c.Masters[:2], "a", "other")
	for _, m := range c.Masters[3:] {
		require.NoError(t, m.Stop())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// Two masters refuse, one grants, and two do not answer.
	err := rs.NewMutex("a", redsync.WithExpiry(time.Minute)).TryLockContext(ctx)
	for _, m := range c.Masters[3:] {
		require.NoError(t, m.Continue())
	}
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	var failure *redsync.RedisError
	assert.ErrorAs(t, err, &failure)
	var taken *redsync.ErrTaken
	assert.False(t, errors.As(err, &taken), "%v", err)
}
