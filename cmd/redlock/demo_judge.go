package main

import (
	"cmp"
	"slices"
	"time"
)

// overlap is two holds of one name that were not one after the other.
type overlap struct{ first, second hold }

// findOverlaps returns each hold that began before an earlier one of the same name had ended, with the one of them that ended
// last. Holds that touch do not overlap, and one that was over when it began held nothing.
func findOverlaps(holds []hold) []overlap {
	sorted := slices.DeleteFunc(slices.Clone(holds), func(h hold) bool { return h.ended <= h.began })
	slices.SortFunc(sorted, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.began, b.began), cmp.Compare(a.ended, b.ended))
	})
	var found []overlap
	var last hold // of this name, the one that ends last
	for i, h := range sorted {
		switch {
		case i == 0 || h.name != last.name:
			last = h
			continue
		case h.began < last.ended:
			found = append(found, overlap{last, h})
		}
		if h.ended > last.ended {
			last = h
		}
	}
	return found
}

// percentile returns the smallest of the values that at least percent of them do not exceed (nearest rank); 0 where
// there are none. Percent is from 1 to 100; the values are sorted in place.
func percentile(values []time.Duration, percent int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := (percent*len(values) + 99) / 100
	return values[rank-1]
}

func smallest(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	return slices.Min(values)
}
