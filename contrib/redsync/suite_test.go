package redsync_test

// This is a program that was written for redsync v4: TestTheSameProgramRunsOnRedsync runs it on
// redsync itself, with another import and another newRedsync.

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

const (
	masters = 5

	// patience bounds every wait for something that takes milliseconds.
	patience = 20 * time.Second
)

var background = context.Background()

// patient is a Redsync that waits for its masters on a busy machine.
type patient struct{ *redsync.Redsync }

func (p patient) NewMutex(name string, options ...redsync.Option) *redsync.Mutex {
	return p.Redsync.NewMutex(name, append([]redsync.Option{redsync.WithTimeoutFactor(1)}, options...)...)
}

func start(t *testing.T) (*cluster.Cluster, patient) {
	t.Helper()
	c := cluster.Start(t, masters)
	return c, patient{newRedsync(t, c)}
}

// set sets the key on some masters by hand, or deletes it if the value is "".
func set(t *testing.T, masters []cluster.Master, key, value string) {
	t.Helper()
	for _, m := range masters {
		command, arguments := "SET", []any{key, value}
		if value == "" {
			command, arguments = "DEL", []any{key}
		}
		_, err := m.Do(command, arguments...)
		require.NoError(t, err)
	}
}

func requireTaken(t *testing.T, err error, atLeast ...int) {
	t.Helper()
	var taken *redsync.ErrTaken
	require.ErrorAs(t, err, &taken)
	nodes := slices.Sorted(slices.Values(taken.Nodes))
	assert.Subset(t, nodes, atLeast)
	assert.Len(t, slices.Compact(nodes), len(taken.Nodes))
}

// requireDone requires that a call succeeds.
func requireDone(t *testing.T, call func() (bool, error)) {
	t.Helper()
	ok, err := call()
	require.NoError(t, err)
	require.True(t, ok)
}

// requireFailed requires that a call fails with an error.
func requireFailed(t *testing.T, call func() (bool, error), want error) {
	t.Helper()
	ok, err := call()
	require.ErrorIs(t, err, want)
	require.False(t, ok)
}

// requireLost requires that a call fails because the lock is not on the masters.
func requireLost(t *testing.T, call func() (bool, error), atLeast ...int) {
	t.Helper()
	ok, err := call()
	requireTaken(t, err, atLeast...)
	require.False(t, ok)
}

func TestAMutexIsLockedAndUnlocked(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a")
	assert.Equal(t, "a", mutex.Name())
	assert.Empty(t, mutex.Value())
	assert.Zero(t, mutex.Until())

	before := time.Now()
	require.NoError(t, mutex.Lock())
	assert.True(t, mutex.Until().After(before))
	assert.True(t, mutex.Until().Before(time.Now().Add(8*time.Second)))
	assert.GreaterOrEqual(t, c.Holding(t, "a", mutex.Value()), masters/2+1)
	c.AwaitHeldEverywhere(t, "a", mutex.Value())
	requireDone(t, mutex.Valid)

	value := mutex.Value()
	requireDone(t, mutex.Unlock)
	assert.Equal(t, value, mutex.Value())
	cluster.RequireClean(t, c.Masters...)

	requireFailed(t, mutex.Unlock, redsync.ErrLockAlreadyExpired)

	require.NoError(t, mutex.LockContext(background))
	assert.NotEqual(t, value, mutex.Value())
	requireDone(t, func() (bool, error) { return mutex.UnlockContext(background) })
}

func TestALockThatIsTakenIsRefused(t *testing.T) {
	c, rs := start(t)
	holder := rs.NewMutex("a")
	require.NoError(t, holder.Lock())
	c.AwaitHeldEverywhere(t, "a", holder.Value())

	other := rs.NewMutex("a", redsync.WithTries(3), redsync.WithRetryDelay(time.Millisecond))
	requireTaken(t, other.TryLock(), 0, 1, 2, 3, 4)
	requireTaken(t, other.TryLockContext(background), 0, 1, 2, 3, 4)
	requireTaken(t, other.Lock(), 0, 1, 2, 3, 4)
	assert.Empty(t, other.Value())
	assert.Zero(t, other.Until())
	assert.Equal(t, redsync.ErrFailed, rs.NewMutex("a", redsync.WithTries(0)).Lock())
	assert.Equal(t, masters, c.Holding(t, "a", holder.Value()))
}

func TestLockWaitsForTheRelease(t *testing.T) {
	c, rs := start(t)
	holder := rs.NewMutex("a")
	require.NoError(t, holder.Lock())
	tried := make(chan int, 1_000)
	other := rs.NewMutex("a", redsync.WithTries(1_000), redsync.WithRetryDelayFunc(func(tries int) time.Duration {
		tried <- tries
		return 10 * time.Millisecond
	}))
	locked := make(chan error)
	go func() { locked <- other.Lock() }()
	for want := range 3 {
		assert.Equal(t, want+1, <-tried)
	}
	requireDone(t, holder.Unlock)
	require.NoError(t, <-locked)
	assert.GreaterOrEqual(t, c.Holding(t, "a", other.Value()), masters/2+1)
}

func TestTheFunctionForPausesIsCalledAfterEachTryButTheLast(t *testing.T) {
	_, rs := start(t)
	var tried []int
	pause := redsync.WithRetryDelayFunc(func(tries int) time.Duration {
		tried = append(tried, tries)
		return time.Millisecond
	})
	holder := rs.NewMutex("a", pause)
	require.NoError(t, holder.Lock())
	assert.Empty(t, tried)
	requireTaken(t, rs.NewMutex("a", pause, redsync.WithTries(4)).Lock())
	assert.Equal(t, []int{1, 2, 3}, tried)
}

