package quorum

import (
	"math"
	"time"
)

// How far apart fences may be, in microseconds. The scripts use the same numbers.
const (
	// RaiseReach is how far a fence may be ahead of a correct node for that node to follow it in
	// any case: raise.lua goes up to 20 s ahead of the node's clock, and a grant is within 10 s of
	// that clock.
	RaiseReach = int64(10 * time.Second / time.Microsecond)

	// anyReach is for when no nearer fence is left. Then the nodes decide.
	anyReach = math.MaxInt64

	// A counter that is more than MendBeyond past a token is brought back to MendAhead past it
	// (mend.lua).
	MendBeyond = 2 * MendAhead
	MendAhead  = int64(time.Minute / time.Microsecond)
)

// RaiseWithin is how long after its beginning an attempt may still raise fences. That takes two
// node timeouts; an attempt that is later was paused.
const RaiseWithin = 10 * time.Second

// DecideToken finds the fencing token of an acquisition among the fences of the nodes that granted
// it; need is a quorum. The token is the caller's once a quorum is at it: any two such quorums have
// a node in common, and that node gave the later attempt a larger number. So which number it is
// does not matter for safety; it matters for whether a quorum can get there.
//
// If a quorum is at one number, that is the token. Otherwise it is the largest number that a quorum
// is at, or is behind by at most reach: a fence ahead of that is the failure of a minority, and is
// not followed. At has the nodes at the token. Below has the nodes that must be raised to it first
// (raise.lua), and is empty if none must. The token is 0 if there is none.
//
// A quorum of the granting nodes would not do: two of those need not have a node in common.
func DecideToken(fences []int64, granted NodeSet, need int, reach int64) (token int64, at, below NodeSet) {
	for i, fence := range fences {
		if !granted.Has(i) {
			continue
		}
		same, behind, near := nodesUpTo(fence, fences, granted, reach)
		switch {
		case same.Len() >= need: // only one number can be
			return fence, same, 0
		case near >= need && fence > token:
			token, at, below = fence, same, behind
		}
	}
	return token, at, below
}

// maxRaises is how often an attempt raises: first as DecideToken says; then without the nodes that
// were at the first token or past it; then with all there is.
const maxRaises = 3

// NextToken is DecideToken for an attempt that may have raised in vain, because the token was too
// far ahead, or because a node behind it did not follow. It raises again only once all nodes have
// answered.
func NextToken(fences []int64, granted, ahead NodeSet, need, raises int, all bool) (token int64, at, below NodeSet) {
	token, at, below = DecideToken(fences, granted, need, RaiseReach)
	switch {
	case token != 0 && below.Empty(), raises == 0 && !all:
		return token, at, below
	case !all || raises == maxRaises:
		return 0, 0, 0
	}
	if raises == 1 {
		if other, at, below := DecideToken(fences, granted.Minus(ahead), need, RaiseReach); other != 0 {
			return other, at, below
		}
	}
	if token == 0 {
		return DecideToken(fences, granted, need, anyReach)
	}
	return token, at, below
}

// nodesUpTo returns which of the granting nodes are at a fence and which are behind it, and how
// many of them are behind by at most reach.
func nodesUpTo(fence int64, fences []int64, granted NodeSet, reach int64) (same, behind NodeSet, near int) {
	for i, other := range fences {
		if !granted.Has(i) || other > fence {
			continue
		}
		if other == fence {
			same.Add(i)
		} else {
			behind.Add(i)
		}
		if fence-other <= reach {
			near++
		}
	}
	return same, behind, near
}
