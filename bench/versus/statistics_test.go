package versus

import (
	"slices"
	"testing"
	"time"
)

func extremes(values []float64) (low, high float64) { return slices.Min(values), slices.Max(values) }

func TestPercentileCountsFromTheShortest(t *testing.T) {
	for _, c := range []struct {
		n, permille int
		want        time.Duration
	}{{1, 500, 1}, {1, 990, 1}, {3, 500, 2}, {100, 990, 99}, {101, 990, 100}, {1000, 999, 999}, {1001, 999, 1000}} {
		sorted := make([]time.Duration, c.n)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		if got := percentile(sorted, c.permille); got != c.want {
			t.Errorf("%d per mille of 1..%d: got %d, want %d", c.permille, c.n, got, c.want)
		}
	}
}

func TestQuotaHandsOutEveryLockOnce(t *testing.T) {
	q := newQuota(10)
	for _, want := range []struct{ first, count int }{{0, 4}, {4, 4}, {8, 2}, {12, 0}} {
		first, count := q.take(4)
		if count != want.count || (count > 0 && first != want.first) {
			t.Errorf("got %d locks from %d, want %d from %d", count, first, want.count, want.first)
		}
	}
}

func TestBestIsByTheMedianAndTheSense(t *testing.T) {
	r := newReport([]contestant{{kind: ours}, {kind: redsyncs}, {kind: redsyncs}, {kind: limit}})
	for i, locks := range []int{9, 1, 3, 7} {
		r.add(i, manyGoroutines, sample{locks: locks, elapsed: time.Second, allocs: 100})
	}
	for _, c := range []struct {
		of   measurement
		kind kind
		want int
	}{
		{throughput, redsyncs, 2},
		{throughput, limit, 3},
		{allocsMany, redsyncs, 2},
		// As if less were better.
		{measurement{samples: ofMany, value: throughput.value}, redsyncs, 1},
	} {
		if got := r.best(target{measurement: c.of}, c.kind); got != c.want {
			t.Errorf("%s: got %d, want %d", c.of.title, got, c.want)
		}
	}
}
