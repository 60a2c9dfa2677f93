package redlock

// census is the second look at the nodes of a new cluster. The first is what each of them said when
// it was met. Had one look been enough, a client with an old view of four nodes and a fresh one of
// the fifth, which has forgotten a lock since, would make that one active; with two, there was a
// moment between them in which all were new, so no lock rests on what any of them remembers.
type census struct {
	out   int  // that have not answered
	equal bool // so far, all say what they said before
}

// startCensusLocked begins the second look, where all nodes are new by the first and nothing is
// under way.
func (e *electorate) startCensusLocked() {
	if e.mode != QuarantineAuto || e.census != nil || e.stopped {
		return
	}
	now := e.clock.Now()
	for i := range e.standings {
		switch n := &e.standings[i]; {
		case !n.met || n.twin >= 0 || n.asking != nil || n.err != nil || !n.server.fits(n.marker):
			return
		case now < n.objections:
			return // retryAt is not later
		case n.phase != phaseQuarantined || n.marker.state != markerNew || n.known != "":
			return
		}
	}
	e.census = &census{out: len(e.standings), equal: true}
	for i := range e.standings {
		e.standings[i].retryAt = never
		e.sendLocked(i, nil, e.census)
	}
}

// endCensusLocked makes the nodes of a new cluster active, if all said again what they had said.
// Otherwise some are active by now, others will be in a moment, and are looked at again.
func (e *electorate) endCensusLocked() {
	equal := e.census.equal
	e.census = nil
	for i := range e.standings {
		n := &e.standings[i]
		switch {
		case n.phase != phaseQuarantined || n.asking != nil:
		case equal:
			e.sendLocked(i, &swap{begin: wordActive, rest: n.marker.rest()}, nil)
		default:
			n.retryAt = min(n.retryAt, e.clock.Now().Add(n.pause.Next()))
			n.looks++
		}
	}
}
