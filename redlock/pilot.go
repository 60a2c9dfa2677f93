package redlock

import (
	"math/bits"

	"github.com/redquorum/redquorum/pool"
)

// pilotWeight is a node's weight for a key in rendezvous hashing (Thaler and Ravishankar, 1998): all clients find the same order of the nodes,
// in whatever order they list them, each key has another one, and a node that is away moves only the keys that it is first for.
// It takes the hashes of endpoint and key, and mixes them by the last step of MurmurHash3.
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

// quorumIsUp reports whether so many nodes are up, and count, that a quorum could answer.
func (l *Locker) quorumIsUp() bool {
	return bits.OnesCount64(l.voters.counted(l.up())) >= quorum(len(l.nodes))
}

// up has the bits of the nodes that are up.
func (l *Locker) up() (nodes uint64) {
	for i, n := range l.nodes {
		if n.State() == pool.Up {
			nodes |= 1 << i
		}
	}
	return nodes
}

// pilot returns the node at which those who want a key form up: of those in the mask, the first by weight that is up and whose vote
// counts. Clients may disagree on that; then they form up at several nodes, and a round decides between them as ever.
func (l *Locker) pilot(key string, among uint64) (node int, found bool) {
	among = l.voters.counted(among)
	for i, n := range l.nodes {
		if n.State() != pool.Up {
			among &^= 1 << i
		}
	}
	if among == 0 {
		return 0, false
	}
	if better := among &^ l.shunned.at(l.clock.Now()); better != 0 {
		among = better
	}
	return l.heaviest(key, among), true
}

// heaviest returns the first by weight of some nodes, one at least.
func (l *Locker) heaviest(key string, among uint64) (node int) {
	var heaviest uint64
	keyHash := hash(key)
	for i := range l.nodes {
		if among>>i&1 == 0 {
			continue
		}
		if weight := pilotWeight(l.hashes[i], keyHash); weight >= heaviest {
			node, heaviest = i, weight
		}
	}
	return node
}
