package wait

import (
	"math/bits"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Coordinators finds the coordinator of a name: the node at which its waiters queue. Any goroutine
// may ask: but for the breaker, which has a mutex of its own, nothing in it changes. What it says
// is of this moment.
type Coordinators struct {
	clock   clock.Clock
	members Members
	breaker breaker
}

// NewCoordinators returns the coordinators among some nodes.
func NewCoordinators(clk clock.Clock, ms Members) *Coordinators {
	return &Coordinators{clock: clk, members: ms}
}

// Up returns the nodes that are up.
func (p *Coordinators) Up() (nodes quorum.NodeSet) {
	for i, n := range p.members.Nodes() {
		if n.State() == pipeline.Up {
			nodes.Add(i)
		}
	}
	return nodes
}

// QuorumIsUp reports whether enough nodes are up, with votes that count, for a quorum to answer.
func (p *Coordinators) QuorumIsUp() bool {
	view := p.members.View()
	return view.Voting.And(p.Up()).Len() >= view.Need()
}

// Of returns the coordinator of a key among some nodes: the first by weight that is up and whose
// vote counts. A node with an open breaker comes last. Clients may disagree on the coordinator;
// then their waiters queue at several nodes, and a round decides between them as usual.
func (p *Coordinators) Of(key string, among quorum.NodeSet) (node int, found bool) {
	among = among.And(p.members.View().Voting).And(p.Up())
	if among.Empty() {
		return 0, false
	}
	if better := among.Minus(p.breaker.open(p.clock.Now())); !better.Empty() {
		among = better
	}
	return p.heaviest(key, among), true
}

// First returns the coordinator of a key while all nodes are well.
func (p *Coordinators) First(key string) (node int) {
	return p.heaviest(key, p.members.View().Members())
}

// heaviest returns the node with the largest weight among some nodes, at least one.
func (p *Coordinators) heaviest(key string, among quorum.NodeSet) (node int) {
	var heaviest uint64
	keyHash, view := members.Hash(key), p.members.View()
	for i := range among.Nodes() {
		if weight := coordinatorWeight(view.Hash(i), keyHash); weight >= heaviest {
			node, heaviest = i, weight
		}
	}
	return node
}

// coordinatorWeight is a node's weight for a key in rendezvous hashing (Thaler and Ravishankar,
// 1998). All clients find the same order of the nodes, in whatever order and by whatever name they
// list them; each key has an order of its own; and a node that is away moves only the keys that it
// is first for. It mixes the hashes of member and key with the last step of MurmurHash3.
func coordinatorWeight(member, key uint64) uint64 {
	x := member ^ bits.RotateLeft64(key, 32)
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// breaker keeps waiters of this process from taking a node as their coordinator for a while after
// it failed a waiter or answered late twice in a row. So a node that is up but does not answer
// costs one of them a node timeout now and then, and a slow node does not slow down every
// hand-over.
//
// One late answer says little about a node: whenever a process is not run for a moment, all
// answers to it are late. And passing over a coordinator that others keep has its price: two nodes
// then hand votes over, and the votes split at every release until the breaker closes.
type breaker struct {
	mu    sync.Mutex // guards the fields below
	nodes [quorum.MaxNodes]trips
	usual time.Duration // what a quorum takes; 0 while that is unknown
}

// trips says how often a node's breaker has tripped in a row, and until when it is open.
type trips struct {
	until clock.Instant
	times int
	late  bool // the last answer was late, and the first such
}

// A breaker trips at once, and stays open for longer each time that it trips again.
const (
	tripMin = 2 * time.Second
	tripMax = time.Minute

	// LateAfter is the least time after which a node counts as late. A coordinator is late when it
	// takes longer than this plus several rounds.
	LateAfter  = 20 * time.Millisecond
	lateRounds = 4

	usualShare = 16 // weight of a round that took longer
)

// Took notes how long a quorum took. A round that was faster than usual counts at once. A slower
// one may have had to wait for the very node in question, so it counts slowly.
func (p *Coordinators) Took(d time.Duration) {
	b := &p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usual == 0 || d < b.usual {
		b.usual = d
	} else {
		b.usual += (d - b.usual) / usualShare
	}
}

// Judge takes how long a coordinator took to answer, and reports whether it is passed over for a
// while.
func (p *Coordinators) Judge(node int, d time.Duration, answered bool) (late bool) {
	b := &p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.nodes[node]
	if answered && (b.usual == 0 || d < LateAfter+lateRounds*b.usual) {
		n.times, n.late = 0, false
		return false
	}
	if answered && n.times == 0 && !n.late {
		n.late = true
		return false
	}
	n.until = p.clock.Now().Add(min(tripMin<<n.times, tripMax))
	n.times = min(n.times+1, 8) // keeps the shift small
	return true
}

// open returns the nodes whose breaker is open.
func (b *breaker) open(now clock.Instant) (nodes quorum.NodeSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.nodes {
		if b.nodes[i].until > now {
			nodes.Add(i)
		}
	}
	return nodes
}
