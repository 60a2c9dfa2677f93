package fencemodel

// Faulty is a search for what one master can do to the tokens whose clock or counter is wrong: the
// first of three. Its counter is put to any number, as often as losses are allowed, and it follows
// any raise. The others are right: what they are raised to is Limit ahead of the clock at most.
// Keys may be gone at any moment, so nobody is refused for one, but for a mend. A caller who has a
// token from others brings back, to Ahead past it, whatever node gave it more.
//
// # How far is far enough
//
// Only a counter that is brought back can break the argument for the tokens, of two quorums that
// have no other node in common. Let B have the token b from a quorum without node x, and x be
// brought back to b + Ahead. Let x have confirmed a to A before. A's quorum and B's have a node c
// in common, and c is not x. Where c confirmed a first, a is below b. Where it confirmed b first:
// it follows Limit ahead of its clock at most, so a is at most Limit more than c's clock then; and
// b is at least c's clock, less the skew, when it confirmed b. Between the two are one attempt of
// A's and one of B's: x has confirmed nothing after it gave B its number, which the mend compares,
// so A was begun before that. (The key is compared as well: a number that was brought down once is
// given again.) So a ≤ b + Limit + 2 TTL + skew. What x confirms from now on is above b + Ahead,
// and above a if Ahead is that much at least. How late the mend comes makes no difference.
//
// The clock of x is no part of this, and of c's only that it goes on at the rate of time.
//
// A node that is right is never brought back, where Ahead is larger than Limit, the skew and the
// attempt.
type Faulty struct {
	Limit   int
	Ahead   int
	Highest int // number; steps that lead above it are left out

	// What is wrong; the zero values are right.
	MendBlindly     bool // whatever the counter is now
	MendAnyones     bool // whoever's key it is now
	MendToGranted   bool // to the largest that another node granted, and not past it
	MendUnconfirmed bool // to past what one other node granted, as soon as it has
	FollowAnything  bool
}

func (r *restarter) has(fence int64) bool { return r.Faulty == nil || fence <= int64(r.Faulty.Highest) }

func (r *restarter) follows(w *era, n int, t int8) bool {
	return r.Faulty == nil || n == 0 || r.Faulty.FollowAnything ||
		Follows(int64(w.nodes[n].fence), int64(t), int64(w.now)+int64(r.Faulty.Limit), 0)
}

// raiseInVain is of a second round that failed: the attempt goes on with what was granted.
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
			visit(&next, event{kind: RaisedInVain, client: int8(c), node: int8(n), number: int64(vote.fence)})
		}
	}
}

// spoil puts the first node's counter ahead; or where it begins again that was overwritten with
// what cannot be read.
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
		visit(&next, event{kind: Spoiled, client: ghostClient, node: 0, number: int64(fence)})
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

// mend is that of an attempt that has its token; it may come at any time.
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
			r.scratch.Value = valueOf(c)
		}
		if was > int64(to) && r.one.Mend(valueOf(c), was, int64(to)) {
			next := *w
			next.nodes[n].fence = to
			visit(&next, event{kind: Mended, client: int8(c), node: int8(n), number: int64(to)})
		}
	}
	next := *w
	next.end(c)
	visit(&next, event{kind: GaveUp, client: int8(c), node: nowhere})
}

// mendUnconfirmed is the mistake of an attempt that believes one other node.
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
			visit(&next, event{kind: Mended, client: int8(c), node: int8(n), number: int64(to)})
		}
	}
}
