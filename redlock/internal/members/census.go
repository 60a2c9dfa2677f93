package members

import (
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// census is the second read of the nodes of a new cluster; the first is what each of them said when
// it connected. With one read, a client with old knowledge of four nodes and fresh knowledge of the
// fifth, which has forgotten a lock since, would make that one active. With two, there was a moment
// between them in which all were new, so no lock rests on what any of them remembers.
type census struct {
	out   int  // how many have not answered
	equal bool // all answers so far are as in the first read
}

// startCensusLocked starts the second read if all nodes were new in the first and nothing is under
// way.
func (ms *Membership) startCensusLocked() {
	if ms.mode != Auto || ms.census != nil || ms.stopped {
		return
	}
	now := ms.clock.Now()
	for i := range ms.members {
		switch n := &ms.members[i]; {
		case !n.seen || n.duplicate >= 0 || n.asking != nil || n.err != nil || !n.server.Fits(n.marker) || n.unnamed():
			return
		case now < n.objections:
			return // retryAt is no later
		case n.phase != phaseQuarantined || n.marker.State != record.MarkerNew || n.known != "":
			return
		}
	}
	ms.census = &census{out: len(ms.members), equal: true}
	for i := range ms.members {
		ms.members[i].retryAt = never
		ms.sendLocked(i, nil, ms.census)
	}
}

// endCensusLocked makes the nodes of a new cluster active if all answers were the same again.
// Otherwise some nodes are active by now; the others will be in a moment, and are read again.
func (ms *Membership) endCensusLocked() {
	equal := ms.census.equal
	ms.census = nil
	for i := range ms.members {
		n := &ms.members[i]
		switch {
		case n.phase != phaseQuarantined || n.asking != nil:
		case equal:
			ms.sendLocked(i, &wire.Swap{Begin: record.WordActive, Rest: n.marker.Rest()}, nil)
		default:
			n.retryAt = min(n.retryAt, ms.clock.Now().Add(n.pause.Next()))
			n.reads++
		}
	}
}
