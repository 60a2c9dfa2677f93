package main

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
)

var (
	errOverlap         = errors.New("a lock had two holders at once")
	errNothingAcquired = errors.New("no lock was acquired")
)

// report is what came of a demo.
type report struct {
	nodes       int
	embedded    bool
	elapsed     time.Duration
	interrupted bool
	names       int
	counts      counts
	changes     []change
	phases      []phase
	waits       []time.Duration // of Lock, where it was had
	validity    []time.Duration // left at each release
	holds       int
	overlaps    []overlap
	errors      []string
}

// phase is the time between two changes of the nodes.
type phase struct {
	from, to time.Duration
	up       int // nodes
	acquired int
	waits    []time.Duration
}

// newReport judges what the recorder took down. The recorder must not be in use any more.
func newReport(r *recorder, start clock.Instant, elapsed time.Duration, nodes int, changes []change) report {
	rep := report{
		nodes: nodes, elapsed: elapsed, names: len(r.names), counts: r.counts, changes: changes,
		validity: r.validity, holds: len(r.holds), overlaps: findOverlaps(r.holds), errors: r.errors,
	}
	rep.phases = splitPhases(changes, elapsed, nodes)
	for _, h := range r.holds {
		p := phaseAt(rep.phases, h.began.Sub(start))
		p.acquired++
		if h.waited {
			p.waits = append(p.waits, h.wait)
			rep.waits = append(rep.waits, h.wait)
		}
	}
	return rep
}

// splitPhases cuts a run at the changes that came about.
func splitPhases(changes []change, total time.Duration, nodes int) []phase {
	phases := []phase{{up: nodes}}
	for _, c := range changes {
		if c.err != nil {
			continue
		}
		last := &phases[len(phases)-1]
		last.to = c.at
		up := last.up - 1
		if c.up {
			up = last.up + 1
		}
		phases = append(phases, phase{from: c.at, up: up})
	}
	last := &phases[len(phases)-1]
	last.to = max(total, last.from)
	return phases
}

// phaseAt returns the last phase that had begun by then.
func phaseAt(phases []phase, at time.Duration) *phase {
	i := len(phases) - 1
	for i > 0 && phases[i].from > at {
		i--
	}
	return &phases[i]
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

// err is the verdict: nil where locks were acquired and no two holds of one overlapped.
func (r *report) err() error {
	switch {
	case len(r.overlaps) > 0:
		return errOverlap
	case r.counts.acquired == 0:
		return errNothingAcquired
	default:
		return nil
	}
}
