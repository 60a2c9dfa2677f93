package permit

import "github.com/redquorum/redquorum/internal/proof/search"

// code is a world as a number. Worlds with one code differ only in the order of nodes, clients or
// slots, as far as that means nothing.
type code [3]uint64

const (
	nodeBits = 2 + permits*valueBits + MaxWaiting*valueBits + permits
	linkBits = 2 + 1 + 2 // between a client and a node: vote, extension, losses
	headBits = 3 + 2 + 2 + 2
)

func (m *nodeState) bits() (v uint64) {
	v = uint64(m.Permits) | uint64(m.firm)<<2
	at := 2 + permits
	for _, slot := range m.Slots[:permits] {
		v |= uint64(slot) << at
		at += valueBits
	}
	for _, waiting := range m.Waiting {
		v |= uint64(waiting) << at
		at += valueBits
	}
	return v
}

func (m *nodeState) read(v uint64) {
	m.Permits, m.firm = int(v&3), uint8(v>>2&(1<<permits-1))
	v >>= 2 + permits
	for i := range permits {
		m.Slots[i] = value(v & (1<<valueBits - 1))
		v >>= valueBits
	}
	for i := range m.Waiting {
		m.Waiting[i] = value(v & (1<<valueBits - 1))
		v >>= valueBits
	}
}

func (w *world) link(c, n int) uint64 {
	m := &w.nodes[n]
	return uint64(w.clients[c].votes[n]) | uint64(w.clients[c].ext>>n&1)<<2 | uint64(m.lost>>c&1)<<3 | uint64(m.lostExt>>c&1)<<4
}

func (c *client) head() uint64 {
	return uint64(c.phase) | uint64(c.slot)<<3 | uint64(c.at)<<5 | uint64(c.first)<<7
}

// pack writes a world into a code. calm says whether messages are in order, so that more of
// a client matters.
func pack(w *world, clients int, calm bool) code {
	var p search.Packer[code]
	for n := range w.nodes {
		p.Put(nodeBits, w.nodes[n].bits())
	}
	for c := range clients {
		p.Put(headBits, w.clients[c].head())
		for n := range w.nodes {
			p.Put(linkBits, w.link(c, n))
		}
		if calm {
			p.Put(maxClients, uint64(w.clients[c].ahead))
			for _, free := range w.clients[c].free {
				p.Put(permits, uint64(free))
			}
		}
	}
	p.Put(2, uint64(w.losses))
	p.Put(3, uint64(w.calls))
	return p.Code
}

func unpack(k code, clients int, calm bool) (w world) {
	p := search.Packer[code]{Code: k}
	for n := range w.nodes {
		w.nodes[n].read(p.Take(nodeBits))
	}
	for c := range clients {
		one := &w.clients[c]
		head := p.Take(headBits)
		one.phase, one.slot, one.at, one.first = phase(head&7), int8(head>>3&3), int8(head>>5&3), int8(head>>7)
		for n := range w.nodes {
			link := p.Take(linkBits)
			m := &w.nodes[n]
			one.votes[n] = vote(link & 3)
			one.ext |= uint8(link>>2&1) << n
			m.lost |= uint8(link>>3&1) << c
			m.lostExt |= uint8(link>>4&1) << c
		}
		if calm {
			one.ahead = uint8(p.Take(maxClients))
			for n := range one.free {
				one.free[n] = uint8(p.Take(permits))
			}
		}
	}
	w.losses, w.calls = uint8(p.Take(2)), uint8(p.Take(3))
	return w
}
