package handoff

import (
	"math/bits"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Pilots finds the pilot of a name: the node at which its waiters queue.
type Pilots struct {
	clock   clock.Clock
	members Members
	breaker breaker
}

// NewPilots returns the pilots among some nodes.
func NewPilots(clk clock.Clock, ms Members) *Pilots { return &Pilots{clock: clk, members: ms} }

// Up returns the nodes that are up.
func (p *Pilots) Up() (nodes quorum.NodeSet) {
	for i, n := range p.members.Nodes() {
		if n.State() == pipeline.Up {
			nodes.Add(i)
		}
	}
	return nodes
}

// QuorumIsUp reports whether enough nodes are up, with votes that count, for a quorum to answer.
func (p *Pilots) QuorumIsUp() bool {
	view := p.members.View()
	return view.Voting.And(p.Up()).Len() >= view.Need()
}

// Of returns the pilot of a key among some nodes: the first by weight that is up and whose vote
// counts. A node with an open breaker comes last. Clients may disagree on the pilot; then their
// waiters queue at several nodes, and a round decides between them as usual.
func (p *Pilots) Of(key string, among quorum.NodeSet) (node int, found bool) {
	among = among.And(p.members.View().Voting).And(p.Up())
	if among.Empty() {
		return 0, false
	}
	if better := among.Minus(p.breaker.open(p.clock.Now())); !better.Empty() {
		among = better
	}
	return p.heaviest(key, among), true
}

// First returns the pilot of a key while all nodes are well.
func (p *Pilots) First(key string) (node int) { return p.heaviest(key, p.members.View().Members()) }

// heaviest returns the node with the largest weight among some nodes, at least one.
func (p *Pilots) heaviest(key string, among quorum.NodeSet) (node int) {
	var heaviest uint64
	keyHash, view := members.Hash(key), p.members.View()
	for i := range among.Nodes() {
		if weight := pilotWeight(view.Hash(i), keyHash); weight >= heaviest {
			node, heaviest = i, weight
		}
	}
	return node
}

// pilotWeight is a node's weight for a key in rendezvous hashing (Thaler and Ravishankar, 1998).
// All clients find the same order of the nodes, in whatever order and by whatever name they list
// them; each key has an order of its own; and a node that is away moves only the keys that it is
// first for. It mixes the hashes of member and key with the last step of MurmurHash3.
func pilotWeight(member, key uint64) uint64 {
	x := member ^ bits.RotateLeft64(key, 32)
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
