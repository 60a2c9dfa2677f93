package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// scenario is what a benchmark measures: an operation, on servers in a certain state.
type scenario struct {
	name       string // among the benchmark's scenarios; empty if the nodes tell them apart
	nodes      int
	fault      fault // of a minority of the servers
	faulty     int   // how many have it
	goroutines []int
	operation  func(ctx context.Context, locker *redlock.Locker, name string) error
	prepare    func(tb testing.TB, locker *redlock.Locker) // nil if there is nothing to prepare
}

// benchmarks has the scenarios of every benchmark by its name, so the test runs what the benchmarks
// measure.
var benchmarks = map[string][]scenario{
	"TryLock": {
		{nodes: 1, goroutines: []int{1, 64, 256}, operation: lockUnlock},
		{nodes: 3, goroutines: []int{1, 64, 256}, operation: lockUnlock},
		{nodes: 5, goroutines: []int{1, 64, 256}, operation: lockUnlock},
		{nodes: 9, goroutines: []int{1, 64, 256}, operation: lockUnlock},
	},
	"Taken": {
		{nodes: 5, goroutines: []int{1, 256}, operation: refused, prepare: hold},
	},
	"MinorityDown": {
		{name: string(stopped), nodes: 5, fault: stopped, faulty: 2, goroutines: []int{1, 256}, operation: lockUnlock},
		{name: string(killed), nodes: 5, fault: killed, faulty: 2, goroutines: []int{1, 256}, operation: lockUnlock},
	},
}

// lockUnlock acquires and releases the lock. Nobody else wants it.
func lockUnlock(ctx context.Context, locker *redlock.Locker, name string) error {
	lock, err := locker.TryLock(ctx, name)
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// takenName is the lock that refused asks for and hold holds.
const takenName = "bench/taken"

// refused asks for a lock that is held.
func refused(ctx context.Context, locker *redlock.Locker, _ string) error {
	_, err := locker.TryLock(ctx, takenName)
	switch {
	case err == nil:
		return errors.New("a lock that is held was granted")
	case errors.Is(err, redlock.ErrTaken):
		return nil
	default:
		return err
	}
}

// maxTTL is the longest TTL that a Locker accepts by default.
const maxTTL = time.Minute

// hold holds the lock for the longest TTL there is, which is longer than any benchmark of a few
// seconds.
func hold(tb testing.TB, locker *redlock.Locker) {
	tb.Helper()
	lock, err := locker.TryLock(tb.Context(), takenName, redlock.WithTTL(maxTTL))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := lock.Unlock(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("the lock did not last until the end: %v", err)
		}
	})
}

// patience is the node timeout if every node answers or is known to be down. With the default of
// half a second, a machine that is busy with something else for that long would fail the benchmark.
// It changes nothing that is measured.
const patience = 10 * time.Second

// options returns the options of the Locker. If a timeout matters, they are a user's: none.
func (s *scenario) options() []redlock.Option {
	if s.fault == stopped {
		return nil
	}
	return []redlock.Option{redlock.WithNodeTimeout(patience)}
}

// title names the scenario, without the goroutines.
func (s *scenario) title(c *cluster) string {
	title := fmt.Sprintf("backend=%s/nodes=%d", c.backend, s.nodes)
	if s.name != "" {
		title += "/minority=" + s.name
	}
	return title
}
