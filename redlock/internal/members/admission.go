package members

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Bounds of asking.
const (
	askTimeout = time.Second // for one answer

	// A marker that keeps a node from voting is looked at again after these pauses, for others may
	// change it: those who make a new cluster active, and people ("redlock init").
	lookMin    = 2 * time.Millisecond
	lookMax    = time.Second
	quickLooks = 8 // the pauses of the first ones are half a second together

	// A server that has been up for long and has no marker was never used before, or its keys were
	// deleted while the connections of those who knew it stay. They find out by their patrols, and
	// have this time to object.
	objectionTime = patrolPause + 2*askTimeout/10

	// How often servers are asked for their marker: while locks are held, and otherwise.
	patrolPause = 800 * time.Millisecond
	patrolRest  = 4500 * time.Millisecond // before the connection would be PINGed as an idle one
)

// admission is a question to a server about its marker, or a change of it.
type admission struct {
	membership *Membership
	node       int
	census     *census // that it is part of; nil for none
	request    pipeline.Request
	call       pipeline.Call
}

// readLocked takes what a node's marker says: now is the server's time, 0 where it did not tell. It
// reports whether the server forgot.
func (ms *Membership) readLocked(i int, text string, now int64) (forgot bool) {
	n := &ms.members[i]
	if n.text != text {
		n.text, n.marker, n.said = text, parseMarker(text), 0
	}
	waits := ms.waitsForOthersLocked(i)
	v := ms.knowledgeLocked(i, now)
	j := n.server.judge(n.marker, v)
	if j.forgot && n.told != n.known {
		n.told = n.known
		ms.epoch++
		n.restarted, forgot = ms.epoch, true
	}
	n.phase = phaseQuarantined
	if j.votes {
		n.phase, n.known, n.until = phaseVoting, n.marker.incarnation, 0
	}
	if waits {
		n.retryAt = ms.clock.Now().Add(n.pause.Next())
		return forgot
	}
	if v.early && n.marker.state == markerActive && n.server.is(n.marker) {
		n.until, n.retryAt = n.trusted, n.trusted
		return forgot
	}
	switch left := time.Duration(max(0, n.due(j)-now)) * time.Millisecond; {
	case j.change == nil:
	case now == 0 || left == 0:
		ms.sendLocked(i, j.change, nil)
	default:
		here := ms.clock.Now()
		n.until = here.Add(left + time.Millisecond) // both times are cut to milliseconds
		n.retryAt = min(n.until, here.Add(n.pause.Next()))
		n.looks++
		if n.marker.state == markerNew && n.identity.RunID != "" && n.identity.Started.Add(ms.maxTTL) < here {
			written := n.until.Add(-time.Duration(n.marker.maxTTL) * time.Millisecond)
			n.objections = written.Add(objectionTime)
			if here < n.objections {
				n.retryAt = min(n.retryAt, n.objections)
			}
		}
	}
	return forgot
}

// due returns when a change may be made, by the server's time.
func (n *member) due(j judgement) int64 {
	if j.change == nil {
		return 0
	}
	return j.change.Due
}

// knowledgeLocked returns what is known beside a node's marker.
func (ms *Membership) knowledgeLocked(i int, now int64) knowledge {
	n := &ms.members[i]
	v := knowledge{
		known: n.known, own: n.said.Or(quorum.Only(i)) == quorum.All(len(ms.members)), maxTTL: ms.maxTTL.Milliseconds(), now: now,
	}
	if n.pardoned != "" && n.pardoned == n.marker.incarnation {
		v.known = ""
	}
	v.early = v.known != "" && n.marker.incarnation != v.known && ms.clock.Now() < n.trusted
	for k := range ms.members {
		v.own = v.own && (k == i || ms.members[k].marker.incarnation != n.marker.incarnation)
	}
	return v
}

