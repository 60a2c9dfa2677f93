package versus

import (
	"slices"
	"testing"
	"time"
)

// median returns the middle value, or the mean of the two middle ones. There is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

func extremes(values []float64) (low, high float64) { return slices.Min(values), slices.Max(values) }

// divide divides each value by the one of the same round.
func divide(values, by []float64) []float64 {
	quotients := make([]float64, len(values))
	for i := range values {
		quotients[i] = values[i] / by[i]
	}
	return quotients
}

func TestMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 6}, 5.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentileCountsFromTheShortest(t *testing.T) {
	for _, c := range []struct {
		n, p int
		want time.Duration
	}{{1, 50, 1}, {1, 99, 1}, {3, 50, 2}, {100, 99, 99}, {101, 99, 100}} {
		sorted := make([]time.Duration, c.n)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		if got := percentile(sorted, c.p); got != c.want {
			t.Errorf("p%d of 1..%d: got %d, want %d", c.p, c.n, got, c.want)
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
