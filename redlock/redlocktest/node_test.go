package redlocktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// inBothTimes runs a test in real time and in virtual time.
func inBothTimes(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("real", func(t *testing.T) { test(t) })
	t.Run("virtual", func(t *testing.T) { synctest.Test(t, test) })
}

func lock(t *testing.T, l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	held, err := l.TryLock(t.Context(), name, opts...)
	require.NoError(t, err)
	return held
}

// patiently returns options of a Locker whose rounds end by what the nodes answer and not by time,
// so that a test in real time does not depend on how fast the machine is.
func patiently(opts ...redlock.Option) []redlock.Option {
	return append([]redlock.Option{redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(30 * time.Second)}, opts...)
}

// votes returns how many nodes count for a Locker.
func votes(t *testing.T, l *redlock.Locker) (n int) {
	t.Helper()
	status, err := admin.Of(l).Inspect(t.Context(), "any")
	require.NoError(t, err)
	for _, node := range status.Nodes {
		if node.Err == nil {
			n++
		}
	}
	return n
}

func TestAllNodesVoteAtOnce(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		assert.Equal(t, 5, votes(t, c.Locker(t, patiently()...)))
		assert.Equal(t, 5, votes(t, c.Locker(t, patiently(redlock.WithQuarantine(redlock.QuarantineStrict))...)))
		assert.Equal(t, 5, votes(t, c.Locker(t, patiently(redlock.WithQuarantine(redlock.QuarantineOff))...)))

		c = redlocktest.Start(t, 3)
		c.Node(0).Stop() // before the first Locker
		l := c.Locker(t, patiently()...)
		lock(t, l, "a")
		c.Node(0).Start()
		assert.Equal(t, 3, votes(t, l))
	})
}

func TestAStoppedNodeKeepsItsKeysAndItsVote(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		l := c.Locker(t, patiently()...)
		held := lock(t, l, "a")
		c.Node(0).Stop()
		c.Node(1).Stop()
		assert.Equal(t, held.Value(), c.Holder("a"), "what stopped nodes have counts")
		assert.NotEqual(t, pool.Up, l.Stats().Nodes[0].State)
		assert.Equal(t, pool.Up, l.Stats().Nodes[2].State)
		_, err := l.TryLock(t.Context(), "b")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "connection refused")

		c.Node(0).Start()
		c.Node(1).Start()
		_, err = l.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, held.Verify(t.Context()))
	})
}

func TestAStoppedNodesKeysExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1)
		held := lock(t, c.Locker(t), "a", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		c.Node(0).Stop()
		assert.Equal(t, held.Value(), c.Holder("a"))
		time.Sleep(time.Second + 2*time.Millisecond)
		assert.Empty(t, c.Holder("a"))
	})
}

func TestARestartEndsStopAndPauseAndALockWithAMajority(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		l := c.Locker(t, patiently()...)
		held := lock(t, l, "a")
		c.Node(0).Pause()
		c.Node(0).Stop()
		c.Node(0).Restart()
		c.Node(1).Restart()
		assert.Empty(t, c.Holder("a"))
		<-held.Done()
		require.ErrorIs(t, held.Err(), redlock.ErrLost)
		assert.Equal(t, pool.Up, l.Stats().Nodes[0].State)
		assert.Positive(t, l.Stats().Nodes[0].QuarantinedFor)
		assert.Equal(t, 3, votes(t, c.Locker(t, patiently(redlock.WithQuarantine(redlock.QuarantineOff))...)))
	})
}

func TestAPausedNodeAnswersWhenItResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		l := c.Locker(t, redlock.WithNodeTimeout(20*time.Millisecond))
		c.Node(0).Pause()
		held := lock(t, l, "a")
		assert.Equal(t, held.Value(), c.Holder("a"))
		c.Node(1).Pause()
		_, err := l.TryLock(t.Context(), "b")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, pool.ErrTimeout)

		c.Node(0).Resume() // and takes the lock "a" now
		c.Node(1).Resume()
		assert.Equal(t, 3, votes(t, l))
		require.NoError(t, held.Verify(t.Context()))
	})
}

func TestALockerStartsBesidePausedAndStoppedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		c.Node(1).Stop()
		c.Node(2).Pause()
		lock(t, c.Locker(t), "a")
		c.Node(3).Delay(time.Hour)
		_, err := c.Locker(t).TryLock(t.Context(), "b")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestADelayIsTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		l := c.Locker(t)
		for i := range 3 {
			c.Node(i).Delay(25*time.Millisecond + 1)
		}
		began := time.Now()
		held := lock(t, l, "a")
		assert.Equal(t, 25*time.Millisecond+1, time.Since(began))
		for i := range 3 {
			c.Node(i).Delay(0)
		}
		began = time.Now()
		require.NoError(t, held.Verify(t.Context()))
		assert.Zero(t, time.Since(began))
	})
}

func TestExpireEndsALockEverywhere(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		l := c.Locker(t, patiently(redlock.WithKeyPrefix("app:"))...)
		held := lock(t, l, "a", redlock.WithOwner("me"))
		other := lock(t, l, "b")
		c.Node(0).Stop()
		c.Node(1).Pause()
		assert.Empty(t, c.Holder("a"))
		assert.Equal(t, held.Value(), c.Holder("app:a"))
		c.Expire("app:a")
		assert.Empty(t, c.Holder("app:a"))
		assert.Equal(t, other.Value(), c.Holder("app:b"))
		c.Node(1).Resume()
		c.Node(0).Start()
		require.ErrorIs(t, held.Verify(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, held.Err(), redlock.ErrLost)
	})
}

func TestAWaiterFindsOutThatALockExpired(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		lock(t, c.Locker(t, patiently()...), "a", redlock.WithoutRenewal())
		l := c.Locker(t, patiently()...)
		got := make(chan error)
		go func() {
			_, err := l.Lock(context.Background(), "a")
			got <- err
		}()
		require.Eventually(t, func() bool { return l.Stats().Waiting == 1 }, 10*time.Second, time.Millisecond)
		c.Expire("a")
		require.NoError(t, <-got)
	})
}

func TestHolderIsWhatAMajorityHas(t *testing.T) {
	c := redlocktest.Start(t, 4)
	assert.Empty(t, c.Holder("a"))
	held := lock(t, c.Locker(t, patiently()...), "a")
	assert.Equal(t, held.Value(), c.Holder("a"))

	c.Node(3).Stop()
	held = lock(t, c.Locker(t, patiently()...), "b")
	assert.Equal(t, held.Value(), c.Holder("b"))
	c.Node(0).Restart()
	assert.Empty(t, c.Holder("b"), "two of four are no majority")
}