// waitsForOthersLocked reports whether it must be heard from other nodes first if one of them has
// the incarnation of this one, which may have come back with all that it held. It asks them.
func (ms *Membership) waitsForOthersLocked(i int) bool {
	n := &ms.members[i]
	out := quorum.All(len(ms.members)).Minus(n.said.Or(quorum.Only(i)))
	late := ms.clock.Now() >= n.identity.Connected.Add(ms.maxTTL) // as long as the quarantine that it is about
	if n.early = false; out.Empty() || late || n.known != "" || !n.server.isRestart(n.marker) {
		return false
	}
	for k := range ms.members {
		switch other := &ms.members[k]; {
		case !out.Has(k) || ms.nodes[k].State() == pipeline.Down:
		case !other.met:
			n.early = n.early || ms.nodes[k].State() == pipeline.Connecting
		case other.asking == nil && other.phase != phaseProofless:
			n.early = true
			ms.sendLocked(k, nil, nil)
		default:
			n.early = n.early || other.asking != nil
		}
	}
	return n.early
}

// saidLocked notes that a node has said what its marker is.
func (ms *Membership) saidLocked(i int) {
	for k := range ms.members {
		if ms.members[k].early {
			ms.members[k].said.Add(i)
		}
	}
}

// sendLocked puts a change of a node's marker, or only a look at it, into the outbox.
func (ms *Membership) sendLocked(i int, change *wire.Swap, of *census) {
	n := &ms.members[i]
	if change == nil {
		change = &wire.Swap{} // only a look
	}
	a := &admission{membership: ms, node: i, census: of}
	a.request = wire.Memory(n.text, *change)
	a.request.Deadline, a.request.Sink = ms.clock.Now().Add(askTimeout), a
	a.call.Request = &a.request
	n.asking = a
	ms.outbox = append(ms.outbox, a)
}

// Complete takes the answer. It implements pipeline.Sink.
func (a *admission) Complete(_ *pipeline.Call, reply any, err error) {
	ms := a.membership
	ms.mu.Lock()
	n := &ms.members[a.node]
	if ms.stopped || n.asking != a {
		ms.mu.Unlock() // of an earlier connection
		return
	}
	n.asking, n.err = nil, err
	if err != nil {
		ms.census = nil
		ms.failedLocked(n, err)
		ms.endLocked(false)
		return
	}
	text, now, _ := wire.ReadMemory(reply)
	m := parseMarker(text)
	if m.state == markerLost {
		n.server.hides = false // it has been told
	}
	if text != n.text && m.runID != "" && !n.server.fits(m) {
		// Who wrote it was told something else of this server than we were. Which of it is true
		// now, the next handshake tells; if each of us wrote what it believes, the two would go on
		// with that for ever.
		ms.strangeLocked(n)
		ms.endLocked(false)
		ms.nodes[a.node].Reconnect(errStrange)
		return
	}
	forgot := false
	ms.saidLocked(a.node)
	if c := a.census; c == nil {
		forgot = ms.readLocked(a.node, text, now)
	} else {
		c.equal = c.equal && text == n.text
		c.out--
		forgot = ms.readLocked(a.node, text, now) // also plans the next look, should the census be broken off
		if c == ms.census && c.out == 0 {
			ms.endCensusLocked()
		}
	}
	ms.endLocked(forgot)
}

// errStrange is why a connection ends on which a marker does not fit what the handshake told.
var errStrange = errors.New("another server answers than at the beginning of the connection, or it was a replica since")

// strangeLocked takes a node out until its next connection.
func (ms *Membership) strangeLocked(n *member) {
	ms.census = nil
	n.phase, n.retryAt, n.lost = phaseQuarantined, never, ms.clock.Now().Add(askTimeout/2)
}

// failedLocked plans the next question after one that failed; where the user may not write the
// marker, there will be none.
func (ms *Membership) failedLocked(n *member, err error) {
	switch {
	case n.phase == phaseVoting: // it was to say what is true of it now, and the next connection will see to that
		return
	case wire.IsForbidden(err):
		ms.meetProoflessLocked(n)
		return
	}
	n.retryAt = ms.clock.Now().Add(n.pause.Next())
}
