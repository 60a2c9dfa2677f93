package members

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// ErrUnproven is the vote of a node that did not prove that it remembers.
var ErrUnproven = &pipeline.CallError{
	Fate: pipeline.Unknown, Err: fmt.Errorf("%w: it did not prove that it remembers", pipeline.ErrQuarantined),
}

// Explain returns the error to report for a node that failed, or has not answered (err is nil): if
// it did not prove that it remembers, or is no member, why its vote does not count. One that may be
// a member (core.Client.Unproven) and cannot be reached has not said so.
func (ms *Membership) Explain(i int, err error) error {
	isNone := errors.Is(err, ErrNotMember)
	if err == nil || errors.Is(err, ErrUnproven) || isNone {
		if why := ms.Why(i); why != nil {
			return why
		}
	}
	if down := ms.Nodes()[i].Stats().Err; isNone && down != nil {
		return down
	}
	return err
}

// Proven reports whether a vote counts, by the proof that was read behind it: the node was
// admitted with the same marker. So when it voted, it held everything that it had been given since
// it became active.
//
// It is called for each vote, by the goroutine that reads a node's answers, and takes the mutex
// only when the marker is another one. The caller counts the vote after this: a View in which the
// node lost its vote meanwhile drops it in the tally.
func (ms *Membership) Proven(i int, proof *pipeline.Proof) bool {
	switch v := ms.view.Load(); {
	case i >= len(v.markers): // it was added a moment ago
		return false
	case v.proofless.Has(i): // the marker may be readable nevertheless: what others wrote counts
		return v.Voting.Has(i) && (proof == nil || record.ParseMarker(proof.Marker).State != record.MarkerLost)
	case proof == nil:
		return false
	case v.votesBy(i, proof.Marker):
		return true
	default:
		return ms.reconsider(i, proof.Marker)
	}
}

// CheckHealth reads the markers regularly, and more often while locks are held, so that holders
// learn in time that a quorum has forgotten them, even if nothing else is asked of the servers. It
// is called whenever a lock is acquired, so it takes no mutex while there are many: a tick that
// sets hurried asks for held locks afterwards, and so misses none whose holder saw the old value.
func (ms *Membership) CheckHealth() {
	if ms.hurried.Load() {
		return
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch {
	case !ms.Proves() || ms.stopped:
	case ms.checks == nil:
		ms.checks = ms.clock.AfterFunc(checkRest, ms.checkTick)
	case !ms.hurried.Load() && ms.observer.HoldsLocks():
		ms.hurried.Store(true)
		ms.checks.Reset(checkPause)
	}
}

// checkTick asks all nodes that vote by a marker for it. The timer is set before anything is sent,
// so a node that does not answer holds up no later check. A node without a vote is not asked:
// whoever gives it one has read its marker.
func (ms *Membership) checkTick() {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		return
	}
	pause := checkRest
	ms.hurried.Store(false)
	if ms.observer.HoldsLocks() {
		ms.hurried.Store(true)
		pause = checkPause
	}
	ms.checks.Reset(pause)
	ms.mu.Unlock()
	v := ms.View()
	for node := range v.Voting.Minus(v.proofless).Nodes() {
		c := &markerCheck{membership: ms, node: node, request: wire.GetMarker()}
		c.request.Deadline, c.request.Sink = ms.clock.Now().Add(checkPause), c
		ms.do(ms.Nodes()[node], &c.request)
	}
}

// markerCheck is one read of a marker. It has nothing but the request: what the answer says is
// judged like a proof behind a vote. One that fails says nothing, and the next is soon.
type markerCheck struct {
	membership *Membership
	node       int
	request    pipeline.Request
}

func (c *markerCheck) asks() *Membership { return c.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (c *markerCheck) Complete(_ int, reply any, err error) {
	if err == nil {
		c.membership.Proven(c.node, wire.ReadMarker(reply))
	}
}
