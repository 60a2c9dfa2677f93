package redlock

import (
	"context"
	"math/bits"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// round asks every node the same thing once, at the same time, and counts their votes. It is decided as soon as no vote
// that is still out can change the verdict, at the latest at the node timeout, when every node has answered or been given up.
//
//	send ──▶ count ──▶ decide ──▶ (undo, where the verdict is not won)
//
// A round may begin with votes that are in already: those nodes are not asked.
type round struct {
	request pipeline.Request
	aside   *aside                    // what one node is asked instead; nil where all are asked the same
	calls   []pipeline.Call           // one per node
	room    [5]pipeline.Call          // for the usual number of nodes
	read    func(reply any) vote      // what a node's answer means
	rule    func(votes tally) verdict // when the votes decide, and what
	keep    func(node int, reply any) // takes every reply; nil where only the votes count
	decided chan struct{}             // closed with the verdict; nil where nobody waits
	locker  *Locker                   // left with the last vote; nil where nobody entered for the round
	voters  *electorate

	mu       sync.Mutex // guards the fields below; never held over a call to a node
	verdict  verdict    // final once decided is closed, and then read without mu
	granted  uint64     // nodes by their votes, a bit each
	refused  uint64     // healed ones included
	failed   uint64
	touched  uint64 // a bit per node: set unless the call has certainly changed nothing there
	expected uint64 // of a release: the nodes that have or may have the lock
	awaited  uint64 // the node whose answer to a release is still of interest
	lock     *Lock  // that the round has won; nil before
	rare     *rare  // nil until there is something of it
}

// aside is what one node is asked instead of what the others are.
type aside struct {
	node    int
	request pipeline.Request
}

// rare is what few rounds have. Every byte of a round is one of every lock and of every release.
type rare struct {
	errs   []error // a node's error at its index; nil while none failed
	fences []int64 // a granting node's fence at its index; nil without fencing
	cut    *tally  // the votes when ctx ended a wait; nil while none did
	before uint64  // nodes that may have our value since an earlier round of the attempt

	more chan struct{} // has one when a vote came; nil where nobody waits for more than the verdict
}

// send asks all nodes. It waits for none of them: the votes of nodes that are down come before it returns, the others
// later. Where keep has a node's bit, the node delivers the call even if it is away now.
func (r *round) send(l *Locker, deadline clock.Instant, keep uint64) {
	nodes := l.nodes
	r.voters = l.voters
	if r.calls = r.room[:min(len(nodes), len(r.room))]; len(nodes) > len(r.room) {
		r.calls = make([]pipeline.Call, len(nodes))
	}
	in := r.granted | r.refused | r.failed // guarded by nothing yet: no call has been made
	r.touched = allNodes(len(nodes)) &^ (r.refused | r.failed)
	r.request.Deadline, r.request.Sink = deadline, r
	if r.aside != nil {
		r.aside.request.Deadline, r.aside.request.Sink = deadline, r
	}
	if in != 0 {
		r.decideLocked()
	}
	twins := l.voters.present.Load().duplicates
	for i, node := range nodes {
		if in>>i&1 == 1 {
			continue
		}
		call := &r.calls[i]
		call.Request, call.Index, call.Keep = &r.request, int32(i), keep>>i&1 == 1
		if r.aside != nil && i == r.aside.node {
			call.Request = &r.aside.request
		}
		if twins>>i&1 == 1 { // its server is asked already
			r.Complete(call, nil, errTwin)
			continue
		}
		node.Do(call)
	}
}

// Proven counts a node's vote, if it proved that it remembers. It implements pipeline.Prover.
func (r *round) Proven(call *pipeline.Call, reply any, proof *pipeline.Proof) {
	if !r.voters.proven(int(call.Index), proof) {
		if r.keep != nil {
			r.keep(int(call.Index), reply) // what it says is shown, and does not count
		}
		r.Complete(call, nil, errUnproven)
		return
	}
	r.Complete(call, reply, nil)
}

func allNodes(n int) uint64 { return ^uint64(0) >> (maxNodes - n) }

// Complete counts a node's vote. It implements pipeline.Sink.
func (r *round) Complete(call *pipeline.Call, reply any, err error) {
	v := failed
	if err == nil {
		v = r.read(reply)
		if r.keep != nil {
			r.keep(int(call.Index), reply)
		}
	}
	bit := uint64(1) << call.Index
	r.mu.Lock()
	r.voteLocked(v, bit)
	if v == granted && r.rare != nil && r.rare.fences != nil {
		r.rare.fences[call.Index] = fenceOf(reply)
	}
	if v == refused || (v == failed && untouched(err) && (call.Request.Script == nil || !midway(err))) {
		r.touched &^= bit
	}
	if err != nil {
		r.failLocked(int(call.Index), err)
	}
	r.decideLocked()
	r.tellMoreLocked()
	awaited, lock := r.awaited == bit, r.lock
	last := r.granted|r.refused|r.failed == allNodes(len(r.calls))
	r.mu.Unlock()
	if lock != nil && v == refused {
		lock.refusedBy(bit)
	}
	if r.locker != nil {
		r.locker.tellReleased(r, call.Index, v)
		if awaited {
			r.locker.lines.answered(r)
		}
		if last {
			r.locker.leave()
		}
	}
}

func (r *round) decideLocked() {
	if r.verdict != pending {
		return
	}
	if r.verdict = r.rule(r.tallyLocked()); r.verdict != pending && r.decided != nil {
		close(r.decided)
	}
}

func (r *round) voteLocked(v vote, bit uint64) {
	switch v {
	case granted, handed, spared:
		r.granted |= bit
	case refused, healed:
		r.refused |= bit
	case failed:
		r.failed |= bit
	}
}

func (r *round) tallyLocked() tally {
	t := r.voters.count(len(r.calls), r.granted, r.refused, r.failed)
	if r.expected != 0 {
		t.expected = bits.OnesCount64(r.expected)
		t.absent = bits.OnesCount64(r.voters.counted(r.refused &^ r.expected))
	}
	return t
}

// wait returns the verdict, or pending and the context's error where ctx ends first.
func (r *round) wait(ctx context.Context) (verdict, error) {
	select {
	case <-r.decided:
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.verdict == pending {
			votes := r.tallyLocked()
			r.rareLocked().cut = &votes
			return pending, endOf(ctx)
		}
	}
	return r.verdict, nil // written before decided was closed, and never again
}

// mayHold has the bits of the nodes where the round has, or may have, or may yet, set our value.
func (r *round) mayHold() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked()
}

