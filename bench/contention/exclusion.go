package contention

import (
	"cmp"
	"fmt"
	"slices"
)

// Holder is a goroutine of a process.
type Holder struct{ Process, Goroutine int }

// Interval runs from when a holder had acquired the name until it began to release it. The end is
// not part of it.
type Interval struct {
	Holder
	Acquired, Released Instant
}

// OverlapError means that two held the name at once.
type OverlapError struct{ First, Second Interval }

// Error tells who held the name, and for how long both did.
func (e *OverlapError) Error() string {
	both := min(e.First.Released, e.Second.Released).Sub(e.Second.Acquired)
	return fmt.Sprintf("contention: exclusion failed for %v: %+v and %+v both held the name", both, e.First, e.Second)
}

// sortIntervals sorts intervals by when the name was acquired.
func sortIntervals(intervals []Interval) {
	slices.SortFunc(intervals, func(a, b Interval) int {
		return cmp.Or(cmp.Compare(a.Acquired, b.Acquired), cmp.Compare(a.Released, b.Released))
	})
}

// checkExclusion returns an *OverlapError if one of the sorted intervals began before an earlier
// one had ended. Intervals that touch do not overlap, and neither does an empty one.
func checkExclusion(sorted []Interval) error {
	var last Interval // the last one that is not empty
	for _, next := range sorted {
		if next.Released <= next.Acquired {
			continue
		}
		if next.Acquired < last.Released {
			return &OverlapError{First: last, Second: next}
		}
		last = next // it ends last so far, because it began when the others had ended
	}
	return nil
}
