package contention

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestIntervalsThatTouchDoNotOverlap(t *testing.T) {
	for _, c := range []struct {
		name      string
		intervals []Interval
		overlap   bool
	}{
		{name: "nobody"},
		{name: "apart", intervals: []Interval{{Acquired: 1, Released: 3}, {Acquired: 5, Released: 6}}},
		{name: "touching", intervals: []Interval{{Acquired: 1, Released: 3}, {Acquired: 3, Released: 6}}},
		{name: "by one", intervals: []Interval{{Acquired: 1, Released: 4}, {Acquired: 3, Released: 6}}, overlap: true},
		{name: "one in the other", intervals: []Interval{{Acquired: 1, Released: 9}, {Acquired: 3, Released: 6}}, overlap: true},
		{name: "the same", intervals: []Interval{{Acquired: 1, Released: 9}, {Acquired: 1, Released: 9}}, overlap: true},
		{name: "without length", intervals: []Interval{{Acquired: 1, Released: 9}, {Acquired: 3, Released: 3}}},
		{
			name:      "behind a shorter one",
			intervals: []Interval{{Acquired: 1, Released: 4}, {Acquired: 4, Released: 5}, {Acquired: 5, Released: 9}, {Acquired: 8, Released: 9}},
			overlap:   true,
		},
	} {
		sortIntervals(c.intervals)
		assert.Equal(t, c.overlap, checkExclusion(c.intervals, 1) != nil, c.name)
	}
}

// TestExclusionAgreesWithLookingAtEveryInstant compares with a count of the holders at every
// instant.
func TestExclusionAgreesWithLookingAtEveryInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		permits := rapid.IntRange(1, 3).Draw(t, "permits")
		intervals := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Interval {
			begin := rapid.IntRange(1, 30).Draw(t, "begin")
			return Interval{
				Read:     rapid.IntRange(0, 3).Draw(t, "read") == 0,
				Acquired: Instant(begin), Released: Instant(begin + rapid.IntRange(0, 4).Draw(t, "length")),
			}
		}), 0, 8).Draw(t, "intervals")
		want := false
		for at := range Instant(40) {
			readers, others := 0, 0
			for _, i := range intervals {
				switch {
				case i.Acquired > at || at >= i.Released:
				case i.Read:
					readers++
				default:
					others++
				}
			}
			want = want || others > permits || (readers > 0 && others > 0)
		}
		sortIntervals(intervals)
		var overlap *OverlapError
		if got := errors.As(checkExclusion(intervals, permits), &overlap); got != want {
			t.Fatalf("overlap: got %v, want %v: %+v", got, want, intervals)
		}
	})
}
