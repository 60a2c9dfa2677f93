package fence

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// Faulty is a search for the harm that one master can do to the tokens if its clock or counter is
// wrong: the first of three. Its counter is set to any number, as often as losses are allowed, and
// it follows any raise. The others are right: they follow a raise to at most Limit ahead of the
// clock. Keys may be gone at any moment, so the key of another client refuses nobody, except for a
// mend. A caller that has a token from others brings every node that gave it a number far past it
// back to Ahead past the token.
//
// # How far is far enough
//
// Only a counter that is brought back can break the argument for the tokens, between two quorums
// that have no other node in common. Let B have the token b from a quorum without node x, and let x
// be brought back to b + Ahead. Let x have confirmed a to A before. The quorums of A and B have a
// node c in common, and c is not x. If c confirmed a first, a is below b. If c confirmed b first: c
// follows at most Limit ahead of its clock, so a is at most Limit more than c's clock at that time;
// and b is at least c's clock, minus the skew, when c confirmed b. Between the two lie one attempt
// of A's and one of B's: x has confirmed nothing after it gave B its number, which the mend
// compares, so A began before that. (The key is compared as well: a number that was brought down
// once is given again.) So a ≤ b + Limit + 2 TTL + skew. What x confirms from now on is above b +
// Ahead, and above a if Ahead is at least that much. How late the mend comes makes no difference.
//
// The clock of x does not matter here, and of c's clock only that it runs at the rate of time.
//
// A node that is right is never brought back if Ahead is larger than Limit, the skew and the
// attempt.
type Faulty struct {
	Limit   int
	Ahead   int
	Highest int // the largest number; steps that lead above it are left out

	// What is wrong. The zero values are right.
	MendBlindly     bool // without a look at the counter
	MendAnyones     bool // without a look at the key
	MendToGranted   bool // to the largest number that another node granted, and not past it
	MendUnconfirmed bool // to past what one other node granted, as soon as it has
	FollowAnything  bool
}

func (r *restarter) has(fence int64) bool { return r.Faulty == nil || fence <= int64(r.Faulty.Highest) }

func (r *restarter) follows(w *era, n int, t int8) bool {
	return r.Faulty == nil || n == 0 || r.Faulty.FollowAnything ||
		spec.Follows(int64(w.nodes[n].fence), int64(t), int64(w.now)+int64(r.Faulty.Limit), 0)
}

// raiseInVain belongs to a second round that failed: the attempt goes on with what was granted.
func (r *restarter) raiseInVain(w *era, c int, visit eraVisitor) {
	one := &w.tries[c]
	for n := range w.nodes {
		at := &w.nodes[n]
		for _, vote := range one.votes {
			if one.phase != asking || one.votes[n].fence == 0 || vote.fence <= at.fence || at.busy && n > 0 || !r.follows(w, n, vote.fence) {
				continue
			}
			next := *w
			next.nodes[n].fence, next.nodes[n].busy = vote.fence, true
			visit(&next, search.Event{Kind: RaisedInVain, Client: c, Node: n, Number: int(vote.fence)})
		}
	}
}

// spoil sets the first node's counter ahead, or to where it begins again after it became
// unreadable.
func (r *restarter) spoil(w *era, visit eraVisitor) {
	if w.losses == 0 {
		return
	}
	anew := w.now + int8(r.Faulty.Ahead)
	for fence := int8(1); int(fence) <= r.Faulty.Highest; fence++ {
		if fence <= w.nodes[0].fence && fence != anew || fence == w.nodes[0].fence {
			continue
		}
		next := *w
		next.losses--
		next.nodes[0].fence = fence
		visit(&next, search.Event{Kind: Spoiled, Client: search.Nobody, Node: 0, Number: int(fence)})
	}
}

// mends reports whether an attempt that has its token was given a number far past it.
func (r *restarter) mends(w *era, c int, token int8) bool {
	if r.Faulty == nil {
		return false
	}
	for n := range w.nodes {
		if w.tries[c].votes[n].fence > r.mendTo(token) {
			return true
		}
	}
	return false
}

func (r *restarter) mendTo(token int8) int8 {
	if r.Faulty.MendToGranted {
		return token
	}
	return token + int8(r.Faulty.Ahead)
}

// mend is the mend of an attempt that has its token; it may come at any time.
func (r *restarter) mend(w *era, c int, visit eraVisitor) {
	to := r.mendTo(w.tries[c].target)
	for n := range w.nodes {
		given, at := w.tries[c].votes[n].fence, &w.nodes[n]
		if given <= to {
			continue
		}
		was := int64(given)
		if r.Faulty.MendBlindly {
			was = int64(at.fence)
		}
		r.load(at)
		if n > 0 || r.Faulty.MendAnyones {
			r.scratch.Key = valueOf(c)
		}
		if was > int64(to) && r.one.Mend(valueOf(c), was, int64(to)) {
			next := *w
			next.nodes[n].fence = to
			visit(&next, search.Event{Kind: Mended, Client: c, Node: n, Number: int(to)})
		}
	}
	next := *w
	next.end(c)
	visit(&next, search.Event{Kind: GaveUp, Client: c, Node: search.Nowhere})
}

// mendUnconfirmed is the mistake of an attempt that believes a single other node.
func (r *restarter) mendUnconfirmed(w *era, c int, visit eraVisitor) {
	votes := &w.tries[c].votes
	for n := range w.nodes {
		for other := range w.nodes {
			to := votes[other].fence + int8(r.Faulty.Ahead)
			if votes[other].fence == 0 || votes[n].fence <= to || w.nodes[n].fence != votes[n].fence {
				continue
			}
			next := *w
			next.nodes[n].fence = to
			visit(&next, search.Event{Kind: Mended, Client: c, Node: n, Number: int(to)})
		}
	}
}
