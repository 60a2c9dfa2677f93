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
	Read               bool
	Acquired, Released Instant
}

// OverlapError means that two held the name at once that must not: the second came when the name
// had as many holders as it may have, the first among them.
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

// checkExclusion returns an *OverlapError if, among the sorted intervals, more than permits held
// the name at once, or anything else beside a reader than readers, of which there may be any
// number. Intervals that touch do not overlap, and neither does an empty one.
func checkExclusion(sorted []Interval, permits int) error {
	var holders []Interval // those that have not ended
	for _, next := range sorted {
		if next.Released <= next.Acquired {
			continue
		}
		holders = slices.DeleteFunc(holders, func(i Interval) bool { return i.Released <= next.Acquired })
		if len(holders) > 0 && next.Read != holders[0].Read { // all others are like the first
			return &OverlapError{First: holders[0], Second: next}
		}
		if len(holders) >= permits && !next.Read {
			return &OverlapError{First: holders[0], Second: next}
		}
		holders = append(holders, next)
	}
	return nil
}
