package quorum

import (
	"iter"
	"math/bits"
)

// MaxNodes is the most nodes that a [NodeSet] can hold.
const MaxNodes = 64

// NodeSet is a set of nodes, by their positions (members/positions.go).
type NodeSet uint64

// All returns the set of the first n nodes.
func All(n int) NodeSet { return ^NodeSet(0) >> (MaxNodes - n) }

// Only returns the set that contains just one node.
func Only(node int) NodeSet { return 1 << node }

// Has reports whether a node is in the set.
func (s NodeSet) Has(node int) bool { return s>>node&1 == 1 }

// Add puts a node into the set.
func (s *NodeSet) Add(node int) { *s |= 1 << node }

// Remove takes a node out of the set.
func (s *NodeSet) Remove(node int) { *s &^= 1 << node }

// Or returns the nodes that are in either set.
func (s NodeSet) Or(t NodeSet) NodeSet { return s | t }

// And returns the nodes that are in both sets.
func (s NodeSet) And(t NodeSet) NodeSet { return s & t }

// Minus returns the nodes of s that are not in t.
func (s NodeSet) Minus(t NodeSet) NodeSet { return s &^ t }

// Empty reports whether there is no node in the set.
func (s NodeSet) Empty() bool { return s == 0 }

// Len returns how many nodes are in the set.
func (s NodeSet) Len() int { return bits.OnesCount64(uint64(s)) }

// Nodes yields the nodes of the set, in ascending order.
func (s NodeSet) Nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for left := s; left != 0; left &= left - 1 {
			if !yield(bits.TrailingZeros64(uint64(left))) {
				return
			}
		}
	}
}
