package handoff

import (
	"math/bits"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Pilots finds the pilot of a name: the node at which its waiters queue.
type Pilots struct {
	clock   clock.Clock
	nodes   []*pipeline.Node
	voting  func() quorum.NodeSet
	hashes  []uint64 // of the endpoints
	breaker breaker
}

// NewPilots returns the pilots among some nodes; voting returns whose votes count.
func NewPilots(clk clock.Clock, nodes []*pipeline.Node, voting func() quorum.NodeSet) *Pilots {
	p := &Pilots{clock: clk, nodes: nodes, voting: voting}
	p.breaker.nodes = make([]trips, len(nodes))
	for _, node := range nodes {
		p.hashes = append(p.hashes, hash(node.Endpoint()))
	}
	return p
}

// Up returns the nodes that are up.
func (p *Pilots) Up() (nodes quorum.NodeSet) {
	for i, n := range p.nodes {
		if n.State() == pipeline.Up {
			nodes.Add(i)
		}
	}
	return nodes
}

// QuorumIsUp reports whether enough nodes are up, with votes that count, for a quorum to answer.
func (p *Pilots) QuorumIsUp() bool {
	return p.voting().And(p.Up()).Len() >= quorum.Need(len(p.nodes))
}

// Of returns the pilot of a key among some nodes: the first by weight that is up and whose vote
// counts. A node with an open breaker comes last. Clients may disagree on the pilot; then their
// waiters queue at several nodes, and a round decides between them as usual.
func (p *Pilots) Of(key string, among quorum.NodeSet) (node int, found bool) {
	among = among.And(p.voting()).And(p.Up())
	if among.Empty() {
		return 0, false
	}
	if better := among.Minus(p.breaker.open(p.clock.Now())); !better.Empty() {
		among = better
	}
	return p.heaviest(key, among), true
}

// First returns the pilot of a key while all nodes are well.
func (p *Pilots) First(key string) (node int) { return p.heaviest(key, quorum.All(len(p.nodes))) }

// heaviest returns the node with the largest weight among some nodes, at least one.
func (p *Pilots) heaviest(key string, among quorum.NodeSet) (node int) {
	var heaviest uint64
	keyHash := hash(key)
	for i := range p.nodes {
		if !among.Has(i) {
			continue
		}
		if weight := pilotWeight(p.hashes[i], keyHash); weight >= heaviest {
			node, heaviest = i, weight
		}
	}
	return node
}

// pilotWeight is a node's weight for a key in rendezvous hashing (Thaler and Ravishankar, 1998).
// All clients find the same order of the nodes, in whatever order they list them; each key has an
// order of its own; and a node that is away moves only the keys that it is first for. It mixes the
// hashes of endpoint and key with the last step of MurmurHash3.
func pilotWeight(endpoint, key uint64) uint64 {
	x := endpoint ^ bits.RotateLeft64(key, 32)
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
