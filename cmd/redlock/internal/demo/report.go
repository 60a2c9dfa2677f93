package demo

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

var (
	errOverlap         = errors.New("a lock had two holders at once")
	errNothingAcquired = errors.New("no lock was acquired")
	errStalePassed     = errors.New("the store took a write with a stale token")
	errWronged         = errors.New("the store refused a write of the lock's holder")
	errNotLost         = errors.New("the stopped holder did not lose the lock")
	errNoLateWrite     = errors.New("the late write of a stopped holder did not come about")
)

// report is what came of a demo.
type report struct {
	trace
	embedded    bool
	interrupted bool
	ttl         time.Duration
	handedOver  uint64 // by all Lockers
	polls       uint64
	phases      []phase
	inTurn      int
	overlaps    []overlap
}

// newReport judges a trace that has ended.
func newReport(t trace) report {
	return report{
		trace: t, phases: splitPhases(t.changes, t.elapsed, t.nodes),
		inTurn: countInTurn(t.holds, t.waiting), overlaps: findOverlaps(t.holds),
	}
}

// add counts what one Locker did.
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

// successor returns who got the lock after the stopped worker had lost it.
func (r *report) successor() (next hold, found bool) {
	for _, h := range r.holds {
		if r.stop.lost > 0 && h.worker != r.stop.worker && h.began >= r.stop.lost {
			return h, true
		}
	}
	return hold{}, false
}

// calm reports whether no worker met anything that it should not have. A release that was not confirmed is told apart.
func (r *report) calm() bool { return r.failed+r.lost+r.wronged == 0 }

// err is the verdict: nil where all went as it should. A demo that was ended early is not blamed for what it did not come to.
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
