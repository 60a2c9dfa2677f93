package main

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/clock"
)

func at(name string, worker int, began, ended clock.Instant) hold {
	return hold{name: name, worker: worker, began: began, ended: ended}
}

func TestJudgeFindsOverlaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []hold
		want  [][2]int // workers, first and second
	}{
		{"none", nil, nil},
		{"one", []hold{at("a", 1, 0, 10)}, nil},
		{"one after the other", []hold{at("a", 1, 0, 10), at("a", 2, 11, 20)}, nil},
		{"touching", []hold{at("a", 1, 0, 10), at("a", 2, 10, 20)}, nil},
		{"other names", []hold{at("a", 1, 0, 10), at("b", 2, 5, 15)}, nil},
		{"partly", []hold{at("a", 1, 0, 10), at("a", 2, 9, 20)}, [][2]int{{1, 2}}},
		{"in any order", []hold{at("a", 2, 9, 20), at("a", 1, 0, 10)}, [][2]int{{1, 2}}},
		{"within", []hold{at("a", 1, 0, 10), at("a", 2, 3, 4)}, [][2]int{{1, 2}}},
		{"the same", []hold{at("a", 1, 0, 10), at("a", 2, 0, 10)}, [][2]int{{1, 2}}},
		{"a long one over two", []hold{at("a", 1, 0, 10), at("a", 2, 1, 2), at("a", 3, 8, 9)}, [][2]int{{1, 2}, {1, 3}}},
		{"over before it began", []hold{at("a", 1, 0, 10), at("a", 2, 5, 5)}, nil},
		{"of the second name", []hold{at("b", 3, 0, 2), at("a", 1, 0, 10), at("b", 4, 1, 3)}, [][2]int{{3, 4}}},
	} {
		var got [][2]int
		for _, o := range findOverlaps(c.holds) {
			got = append(got, [2]int{o.first.worker, o.second.worker})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The twin looks at every instant of a small world: two holders at one of them are an overlap.
func TestJudgeAgreesWithANaiveTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 12
		holds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hold {
			began := rapid.IntRange(0, end).Draw(t, "began")
			return at(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), 0,
				clock.Instant(began), clock.Instant(rapid.IntRange(began, end).Draw(t, "ended")))
		}), 0, 6).Draw(t, "holds")
		want := false
		for instant := range clock.Instant(end) {
			holders := map[string]int{}
			for _, h := range holds {
				if h.began <= instant && instant < h.ended {
					holders[h.name]++
				}
			}
			want = want || holders["a"] > 1 || holders["b"] > 1
		}
		if got := len(findOverlaps(holds)) > 0; got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, c := range []struct {
		values  []time.Duration
		percent int
		want    time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 1, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{2, 1}, 50, 1},
		{[]time.Duration{3, 1, 2}, 50, 2},
		{[]time.Duration{3, 1, 2}, 99, 3},
		{hundred, 1, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := percentile(c.values, c.percent); got != c.want {
			t.Errorf("p%d of %v: got %d, want %d", c.percent, c.values, got, c.want)
		}
	}
}

func TestLostLockIsHeldUntilItsValidityEnded(t *testing.T) {
	for _, c := range []struct {
		began, now clock.Instant
		left       time.Duration
		want       clock.Instant
	}{
		{10, 20, 0, 20},   // a quorum no longer had it
		{10, 20, -3, 17},  // it expired, and was noticed later
		{10, 20, -15, 10}, // it had expired before Lock returned
	} {
		if got := endOfLost(c.began, c.now, c.left); got != c.want {
			t.Errorf("began %d, now %d, left %d: got %d, want %d", c.began, c.now, c.left, got, c.want)
		}
	}
}
