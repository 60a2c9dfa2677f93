package redlock

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// errUnproven is the vote of a node that did not prove that it remembers.
var errUnproven = &pipeline.CallError{
	Fate: pipeline.Unknown, Err: fmt.Errorf("%w: it did not prove that it remembers", pool.ErrQuarantined),
}

// unproven returns what there is to say of a node that failed: where it did not prove that it
// remembers, why its vote does not count.
func (l *Locker) unproven(i int, said error) error {
	if errors.Is(said, errUnproven) {
		if why := l.voters.why(i); why != nil {
			return why
		}
	}
	return said
}

// proven reports whether a vote counts, by the proof that was read behind it: the node was admitted
// by the same marker. So what it held when the vote was given is all that it was given since it
// became active.
func (e *electorate) proven(i int, proof *pipeline.Proof) bool {
	switch r := e.present.Load(); {
	case r.proofless>>i&1 == 1: // it may be readable all the same: what others wrote is heeded
		return r.voting>>i&1 == 1 && (proof == nil || parseMarker(proof.Marker).state != markerLost)
	case proof == nil:
		return false
	case r.markers[i] != "" && r.markers[i] == proof.Marker:
		return true
	default:
		return e.reconsider(i, proof.Marker)
	}
}

// reconsider takes a marker that is not the one by which a node was admitted, and reports whether
// it votes by it. Where somebody else has made the incarnation active that we know, or has only
// refreshed the marker, it does. In any other case the server has forgotten what it held, or it is
// another: the connection ends, and the next one finds out.
func (e *electorate) reconsider(i int, text string) bool {
	m := parseMarker(text)
	e.mu.Lock()
	n := &e.standings[i]
	switch {
	case e.stopped || n.twin >= 0 || n.phase == phaseUnmet || n.phase == phaseProofless:
		e.mu.Unlock()
		return false
	case m.state == markerActive && m.incarnation == n.marker.incarnation && n.server.fits(m):
		if n.text != text {
			e.readLocked(i, text, 0)
		}
		votes := n.phase == phaseVoting
		e.endLocked(false)
		return votes
	case text == n.text:
		votes := n.phase == phaseVoting
		e.mu.Unlock()
		return votes
	case n.phase == phaseQuarantined && n.asking != nil: // our own change was first
		e.mu.Unlock()
		return false
	}
	// Not where only the rest of the marker is new, as when a replica that is long gone was
	// forgotten.
	forgot := n.known != "" && n.told != n.known && (m.state != markerActive || m.incarnation != n.known)
	if forgot {
		n.told = n.known
		e.epoch++
		n.restarted = e.epoch
	}
	e.strangeLocked(n)
	e.endLocked(forgot)
	e.nodes[i].Reconnect(errUnproven.Err)
	return false
}

// patrol looks at the markers every now and then: more often while locks are held, so that their
// holders are told in time when a quorum has forgotten them, also where nothing else is asked of
// the servers.
func (e *electorate) patrol() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.proves() || e.stopped:
	case e.patrols == nil:
		e.patrols = e.clock.AfterFunc(patrolRest, e.look)
	case !e.hurried && e.holding():
		e.hurried = true
		e.patrols.Reset(patrolPause)
	}
}

// look asks all nodes that vote by a marker for it.
func (e *electorate) look() {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return
	}
	pause := patrolRest
	if e.hurried = e.holding(); e.hurried {
		pause = patrolPause
	}
	e.patrols.Reset(pause)
	e.mu.Unlock()
	r := e.present.Load()
	for left := r.voting &^ r.proofless; left != 0; left &= left - 1 {
		g := &glance{electorate: e, node: bits.TrailingZeros64(left)}
		g.request = pipeline.Request{
			Name: "GET", Args: []any{pipeline.MemoryKey}, Accept: isGlance, Deadline: e.clock.Now().Add(patrolPause), Sink: g,
		}
		g.call.Request = &g.request
		e.nodes[g.node].Do(&g.call)
	}
}

// glance is one look at a marker.
type glance struct {
	electorate *electorate
	node       int
	request    pipeline.Request
	call       pipeline.Call
}

func isGlance(reply any) bool {
	_, ok := reply.([]byte)
	return ok || reply == nil
}

// Complete takes the answer. It implements pipeline.Sink.
func (g *glance) Complete(_ *pipeline.Call, reply any, err error) {
	if err == nil {
		text, _ := reply.([]byte)
		g.electorate.proven(g.node, &pipeline.Proof{Marker: string(text)})
	}
}
