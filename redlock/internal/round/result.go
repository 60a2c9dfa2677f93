package round

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Deadline returns when the round ends at the latest.
func (r *Round) Deadline() clock.Instant { return r.request.Deadline }

// Request returns what the nodes are asked. It must not be changed.
func (r *Round) Request() *pipeline.Request { return &r.request }

// Overrides reports whether one node is asked something else than the others.
func (r *Round) Overrides() bool { return r.override != nil }

// MayHold returns the nodes where the round has, or may have, or may yet, set our value.
func (r *Round) MayHold() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked()
}

func (r *Round) mayHoldLocked() quorum.NodeSet {
	if r.rare == nil {
		return r.touched
	}
	return r.touched.Or(r.rare.before)
}

// Reached returns the nodes that have been asked, or may have been, or may yet: all but those that
// certainly have not executed anything.
func (r *Round) Reached() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked().Or(r.votes.Refused)
}

// Hold is MayHold for a lock that is held by this round from now on. It also returns the nodes that have
// refused; later votes are told to the observer. So it misses none and tells none twice.
func (r *Round) Hold(observer Observer) (touched, refused quorum.NodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observer = observer
	return r.mayHoldLocked(), r.votes.Refused
}

// Granted returns the nodes that have granted.
func (r *Round) Granted() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes.Granted
}

// Refused returns the nodes that have refused.
func (r *Round) Refused() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes.Refused
}

// GrantCounts reports whether a node has granted and its vote counts.
func (r *Round) GrantCounts(node int) bool {
	return r.Granted().And(r.members.View().Voting).Has(node)
}

// QuorumAnswered reports whether a quorum of nodes granted or refused so far.
func (r *Round) QuorumAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := r.tallyLocked()
	return votes.Granted+votes.Refused >= quorum.Need(votes.Nodes)
}

// AwaitVote makes the observer be told of a node's vote as an awaited one. It reports false where
// that vote is in: then it is not told again.
func (r *Round) AwaitVote(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.votes.In().Has(node) {
		return false
	}
	r.awaited.Add(node)
	return true
}

// HasVoted reports whether a node's vote is in.
func (r *Round) HasVoted(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes.In().Has(node)
}

// Took returns how long ago a round with this timeout began.
func (r *Round) Took(now clock.Instant, timeout time.Duration) time.Duration {
	return now.Sub(r.request.Deadline.Add(-timeout))
}

// Err returns why a node failed, or nil.
func (r *Round) Err(node int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errLocked(node)
}

// Outcome returns the votes as they decided the round or were when a wait for it was cut short, and
// what there is to say of each node that did not answer as it should; nil for the others.
func (r *Round) Outcome() (votes quorum.Tally, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes = r.tallyLocked()
	if r.rare != nil && r.rare.cut != nil { // what comes in later, the caller did not wait for
		votes = *r.rare.cut
	}
	errs = make([]error, len(r.calls))
	for i := range errs {
		errs[i] = r.members.Explain(i, r.errLocked(i)) // also of nodes that have not answered
	}
	return votes, errs
}

// Fences returns the fences of the nodes that granted and whose votes count, and whether all nodes
// have voted. If not, more is told of the next vote, where it is not nil.
func (r *Round) Fences(more chan struct{}) (fences []int64, granted quorum.NodeSet, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rare.more = more
	granted = r.votes.Granted.And(r.members.View().Voting)
	return slices.Clone(r.rare.fences), granted, r.votes.In() == quorum.All(len(r.calls))
}

func (r *Round) tellMoreLocked() {
	if r.rare == nil || r.rare.more == nil {
		return
	}
	select {
	case r.rare.more <- struct{}{}:
	default: // it will see this vote, too
	}
}

func (r *Round) errLocked(node int) error {
	if r.rare == nil || r.rare.errs == nil {
		return nil
	}
	return r.rare.errs[node]
}

func (r *Round) failLocked(node int, err error) {
	more := r.rareLocked()
	if more.errs == nil {
		more.errs = make([]error, len(r.calls))
	}
	more.errs[node] = err
}

func (r *Round) rareLocked() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}
