package members

import (
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// decideLocked determines whose votes count now, and sets the timer for when that changes.
func (ms *Membership) decideLocked() {
	now := ms.clock.Now()
	ms.findDuplicatesLocked()
	ms.startCensusLocked()
	allYoung := ms.allYoungLocked()
	next := never
	v := &View{markers: make([]string, len(ms.members))}
	for i := range ms.members {
		n := &ms.members[i]
		next = min(next, n.retryAt)
		switch {
		case n.duplicate >= 0:
			v.Duplicates.Add(i)
		case n.phase == phaseVoting:
			v.Voting.Add(i)
			v.markers[i] = n.text
		case n.phase == phaseProofless && (n.until <= now || allYoung):
			v.Voting.Add(i)
			v.proofless.Add(i)
		case n.phase == phaseProofless:
			v.proofless.Add(i)
			next = min(next, n.until)
		}
		if ms.undecidedLocked(i) {
			v.Undecided.Add(i)
		}
	}
	v.Enough = v.Voting.Len() >= quorum.Need(len(ms.members))
	ms.view.Store(v)
	ms.wakeLocked()
	ms.setTimerLocked(now, next)
}

// wake makes callers that wait for a quorum to vote check again: the state of a node has changed.
func (ms *Membership) wake() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.wakeLocked()
}

func (ms *Membership) wakeLocked() {
	if ms.waiting != nil {
		close(ms.waiting)
		ms.waiting = nil
	}
}

// changedLocked returns a channel that is closed at the next change.
func (ms *Membership) changedLocked() <-chan struct{} {
	if ms.waiting == nil {
		ms.waiting = make(chan struct{})
	}
	return ms.waiting
}

// Undecided returns a channel that is closed at the next change, if for some node it will be known
// in a moment whether it votes; otherwise nil.
func (ms *Membership) Undecided() <-chan struct{} {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.stopped {
		return nil
	}
	for i := range ms.members {
		if ms.undecidedLocked(i) {
			return ms.changedLocked()
		}
	}
	return nil
}

// undecidedLocked reports whether it will be known in a moment if the node votes.
func (ms *Membership) undecidedLocked(i int) bool {
	n := &ms.members[i]
	switch {
	case !n.seen:
		return ms.nodes[i].State() == pipeline.Connecting
	case n.phase != phaseQuarantined || n.duplicate >= 0:
		return false
	case ms.census != nil || n.asking != nil && n.err == nil || n.early || n.lost > ms.clock.Now():
		return true
	default: // others may be making it active
		return ms.mode == Auto && n.marker.state == markerNew && n.reads < quickReads
	}
}

func (ms *Membership) setTimerLocked(now, next clock.Instant) {
	switch {
	case next == never || ms.stopped:
	case ms.timer == nil:
		ms.timer = ms.clock.AfterFunc(max(next.Sub(now), 0), ms.tick)
	default:
		ms.timer.Reset(max(next.Sub(now), 0))
	}
}

// tick reads the markers that are due again, and updates whose time has passed.
func (ms *Membership) tick() {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		return
	}
	now, forgot := ms.clock.Now(), false
	for i := range ms.members {
		if n := &ms.members[i]; n.retryAt <= now {
			if ms.census != nil { // the census asks, and then needs the node free of other requests
				n.retryAt = now.Add(n.pause.Next())
				continue
			}
			n.retryAt = never
			if n.asking == nil && n.phase == phaseQuarantined {
				forgot = ms.readLocked(i, n.text, 0) || forgot
			}
		}
	}
	ms.endLocked(forgot)
}

// Epoch returns the current epoch: what was forgotten before it does not affect a lock that begins
// now.
func (ms *Membership) Epoch() uint64 {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.epoch
}

// ForgottenSince returns how many nodes have forgotten since an epoch.
func (ms *Membership) ForgottenSince(epoch uint64) (nodes int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for i := range ms.members {
		if ms.members[i].restarted > epoch {
			nodes++
		}
	}
	return nodes
}
