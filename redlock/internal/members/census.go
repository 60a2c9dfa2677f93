package members

import "github.com/redquorum/redquorum/redlock/internal/wire"

// census is the second look at the nodes of a new cluster. The first is what each of them said when
// it was met. Had one look been enough, a client with an old knowledge of four nodes and a fresh one of
// the fifth, which has forgotten a lock since, would make that one active; with two, there was a
// moment between them in which all were new, so no lock rests on what any of them remembers.
type census struct {
	out   int  // that have not answered
	equal bool // so far, all say what they said before
}

// startCensusLocked begins the second look, where all nodes are new by the first and nothing is
// under way.
func (ms *Membership) startCensusLocked() {
	if ms.mode != Auto || ms.census != nil || ms.stopped {
		return
	}
	now := ms.clock.Now()
	for i := range ms.members {
		switch n := &ms.members[i]; {
		case !n.met || n.duplicate >= 0 || n.asking != nil || n.err != nil || !n.server.fits(n.marker):
			return
		case now < n.objections:
			return // retryAt is not later
		case n.phase != phaseQuarantined || n.marker.state != markerNew || n.known != "":
			return
		}
	}
	ms.census = &census{out: len(ms.members), equal: true}
	for i := range ms.members {
		ms.members[i].retryAt = never
		ms.sendLocked(i, nil, ms.census)
	}
}

// endCensusLocked makes the nodes of a new cluster active, if all said again what they had said.
// Otherwise some are active by now, others will be in a moment, and are looked at again.
func (ms *Membership) endCensusLocked() {
	equal := ms.census.equal
	ms.census = nil
	for i := range ms.members {
		n := &ms.members[i]
		switch {
		case n.phase != phaseQuarantined || n.asking != nil:
		case equal:
			ms.sendLocked(i, &wire.Swap{Begin: wordActive, Rest: n.marker.rest()}, nil)
		default:
			n.retryAt = min(n.retryAt, ms.clock.Now().Add(n.pause.Next()))
			n.looks++
		}
	}
}