func (r *round) mayHoldLocked() uint64 {
	if r.rare == nil {
		return r.touched
	}
	return r.touched | r.rare.before
}

// reached has the bits of the nodes that have been asked, or may have been, or may yet: all but
// those that certainly have not executed anything.
func (r *round) reached() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked() | r.refused
}

// heldBy is mayHold for a lock that is held from now on; refusals that are still to come reach it, too.
func (r *round) heldBy(lock *Lock) (touched, refused uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lock = lock
	return r.mayHoldLocked(), r.refused
}

// failure describes the round as it was decided or cut short, for the caller. Without a reason, the votes so far tell: of an attempt that ctx cut
// short, whether a quorum had answered.
func (r *round) failure(l *Locker, op, name string, reason, ended error) *QuorumError {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := r.tallyLocked()
	if r.rare != nil && r.rare.cut != nil { // what comes in later, the caller did not wait for
		votes = *r.rare.cut
	}
	if reason == nil {
		if reason = ErrNoQuorum; votes.granted+votes.refused >= quorum(votes.nodes) {
			reason = ErrTaken
		}
	}
	e := &QuorumError{
		Op: op, Name: name, Need: quorum(votes.nodes), Granted: votes.granted, Refused: votes.refused,
		reason: reason, ended: ended,
	}
	for i, node := range l.nodes {
		err := l.voters.why(i) // also of nodes that have not answered
		if said := r.errLocked(i); said != nil {
			err = l.unproven(i, said)
		}
		if err != nil {
			e.Nodes = multierror.Append(e.Nodes, &NodeError{Endpoint: node.Endpoint(), Err: err})
		}
	}
	return e
}

// quorumAnswered reports whether a quorum of nodes granted or refused so far.
func (r *round) quorumAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := r.tallyLocked()
	return votes.granted+votes.refused >= quorum(votes.nodes)
}

// nodeError returns why a node failed, or nil.
func (r *round) nodeError(node int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errLocked(node)
}

// hasGranted reports whether a node's vote counts and is yes.
func (r *round) hasGranted(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.granted&r.voters.counted(1<<node) != 0
}

func (r *round) errLocked(node int) error {
	if r.rare == nil || r.rare.errs == nil {
		return nil
	}
	return r.rare.errs[node]
}

func (r *round) failLocked(node int, err error) {
	more := r.rareLocked()
	if more.errs == nil {
		more.errs = make([]error, len(r.calls))
	}
	more.errs[node] = err
}

func (r *round) rareLocked() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}

// granting reports whether a node granted.
func (r *round) granting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.granted != 0
}
