package demo

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

var (
	errOverlap         = errors.New("a lock had two holders at once")
	errNothingAcquired = errors.New("no lock was acquired")
	errStalePassed     = errors.New("the store accepted a write with a stale token")
	errWronged         = errors.New("the store rejected a write of the lock's holder")
	errNotLost         = errors.New("the stopped holder did not lose the lock")
	errNoLateWrite     = errors.New("the stopped holder never made its late write")
)

// report is the result of a demo.
type report struct {
	trace
	embedded    bool
	interrupted bool
	ttl         time.Duration
	handedOver  uint64 // summed over all Lockers
	polls       uint64
	phases      []phase
	inTurn      int
	overlaps    []overlap
}

// newReport judges a finished trace.
func newReport(t trace) report {
	return report{
		trace: t, phases: splitPhases(t.changes, t.elapsed, t.nodes),
		inTurn: countInTurn(t.holds, t.waiting), overlaps: findOverlaps(t.holds),
	}
}

// add adds the counts of one Locker.
func (r *report) add(s redlock.Stats) {
	r.handedOver += s.HandedOver
	r.polls += s.Polls
}

// fewest returns the phase in which the fewest nodes were up.
func (r *report) fewest() phase {
	least := r.phases[0]
	for _, p := range r.phases {
		if p.up < least.up {
			least = p
		}
	}
	return least
}

// successor returns the hold that followed when the stopped worker had lost the lock.
func (r *report) successor() (next hold, found bool) {
	for _, h := range r.holds {
		if r.stop.lost > 0 && h.worker != r.stop.worker && h.began >= r.stop.lost {
			return h, true
		}
	}
	return hold{}, false
}

// calm reports whether no worker met an unexpected error. Unconfirmed releases are reported
// separately.
func (r *report) calm() bool { return r.failed+r.lost+r.wronged == 0 }

// err is the verdict: nil if all went as it should. A demo that was ended early is not blamed for
// what it did not get to.
func (r *report) err() error {
	stop := &r.stop
	switch {
	case len(r.overlaps) > 0:
		return errOverlap
	case stop.passed:
		return errStalePassed
	case r.wronged > 0:
		return errWronged
	case len(r.holds) == 0:
		return errNothingAcquired
	case stop.wrote > 0 && !errors.Is(stop.err, redlock.ErrLost):
		return errNotLost
	case stop.wrote == 0 && !r.interrupted:
		return errNoLateWrite
	default:
		return nil
	}
}

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
