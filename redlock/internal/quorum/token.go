package quorum

import (
	"math"
	"time"
)

// How far fences may be apart, in microseconds. The scripts have the same numbers.
const (
	// RaiseReach is how far ahead of a node that is right a fence may be so that the node surely
	// follows it: raise.lua goes 20 s ahead of the node's clock, and a grant is within 10 s of
	// that.
	RaiseReach = int64(10 * time.Second / time.Microsecond)

	// anyReach is for when nothing nearer is left. The nodes decide, then.
	anyReach = math.MaxInt64

	// A counter that is more than MendBeyond past a token is brought back to MendAhead past it
	// (mend.lua).
	MendBeyond = 2 * MendAhead
	MendAhead  = int64(time.Minute / time.Microsecond)
)

// RaiseWithin is how long after its beginning an attempt may still raise fences. It takes two node
// timeouts; one that is later was paused.
const RaiseWithin = 10 * time.Second

// DecideToken finds the fencing token of an acquisition among the fences of the nodes that granted
// it. It is the caller's once a quorum of all nodes is at it: of any two such quorums one node is
// in both, and that node has given the later one a larger number. So which number it is makes no
// difference to safety, but whether a quorum can get there does.
//
// Where a quorum is at one number, that is the token. Otherwise it is the largest that a quorum is
// at, or behind by reach at most: what is ahead of that is the failure of a minority, and is not
// followed. Below has the nodes that must be raised to the token first (raise.lua), and is empty
// where none need to be. The token is 0 where there is none.
//
// A quorum of the nodes that granted would not do: two such need not have a node in common.
func DecideToken(fences []int64, granted NodeSet, reach int64) (token int64, at, below NodeSet) {
	need := Need(len(fences))
	for i, fence := range fences {
		if !granted.Has(i) {
			continue
		}
		same, behind, near := nodesUpTo(fence, fences, granted, reach)
		switch {
		case same.Len() >= need: // there is but one such number
			return fence, same, 0
		case near >= need && fence > token:
			token, at, below = fence, same, behind
		}
	}
	return token, at, below
}

// maxRaises is how often an attempt raises: in the first place; without the nodes where that went
// to; and with all there is.
const maxRaises = 3

// NextToken is DecideToken for an attempt that may have raised in vain: because the token was too
// far ahead, or one of the nodes behind it did not follow. Before it raises again it hears all
// nodes.
func NextToken(fences []int64, granted, ahead NodeSet, raises int, all bool) (token int64, at, below NodeSet) {
	token, at, below = DecideToken(fences, granted, RaiseReach)
	switch {
	case token != 0 && below.Empty(), raises == 0 && !all:
		return token, at, below
	case !all || raises == maxRaises:
		return 0, 0, 0
	}
	if raises == 1 {
		if other, at, below := DecideToken(fences, granted.Minus(ahead), RaiseReach); other != 0 {
			return other, at, below
		}
	}
	if token == 0 {
		return DecideToken(fences, granted, anyReach)
	}
	return token, at, below
}

// nodesUpTo returns which of the granting nodes are at a fence and which behind it, and how many of
// them not further than reach.
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
