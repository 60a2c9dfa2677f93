package demo

import (
	"errors"
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
