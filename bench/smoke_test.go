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
	"github.com/redquorum/redquorum/redlock"
)

// What follows does a little of each benchmark, so one that broke is found before it is needed.

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
	locker := newCluster(t, 5).locker(t)
	hold(t, locker)
	for _, do := range []operation{lockUnlock, refused, fencedLockUnlock, permitUnlock, readUnlock} {
		for _, goroutines := range []int{1, 8} {
			performFew(t, do, locker, goroutines)
		}
	}
}

func performFew(t *testing.T, do operation, locker *redlock.Locker, goroutines int) {
	t.Helper()
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
				r := s.Run(t)
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
			c := contention.Crash{
				Mutex: mutex, Servers: startContention(t), Waiters: 2, Kills: 1, TTL: 2 * time.Second, Settle: 10 * time.Millisecond,
			}
			r := c.Run(t)
			assert.Len(t, r.Late, 1)
			assert.Len(t, r.Commands, 2, "of each waiter")
			for _, server := range c.Servers {
				keys, err := server.Keys()
				require.NoError(t, err)
				assert.Empty(t, keys)
			}
		})
	}
}

// BenchmarkWaiting itself judges what is left. It counts goroutines, so no other test may run
// beside this one.
func TestWaitersLeaveNothingBehind(t *testing.T) {
	const n = 200
	w := measureWaiting(t, newCluster(t, contentionNodes), n, 20, 300*time.Millisecond)
	assert.Positive(t, w.heap)
	assert.Positive(t, w.library)
	assert.Positive(t, w.leaving)
}
