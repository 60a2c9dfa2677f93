package round

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// A SET with NX refuses a key of the wrong type in the same words as a key that is held. The
// release that follows every failed attempt tells the two apart: it fails with WRONGTYPE. So before
// a lock is called taken, the refusals are confirmed by the release that goes to those nodes
// anyway.

// confirmedBy is the rule of the release u that confirms the refusals of r; it is won if they are.
// If some of those by which r was denied are none, votes that r gets later count in their place.
// They count by the list that denied r, or by the one in force: by either, somebody has the lock.
func (r *Round) confirmedBy(u *Round) Rule {
	return func(quorum.Tally) quorum.Verdict { // called with u.mu held; never the other way round
		r.mu.Lock()
		defer r.mu.Unlock()
		before, now := r.rare.decided.view, r.rounds.Members.View() // r was denied before u was made
		v := r.confirmedLocked(u, before)
		if now == before || v == quorum.Won {
			return v
		}
		w := r.confirmedLocked(u, now)
		if w == quorum.NoQuorum { // while a list is learned, votes that are in do not count by it
			return v
		}
		if w == quorum.Won {
			r.rare.decided = &standing{r.votes, now} // which tells why the name is taken
		}
		return w
	}
}

// confirmedLocked needs both mutexes. It counts by one list.
func (r *Round) confirmedLocked(u *Round, view *members.View) quorum.Verdict {
	votes, refusals := r.count(&r.votes, view), r.votes.Refused.And(view.Voting)
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
	answered, need := votes.Granted+votes.Refused-wrong.Len(), quorum.Need(votes.Nodes)
	switch {
	case votes.Granted >= need: // by this list, r was not denied
		return quorum.NoQuorum
	case answered-out.Len() >= need:
		return quorum.Won
	case !out.Empty(): // even if there are too few: the error names all such nodes
		return quorum.Pending
	case answered+votes.Outstanding() >= need:
		return quorum.Pending
	default:
		return quorum.NoQuorum
	}
}

// confirmingLocked returns the release that confirms the refusals of the round; nil if none does.
func (r *Round) confirmingLocked() *Round {
	if r.rare == nil {
		return nil
	}
	return r.rare.confirming
}

// decide counts the votes of a round because something else than one of them came.
func (r *Round) decide() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decideLocked()
}

// RefusalsConfirmed waits for the release u that confirms r ([Spec.Confirms]). It reports whether a
// quorum answered r and, by the answers to u, still counts as having answered; if not, and ctx
// ended before that was known, also the error of ctx. Nodes whose key is no lock count as failed
// from then on.
//
// From here on, each vote of r makes u decide: the vote of a node may come behind its answer to u,
// because its proof does. So u is decided when the last vote of both is in.
func (r *Round) RefusalsConfirmed(ctx context.Context, u *Round) (confirmed bool, ended error) {
	r.mu.Lock()
	r.rare.confirming = u
	r.mu.Unlock()
	u.decide()
	u.await(ctx)
	u.mu.Lock()
	v, errs := u.verdict, []error(nil)
	if u.rare != nil {
		errs = slices.Clone(u.rare.errs) // later votes add errors
	}
	u.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.rare.decided
	for i := range errs {
		if r.votes.Refused.Has(i) && trouble.Of(errs[i]) == trouble.NoString {
			r.votes.Refused.Remove(i)
			r.votes.Failed.Add(i)
			r.failLocked(i, errs[i])
			at.votes = r.votes // with those that came later, as they confirm it, or do not
		}
	}
	if v == quorum.Pending && quorum.DecideAnswered(r.count(&at.votes, at.view)) != quorum.Won {
		return false, EndOf(ctx)
	}
	return v != quorum.NoQuorum, nil
}
