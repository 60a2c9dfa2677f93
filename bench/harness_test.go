package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// TestEveryBenchmarkRuns does a few operations of each, so a benchmark that broke is found before
// it is needed.
func TestEveryBenchmarkRuns(t *testing.T) {
	backends := map[string]func(testing.TB, int) *cluster{"miniredis": newInProcess}
	if redistest.Available() {
		backends["redis"] = newCluster
	} else {
		t.Log("no redis-server in PATH: with miniredis only")
	}
	for _, backend := range slices.Sorted(maps.Keys(backends)) {
		for _, name := range slices.Sorted(maps.Keys(benchmarks)) {
			for i := range benchmarks[name] {
				s := &benchmarks[name][i]
				t.Run(fmt.Sprintf("%s/%s/%d", backend, name, i), func(t *testing.T) {
					runOnce(t, s, backends[backend](t, s.nodes))
				})
			}
		}
	}
}

// smokeGoroutines are enough: the test is about the harness, and miniredis takes a millisecond per
// script.
const smokeGoroutines = 8

func runOnce(t *testing.T, s *scenario, c *cluster) {
	t.Helper()
	options := s.options()
	if s.fault == stopped { // the others may stand still for as long as this machine does
		options = append(options, redlock.WithNodeTimeout(2*time.Second))
	}
	locker := c.locker(t, options...)
	if s.prepare != nil {
		s.prepare(t, locker)
	}
	c.inflict(t, s.fault, s.faulty)
	for _, goroutines := range s.goroutines {
		goroutines = min(goroutines, smokeGoroutines)
		before := locker.Stats()
		operations := goroutines + 10 // some goroutine does more than one
		took := make([]time.Duration, operations)
		require.NoError(t, perform(t.Context(), s, locker, goroutines, operations, took))

		after := locker.Stats()
		rounds := after.Acquired + after.Taken - before.Acquired - before.Taken
		assert.EqualValues(t, operations, rounds, "rounds that were won or refused")
		assert.Equal(t, before.Held, after.Held, "locks held")
		assert.Positive(t, slices.Min(took), "the shortest operation")
	}
}

func TestPerformReturnsTheErrorOfAnOperationAndStops(t *testing.T) {
	broken := errors.New("broken")
	s := &scenario{operation: func(_ context.Context, _ *redlock.Locker, name string) error {
		if name == names[7] {
			return broken
		}
		return nil
	}}
	took := make([]time.Duration, 100)
	require.ErrorIs(t, perform(t.Context(), s, nil, 1, len(took), took), broken)
	assert.Zero(t, took[8], "the operation after the failed one")
}

func TestPercentileCountsFromTheShortest(t *testing.T) {
	for _, c := range []struct {
		n, p int
		want time.Duration
	}{
		{1, 50, 1},
		{1, 99, 1},
		{2, 50, 1},
		{3, 50, 2},
		{100, 50, 50},
		{100, 99, 99},
		{100, 100, 100},
		{101, 99, 100},
	} {
		sorted := make([]time.Duration, c.n)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		assert.Equal(t, c.want, percentile(sorted, c.p), "p%d of 1..%d", c.p, c.n)
	}
}
