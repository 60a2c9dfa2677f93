package redlock

import "math/bits"

// decideToken finds the fencing token of an acquisition: the largest fence among the nodes that granted it, a quorum at
// least. It is the caller's once a quorum of all nodes is at it: of any two such quorums one node is in both, and that node has
// given the later one a larger number. Below has the nodes that must be raised to the token first (raise.lua), and is empty where none
// need to be.
//
// A quorum of the nodes that granted would not do: two such need not have a node in common.
func decideToken(fences []int64, granted uint64) (token int64, at, below uint64) {
	for i, fence := range fences {
		switch bit := uint64(1) << i; {
		case granted&bit == 0:
		case fence > token:
			token, at, below = fence, bit, below|at
		case fence == token:
			at |= bit
		default:
			below |= bit
		}
	}
	if bits.OnesCount64(at) >= quorum(len(fences)) {
		below = 0
	}
	return token, at, below
}