func TestAContextThatEndsEndsTheWait(t *testing.T) {
	_, rs := start(t)
	require.NoError(t, rs.NewMutex("a").Lock())
	ctx, cancel := context.WithCancel(background)
	other := rs.NewMutex("a", redsync.WithRetryDelayFunc(func(int) time.Duration {
		cancel()
		return time.Hour
	}))
	assert.Equal(t, redsync.ErrFailed, other.LockContext(ctx))
}

func TestLockOfAHeldMutexIsRefused(t *testing.T) {
	_, rs := start(t)
	mutex := rs.NewMutex("a", redsync.WithTries(2), redsync.WithRetryDelay(time.Millisecond))
	require.NoError(t, mutex.Lock())
	value := mutex.Value()
	requireTaken(t, mutex.Lock())
	requireTaken(t, mutex.TryLock())
	assert.Equal(t, value, mutex.Value())
	unlocked := make(chan bool)
	go func() { // another goroutine than that of Lock
		ok, err := mutex.Unlock()
		unlocked <- ok && err == nil
	}()
	assert.True(t, <-unlocked)
	require.NoError(t, mutex.Lock())
}

func TestTheQuorumDecides(t *testing.T) {
	c, rs := start(t)
	set(t, c.Masters[:2], "a", "other")
	set(t, c.Masters[:3], "b", "other")
	require.NoError(t, rs.NewMutex("a").TryLock())
	requireTaken(t, rs.NewMutex("b").TryLock(), 0, 1, 2)
	cluster.Eventually(t, patience, func() string {
		if holders := c.Holders(t, "b"); !slices.Equal(holders, []string{"other", "other", "other", "", ""}) {
			return "what was granted to be released"
		}
		return ""
	})
}

func TestTheProgramMakesTheValue(t *testing.T) {
	c, rs := start(t)
	errNoValue := errors.New("no value")
	next := "mine"
	mutex := rs.NewMutex("a", redsync.WithGenValueFunc(func() (string, error) {
		if next == "" {
			return "", errNoValue
		}
		return next, nil
	}))
	require.NoError(t, mutex.Lock())
	assert.Contains(t, mutex.Value(), "mine")
	c.AwaitHeldEverywhere(t, "a", mutex.Value())
	requireDone(t, mutex.Unlock)
	require.NoError(t, mutex.Lock(), "the value before was released")
	second := rs.NewMutex("a", redsync.WithValue("mine"))
	requireDone(t, second.Valid)
	requireDone(t, second.Extend)
	requireDone(t, second.Unlock)
	requireFailed(t, rs.NewMutex("a", redsync.WithValue("mine")).Unlock, redsync.ErrLockAlreadyExpired)
	calls := 0
	require.NoError(t, rs.NewMutex("a").Lock())
	requireTaken(t, rs.NewMutex("a", redsync.WithTries(4), redsync.WithRetryDelay(time.Millisecond),
		redsync.WithGenValueFunc(func() (string, error) {
			calls++
			return "for all tries", nil
		})).Lock())
	assert.Equal(t, 1, calls)

	next = ""
	assert.Equal(t, errNoValue, mutex.Lock())
	assert.Equal(t, errNoValue, mutex.TryLock())
}

func TestTwoOfFiveMastersMayBeAway(t *testing.T) {
	c, rs := start(t)
	for _, m := range c.Masters[3:] {
		require.NoError(t, m.Kill())
	}
	mutex := rs.NewMutex("a")
	require.NoError(t, mutex.Lock())
	requireTaken(t, rs.NewMutex("a").TryLock(), 0, 1, 2)
	requireDone(t, mutex.Extend)
	requireDone(t, mutex.Unlock)
}

func TestWithoutAQuorumTheMastersThatFailedAreNamed(t *testing.T) {
	c, rs := start(t)
	mutex := rs.NewMutex("a")
	require.NoError(t, mutex.Lock())
	for _, m := range c.Masters[:3] {
		require.NoError(t, m.Kill())
	}
	check := func(ok bool, err error) {
		t.Helper()
		assert.False(t, ok)
		var failure *redsync.RedisError
		require.ErrorAs(t, err, &failure)
		assert.Less(t, failure.Node, 3)
		assert.Error(t, failure.Err)
		var taken *redsync.ErrTaken
		assert.False(t, errors.As(err, &taken), "%v", err)
	}
	check(mutex.Extend())
	check(mutex.Valid())
	check(mutex.Unlock())
	check(false, rs.NewMutex("b").TryLock())
	check(false, rs.NewMutex("b", redsync.WithTries(2), redsync.WithRetryDelay(time.Millisecond)).Lock())
}

func TestEveryOptionIsAccepted(t *testing.T) {
	_, rs := start(t)
	mutex := rs.NewMutex("a", redsync.WithExpiry(10*time.Second), redsync.WithTries(5), redsync.WithRetryDelay(time.Millisecond),
		redsync.WithSetNXOnExtend(), redsync.WithDriftFactor(0.02), redsync.WithTimeoutFactor(0.1), redsync.WithFailFast(true),
		redsync.WithShufflePools(true), redsync.OptionFunc(func(m *redsync.Mutex) { assert.Equal(t, "a", m.Name()) }))
	require.NoError(t, mutex.Lock())
	assert.True(t, mutex.Until().Before(time.Now().Add(9_800*time.Millisecond)))
	requireDone(t, mutex.Extend)
	requireDone(t, mutex.Unlock)
}

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
