package memory

import "github.com/redquorum/redquorum/internal/proof/search"

// code is a world as a number. Worlds with one code differ only in the order of nodes or clients,
// and in the numbers of incarnations, none of which means anything.
type code [4]uint64

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// The first bits are without names, so they tell nodes apart in any order.
const (
	plainMemory, memoryBits = 6, plainMemory + 4 + 2 + maxClients + 2
	plainNode, nodeBits     = 4, plainNode + memoryBits
	plainLink, linkBits     = 12, plainLink + 4
)

func (m *memory) bits() uint64 {
	return uint64(m.state) | bit(m.durable)<<2 | bit(m.replid)<<3 | bit(m.told)<<4 | bit(m.taken)<<5 |
		uint64(m.incarnation)<<6 | uint64(m.run)<<10 | uint64(m.wait)<<12 | uint64(m.key)<<15
}

func memoryOf(v uint64) memory {
	return memory{
		state: State(v & 3), durable: v>>2&1 == 1, replid: v>>3&1 == 1, told: v>>4&1 == 1, taken: v>>5&1 == 1,
		incarnation: uint8(v >> 6 & 15), run: uint8(v >> 10 & 3), wait: uint8(v >> 12 & 7), key: uint8(v >> 15 & 3),
	}
}

func (m *node) bits() uint64 {
	return bit(m.durable) | bit(m.promoted)<<1 | bit(m.whole)<<2 | bit(m.hurt)<<3 | m.memory.bits()<<plainNode
}

func nodeOf(v uint64) node {
	return node{
		memory: memoryOf(v >> plainNode), durable: v&1 == 1, promoted: v>>1&1 == 1, whole: v>>2&1 == 1,
		hurt: v>>3&1 == 1,
	}
}

func (l *link) bits() uint64 {
	return uint64(l.stage) | uint64(l.verdict)<<2 | uint64(l.seen)<<5 | bit(l.own)<<7 | bit(l.known)<<8 |
		bit(l.again)<<9 | uint64(l.vote)<<10 | uint64(l.incarnation)<<plainLink
}

func linkOf(v uint64) link {
	return link{
		stage: stage(v & 3), verdict: Verdict(v >> 2 & 7), seen: State(v >> 5 & 3), own: v>>7&1 == 1,
		known: v>>8&1 == 1, again: v>>9&1 == 1, vote: vote(v >> 10 & 3), incarnation: uint8(v >> plainLink & 15),
	}
}

func (x *explorer) pack(w *world) code {
	var p search.Packer[code]
	for n := range w.nodes {
		p.Put(nodeBits, w.nodes[n].bits())
	}
	for i := range x.Copies {
		p.Put(2, uint64(w.copies[i].owner))
		p.Put(memoryBits, w.copies[i].bits())
	}
	for c := range x.Clients {
		one := &w.clients[c]
		p.Put(3, uint64(one.phase)|bit(one.activating)<<2)
		for n := range one.links {
			p.Put(linkBits, one.links[n].bits())
		}
	}
	p.Put(4, uint64(w.faults)|uint64(w.restarts)<<2)
	return p.Code
}

// Decode returns the world of a code.
func (x *explorer) Decode(c code) (w world) {
	p := search.Packer[code]{Code: c}
	for n := range w.nodes {
		w.nodes[n] = nodeOf(p.Take(nodeBits))
	}
	for i := range x.Copies {
		w.copies[i].owner = uint8(p.Take(2))
		w.copies[i].memory = memoryOf(p.Take(memoryBits))
	}
	for c := range x.Clients {
		one := &w.clients[c]
		head := p.Take(3)
		one.phase, one.activating = phase(head&3), head>>2 == 1
		for n := range one.links {
			one.links[n] = linkOf(p.Take(linkBits))
		}
	}
	tail := p.Take(4)
	w.faults, w.restarts = uint8(tail&3), uint8(tail>>2)
	return w
}

// bits is the length of a code.
func (x *explorer) bits() uint {
	return nodes*nodeBits + uint(x.Copies)*(2+memoryBits) + uint(x.Clients)*(3+nodes*linkBits) + 4
}
