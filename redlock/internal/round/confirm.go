package round

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// A SET with NX refuses a key of the wrong type in the same words as a key that is held. The
// release that follows every failed attempt tells the two apart: it fails with WRONGTYPE. So before
// a lock is called taken, the refusals are confirmed by the release that goes to those nodes
// anyway.

// confirmedBy is the rule of the release u that confirms the refusals of r.
func (r *Round) confirmedBy(u *Round) Rule {
	r.mu.Lock()
	view := r.rounds.Members.View()
	votes, refusals := r.count(&r.votes, view), r.votes.Refused.And(view.Voting)
	r.mu.Unlock()
	return func(quorum.Tally) quorum.Verdict { // called with u.mu held
		var wrong, out quorum.NodeSet
		in := u.votes.In()
		for i := range refusals.Nodes() {
			switch {
			case !in.Has(i):
				out.Add(i)
			case trouble.Of(u.errLocked(i)) == trouble.NoString:
				wrong.Add(i)
			}
		}
		answered := votes.Granted + votes.Refused - wrong.Len()
		switch {
		case answered-out.Len() >= quorum.Need(votes.Nodes):
			return quorum.Denied
		case !out.Empty(): // even if it cannot be denied any more: the error names all such nodes
			return quorum.Pending
		default:
			return quorum.NoQuorum
		}
	}
}

// RefusalsConfirmed waits for the release u that confirms r ([Spec.Confirms]). It reports whether a
// quorum answered r and, by the answers to u, still counts as having answered. Nodes whose key is
// no lock count as failed from then on.
func (r *Round) RefusalsConfirmed(ctx context.Context, u *Round) bool {
	u.await(ctx)
	u.mu.Lock()
	v, errs := u.verdict, []error(nil)
	if u.rare != nil {
		errs = slices.Clone(u.rare.errs) // later votes add errors
	}
	u.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range errs {
		if r.votes.Refused.Has(i) && trouble.Of(errs[i]) == trouble.NoString {
			for _, votes := range []*quorum.Ballot{&r.votes, &r.rare.decided.votes} {
				votes.Refused.Remove(i)
				votes.Failed.Add(i)
			}
			r.failLocked(i, errs[i])
		}
	}
	return v != quorum.NoQuorum
}
