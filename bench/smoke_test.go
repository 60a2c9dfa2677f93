package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// What follows does a little of each benchmark, so one that broke is found before it is needed.

// backends are those that there are here.
func backends() map[string]func(testing.TB, int) *cluster {
	all := map[string]func(testing.TB, int) *cluster{"miniredis": newInProcess}
	if redistest.Available() {
		all["redis"] = newCluster
	}
	return all
}

// eventually does something with times that an idle machine keeps, then with longer ones, until it
// succeeds or they are so long that it has to.
func eventually(t *testing.T, once func(d time.Duration) error) {
	t.Helper()
	const first, longest = 400 * time.Millisecond, 25 * time.Second
	for d := first; ; d *= 4 {
		err := once(d)
		if err == nil {
			return
		}
		require.Less(t, d, longest, "%v", err)
		t.Logf("within %v: %v", d, err)
	}
}

func TestEveryOperationIsMeasured(t *testing.T) {
	t.Parallel()
	for backend, start := range backends() {
		for i, s := range scenarios {
			t.Run(fmt.Sprintf("%s/%s/%d", backend, s.benchmark, i), func(t *testing.T) {
				t.Parallel()
				var options []redlock.Option
				if s.fault == stopped { // the others may stand still for as long as this machine does
					options = append(options, redlock.WithNodeTimeout(2*time.Second))
				}
				locker := s.start(t, start(t, s.nodes), options...)
				for _, goroutines := range s.goroutines {
					performFew(t, s.operation, locker, goroutines)
				}
			})
		}
	}
	t.Run("in turns", func(t *testing.T) {
		t.Parallel()
		locker := newCluster(t, 5).locker(t, redlock.WithNodeTimeout(patience))
		for _, do := range []operation{fencedLockUnlock, permitUnlock, readUnlock} {
			performFew(t, do, locker, 1)
		}
	})
}

func performFew(t *testing.T, do operation, locker *redlock.Locker, goroutines int) {
	t.Helper()
	goroutines = min(goroutines, 8) // miniredis takes a millisecond per script
	before := locker.Stats()
	operations := goroutines + 10 // some goroutine does more than one
	took := make([]time.Duration, operations)
	require.NoError(t, perform(t.Context(), do, locker, goroutines, operations, took))

	after := locker.Stats()
	rounds := after.Acquired + after.Taken - before.Acquired - before.Taken
	assert.EqualValues(t, operations, rounds, "rounds that were won or refused")
	assert.Equal(t, before.Held, after.Held, "locks held")
	assert.Positive(t, slices.Min(took), "the shortest operation")
}

func TestPerformReturnsTheErrorOfAnOperationAndStops(t *testing.T) {
	broken := errors.New("broken")
	do := func(_ context.Context, _ *redlock.Locker, name string) error {
		if name == names[7] {
			return broken
		}
		return nil
	}
	took := make([]time.Duration, 100)
	require.ErrorIs(t, perform(t.Context(), do, nil, 1, len(took), took), broken)
	assert.Zero(t, took[8], "the operation after the failed one")
}

// Reports that two held the name at once are errors of Run.
func TestContendersExcludeEachOtherAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for _, kind := range contended {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := kind.scenario
			s.Servers, s.Processes, s.Goroutines = startContention(t), 2, 6
			s.TTL, s.Patience = maxTTL, patience
			s.Hold = time.Millisecond // two holders at once are sure to be seen
			eventually(t, func(d time.Duration) error {
				s.WarmUp, s.Window = d/8, d
				r, err := s.Run()
				require.NoError(t, err)
				assert.Zero(t, r.UnlockErrors, r.UnlockError)
				if kind.name == "mutex" { // of the others, some go by themselves
					assert.Zero(t, r.KeysLeft)
				}
				assert.Zero(t, r.Counters["lost"])
				if r.MinProcessShare == 0 || r.Commands == 0 || r.Counters["acquired"] == 0 {
					return fmt.Errorf("a process had nothing: %+v", r)
				}
				return nil
			})
		})
	}
}

func TestNameOfAKilledHolderIsAcquiredAgain(t *testing.T) {
	t.Parallel()
	for _, mutex := range []string{"redquorum", "election"} {
		t.Run(mutex, func(t *testing.T) {
			t.Parallel()
			c := contention.Crash{Mutex: mutex, Servers: startContention(t), Waiters: 2, Kills: 2, Settle: 10 * time.Millisecond}
			eventually(t, func(ttl time.Duration) error {
				c.TTL = ttl
				r, err := c.Run()
				if err != nil { // the holder may lose what it cannot renew in time
					return err
				}
				assert.Len(t, r.Late, 2)
				assert.Len(t, r.Commands, 2*2, "of each waiter and kill")
				return nil
			})
			for _, server := range c.Servers {
				keys, err := server.Keys()
				require.NoError(t, err)
				assert.Empty(t, keys)
			}
		})
	}
}

// smokeLocks are more than a Locker may have goroutines. They are few because miniredis takes
// milliseconds to release one under the race detector, and has no more than the TTL for all.
const smokeLocks = 150

// It counts goroutines, so no other test may run beside it.
func TestHoldingIsMeasured(t *testing.T) {
	for backend, start := range backends() {
		t.Run(backend, func(t *testing.T) {
			eventually(t, func(ttl time.Duration) error {
				c := start(t, holdNodes)
				h := startHolding(t, c, smokeLocks, redlock.WithTTL(ttl), redlock.WithNodeTimeout(patience))
				for long := ttl / 2; h.renewals < smokeLocks && h.locker.Stats().Lost == 0; long += ttl / 4 {
					h.hold(long)
				}
				keys := c.keysLeft(t)
				if err := h.end(); err != nil {
					return err
				}
				assert.GreaterOrEqual(t, keys, (holdNodes/2+1)*smokeLocks, "keys while the locks are held")
				assert.Zero(t, c.keysLeft(t), "keys after Close, %d calls without an answer", h.nodeTimeouts())
				// Not an exact number: goroutines of an earlier test may have ended meanwhile.
				assert.GreaterOrEqual(t, h.goroutines, holdNodes, "goroutines")
				assert.GreaterOrEqual(t, h.held, ttl/2)
				assert.Positive(t, h.heapPerLock)
				assert.Positive(t, h.acquiring)
				assert.Positive(t, h.closing)
				assert.Equal(t, contention.Supported, h.cpu > 0)
				return nil
			})
		})
	}
}

// A run that lost locks does not pass for one that did not.
func TestLostLocksEndTheBenchmark(t *testing.T) {
	t.Parallel()
	c := newInProcess(t, 3)
	h := startHolding(t, c, 10, redlock.WithTTL(time.Second), redlock.WithNodeTimeout(patience))
	for _, m := range c.Masters {
		m.(masters.Embedded).SetError("LOADING as after a restart")
	}
	masters.Eventually(t, time.Minute, func() string {
		if h.locker.Stats().Lost == 0 {
			return "a lock that was lost"
		}
		return ""
	})
	for _, m := range c.Masters {
		m.(masters.Embedded).SetError("")
	}
	assert.ErrorContains(t, h.end(), "lost")
}

// BenchmarkWaiting itself judges what is left. It counts goroutines, so no other test may run
// beside this one.
func TestWaitersLeaveNothingBehind(t *testing.T) {
	redistest.Require(t)
	const n = 200
	w := measureWaiting(t, newCluster(t, contentionNodes), n, 20, 300*time.Millisecond)
	assert.Equal(t, n, w.callers, "everyone was waiting")
	assert.Positive(t, w.heap)
	assert.Positive(t, w.library)
	assert.Positive(t, w.leaving)
}
