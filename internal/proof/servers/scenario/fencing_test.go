package scenario_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// skewedClock is a clock whose wall clock is wrong.
type skewedClock struct {
	clock.Clock
	by time.Duration
}

func (s *skewedClock) Wall() time.Time { return s.Clock.Wall().Add(s.by) }

// fenced locks and unlocks, and returns the token. On a busy machine a lock may expire before it is
// released. Its token counts nevertheless.
func fenced(t *testing.T, l *redlock.Locker, name string) int64 {
	t.Helper()
	lock, err := l.Lock(t.Context(), name)
	require.NoError(t, err)
	if err := lock.Unlock(t.Context()); !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
		require.NoError(t, err)
	}
	return lock.Fence()
}

// forgetFences deletes the counters, which outlive their locks.
func forgetFences(t *testing.T, masters []cluster.Master) {
	t.Helper()
	for _, m := range masters {
		do(t, m, "FLUSHALL")
	}
}

func TestTokensGrowWhateverTheClientsClocksSay(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	name := cluster.LockName(t)
	right := cluster.NewConnected(t, c.URLs(), redlock.WithFencing(), redlock.WithNodeTimeout(patience))
	for _, by := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		wrong := cluster.NewConnected(t, c.URLs(), redlock.WithFencing(), redlock.WithNodeTimeout(patience), redlock.WithClock(&skewedClock{clock.System(), by}))
		last := int64(0)
		for range 20 {
			for _, l := range []*redlock.Locker{wrong, right, right, wrong, wrong} {
				token := fenced(t, l, name)
				require.Greater(t, token, last, "a clock is off by %v", by)
				last = token
			}
		}
		assert.Less(t, time.Until(time.UnixMicro(last)), time.Minute, "a wrong clock does not carry the counters away")
	}
	forgetFences(t, c.Masters)
}

// One node after another is killed and comes back without its counter. Quarantine keeps it out for
// longer than a round takes, even on a busy machine, plus the difference of the clocks.
func TestTokensGrowWhenNodesLoseTheirCounters(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	name := cluster.LockName(t)
	const maxTTL, skew = 1500 * time.Millisecond, 100 * time.Millisecond
	opts := []redlock.Option{
		redlock.WithFencing(), redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL), redlock.WithNodeTimeout(maxTTL / 2),
	}
	ahead := cluster.NewConnected(t, c.URLs(), append(opts, redlock.WithClock(&skewedClock{clock.System(), skew}))...)
	behind := cluster.NewConnected(t, c.URLs(), append(opts, redlock.WithClock(&skewedClock{clock.System(), -skew}))...)
	last := int64(0)
	grow := func() {
		for _, l := range []*redlock.Locker{ahead, behind, ahead, behind} {
			token := fenced(t, l, name)
			require.Greater(t, token, last)
			last = token
		}
	}
	for _, m := range c.Masters[:sizeOf(t, 3, 5)] { // a majority
		grow()
		must(t, m.Kill())
		grow()
		must(t, m.Restart())
		for end := time.Now().Add(maxTTL + 500*time.Millisecond); time.Now().Before(end); {
			grow()
		}
	}
	forgetFences(t, c.Masters)
}

func TestTokensAreSharedByTheProcessesThatWait(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	name := cluster.LockName(t)
	var lockers []*redlock.Locker
	for range 4 {
		lockers = append(lockers, cluster.NewConnected(t, c.URLs(), redlock.WithFencing(), redlock.WithNodeTimeout(patience)))
	}
	tokens := make(chan int64, 400) // in the order in which the lock was held
	done := make(chan struct{})
	for _, l := range lockers {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 100 {
				lock, err := l.Lock(t.Context(), name)
				if !assert.NoError(t, err) {
					return
				}
				tokens <- lock.Fence()
				assert.NoError(t, lock.Unlock(t.Context()))
			}
		}()
	}
	for range lockers {
		<-done
	}
	close(tokens)
	last, woken := int64(0), uint64(0)
	for token := range tokens {
		require.Greater(t, token, last)
		last = token
	}
	for _, l := range lockers {
		woken += l.Stats().Woken
	}
	assert.Positive(t, woken, "votes were handed over")
	forgetFences(t, c.Masters)
}
