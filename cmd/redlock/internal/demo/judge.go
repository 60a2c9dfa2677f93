package demo

import (
	"cmp"
	"slices"
	"time"
)

// overlap is two holds that were held at the same time.
type overlap struct{ first, second hold }

// findOverlaps returns each hold that began before an earlier one had ended, with the earlier one
// that ended last. Holds that touch do not overlap, and an empty hold overlaps nothing.
func findOverlaps(holds []hold) []overlap {
	sorted := slices.DeleteFunc(slices.Clone(holds), func(h hold) bool { return h.ended <= h.began })
	slices.SortFunc(sorted, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.ended, b.ended))
	})
	var found []overlap
	var last hold // the one that ends last
	for i, h := range sorted {
		if i > 0 && h.began < last.ended {
			found = append(found, overlap{last, h})
		}
		if i == 0 || h.ended > last.ended {
			last = h
		}
	}
	return found
}

// orderSlack is how close two requests may be to count as simultaneous: which of them reaches the
// nodes first is open.
const orderSlack = 10 * time.Millisecond

// countInTurn returns how many of the holds began when nobody was waiting who had asked earlier.
func countInTurn(holds []hold, waiting []wait) (inTurn int) {
	for _, h := range holds {
		before := func(asked time.Duration) bool { return asked < h.asked-orderSlack }
		overtook := slices.ContainsFunc(holds, func(g hold) bool { return before(g.asked) && g.began > h.began }) ||
			slices.ContainsFunc(waiting, func(w wait) bool { return before(w.asked) })
		if !overtook {
			inTurn++
		}
	}
	return inTurn
}

// waits are the waiting times of some holds.
type waits []time.Duration

// waitsOf returns the waits of the holds that began in [from, to).
func waitsOf(holds []hold, from, to time.Duration) (ws waits) {
	for _, h := range holds {
		if from <= h.began && h.began < to {
			ws = append(ws, h.waited())
		}
	}
	return ws
}

func (ws waits) mean() time.Duration {
	var sum time.Duration
	for _, w := range ws {
		sum += w
	}
	return sum / time.Duration(max(len(ws), 1))
}

// percentile returns the smallest wait that at least percent of the waits do not exceed (nearest
// rank); 0 if there are none. Percent is from 1 to 100.
func (ws waits) percentile(percent int) time.Duration {
	if len(ws) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ws))
	rank := (percent*len(sorted) + 99) / 100
	return sorted[rank-1]
}
