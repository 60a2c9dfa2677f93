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

// confirmedBy is the rule of the release u that confirms the refusals of r. If some of those by
// which r was denied are none, votes that r gets later count in their place. On a connection, the
// one to r comes before the one to u, so once all votes of u are in, there is nothing to wait for.
func (r *Round) confirmedBy(u *Round) Rule {
	return func(quorum.Tally) quorum.Verdict { // called with u.mu held; never the other way round
		r.mu.Lock()
		view := r.rare.decided.view // r was denied before u was made
		votes, refusals := r.count(&r.votes, view), r.votes.Refused.And(view.Voting)
		r.mu.Unlock()
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
		case votes.Outstanding() > 0 && in != quorum.All(u.size()):
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
			r.votes.Refused.Remove(i)
			r.votes.Failed.Add(i)
			r.failLocked(i, errs[i])
			r.rare.decided.votes = r.votes // with those that came later, as they confirm it, or do not
		}
	}
	return v != quorum.NoQuorum
}
