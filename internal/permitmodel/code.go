package permitmodel

// code is a world as a number. Worlds with one code differ only in the order of nodes, clients or
// slots, as far as that means nothing.
type code [3]uint64

// packer writes numbers into a code, and reads them.
type packer struct {
	code code
	used uint
}

func (p *packer) put(size uint, v uint64) {
	word, at := p.used/64, p.used%64
	p.used += size
	p.code[word] |= v << at
	if at+size > 64 {
		p.code[word+1] |= v >> (64 - at)
	}
}

func (p *packer) take(size uint) uint64 {
	word, at := p.used/64, p.used%64
	p.used += size
	v := p.code[word] >> at
	if at+size > 64 {
		v |= p.code[word+1] << (64 - at)
	}
	return v & (1<<size - 1)
}

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
	var p packer
	for n := range w.nodes {
		p.put(nodeBits, w.nodes[n].bits())
	}
	for c := range clients {
		p.put(headBits, w.clients[c].head())
		for n := range w.nodes {
			p.put(linkBits, w.link(c, n))
		}
		if calm {
			p.put(maxClients, uint64(w.clients[c].ahead))
			for _, free := range w.clients[c].free {
				p.put(permits, uint64(free))
			}
		}
	}
	p.put(2, uint64(w.losses))
	p.put(3, uint64(w.calls))
	return p.code
}

func unpack(k code, clients int, calm bool) (w world) {
	p := packer{code: k}
	for n := range w.nodes {
		w.nodes[n].read(p.take(nodeBits))
	}
	for c := range clients {
		one := &w.clients[c]
		head := p.take(headBits)
		one.phase, one.slot, one.at, one.first = phase(head&7), int8(head>>3&3), int8(head>>5&3), int8(head>>7)
		for n := range w.nodes {
			link := p.take(linkBits)
			m := &w.nodes[n]
			one.votes[n] = vote(link & 3)
			one.ext |= uint8(link>>2&1) << n
			m.lost |= uint8(link>>3&1) << c
			m.lostExt |= uint8(link>>4&1) << c
		}
		if calm {
			one.ahead = uint8(p.take(maxClients))
			for n := range one.free {
				one.free[n] = uint8(p.take(permits))
			}
		}
	}
	w.losses, w.calls = uint8(p.take(2)), uint8(p.take(3))
	return w
}
