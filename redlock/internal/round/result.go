package round

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Why a round did not get what it asked for. Package redlock has both for its users.
var (
	ErrTaken    = errors.New("redlock: taken")     // a quorum of nodes answered, and did not grant
	ErrNoQuorum = errors.New("redlock: no quorum") // too few nodes answered to decide anything
)

// All of this may be asked by any goroutine at any time, and takes the mutex of the round itself,
// but for what ends in Locked. The request does not change once it is sent, so it needs none.

// Deadline returns when the round ends at the latest.
func (r *Round) Deadline() clock.Instant { return r.request.Deadline }

// Request returns what the nodes are asked. It must not be changed.
func (r *Round) Request() *pipeline.Request { return &r.request }

// Overrides reports whether one node is asked something else than the others.
func (r *Round) Overrides() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rare != nil && r.rare.override != nil
}

// MayHold returns the nodes where the round has set our value, may have set it, or may yet set it.
func (r *Round) MayHold() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked()
}

func (r *Round) mayHoldLocked() quorum.NodeSet {
	if r.rare == nil {
		return r.mayHold
	}
	return r.mayHold.Or(r.rare.before)
}

// Doubt says that nodes may have our value since before the round, as far as their votes do not
// tell otherwise.
func (r *Round) Doubt(nodes quorum.NodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if nodes = nodes.Minus(r.votes.Granted.Or(r.votes.Refused)); !nodes.Empty() {
		r.rareLocked().before |= nodes
	}
}

// Reached returns the nodes that have executed the request, may have, or may yet: all except those
// that certainly have not.
func (r *Round) Reached() quorum.NodeSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayHoldLocked().Or(r.votes.Refused)
}

// Hold is MayHold for a lock that this round holds from now on. It also returns the nodes that have
// refused; later votes go to the holder, so it misses none and gets none twice.
func (r *Round) Hold(holder Holder) (mayHold, refused quorum.NodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holder = holder
	mayHold = r.mayHoldLocked()
	if r.rare != nil && r.rare.choice != nil {
		mayHold = mayHold.Minus(r.votes.Refused) // that they have something else does not matter
	}
	return mayHold, r.votes.Refused
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
	return r.Granted().And(r.rounds.Members.View().Voting).Has(node)
}

// QuorumAnswered reports whether a quorum of nodes granted or refused so far.
func (r *Round) QuorumAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := r.count(&r.votes, r.rounds.Members.View())
	return votes.Granted+votes.Refused >= quorum.Need(votes.Nodes)
}

// AwaitVote marks a node's vote as awaited when it is told. It reports false if that vote is in:
// then it is not told again.
func (r *Round) AwaitVote(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.votes.In().Has(node) {
		return false
	}
	r.awaited = int8(1 + node)
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

// Outcome returns the votes, as they were when they decided that the round was not won or when a
// wait for it was cut short, and an error for each node that has not answered as it should; nil for
// the others. Of a round that was won, it returns the votes so far. Errors that come later explain
// why there was no quorum, and have no part in a denial.
func (r *Round) Outcome() (votes quorum.Tally, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.standingLocked()
	switch {
	case r.rare == nil:
	case r.rare.cut != nil: // the caller did not wait for later votes
		at = r.rare.cut
	case r.rare.decided != nil:
		at = r.rare.decided
	}
	errs = make([]error, r.size())
	for i := range errs {
		if at.tells(i, r.verdict) {
			errs[i] = r.rounds.Members.Explain(i, r.errLocked(i)) // also for nodes that have not answered
		}
	}
	return r.count(&at.votes, at.view), errs
}

// tells reports whether there may be something to say of a node: its vote did not count, and, where
// the votes of others were a denial, was in by then.
func (s *standing) tells(node int, v quorum.Verdict) bool {
	counted := s.votes.Granted.Or(s.votes.Refused).And(s.view.Voting)
	return !counted.Has(node) && (v != quorum.Denied || s.votes.In().Has(node))
}

// Fences returns the fences of the nodes that granted and whose votes count, how many make a
// quorum, and whether all nodes have voted. If they have not, more, if not nil, is signalled at the
// next vote. The fences are in the memory of room, if they fit.
func (r *Round) Fences(room []int64, more chan struct{}) (fences []int64, granted quorum.NodeSet, need int, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rare.more = more
	view := r.rounds.Members.View()
	granted = r.votes.Granted.And(view.Voting)
	return append(room[:0], r.rare.fences...), granted, view.Need(), r.votes.In() == quorum.All(r.size())
}

func (r *Round) tellMoreLocked() {
	if r.rare == nil || r.rare.more == nil {
		return
	}
	select {
	case r.rare.more <- struct{}{}:
	default: // the earlier signal covers this vote, too
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
		more.errs = make([]error, r.size())
	}
	more.errs[node] = err
}

func (r *Round) rareLocked() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}
