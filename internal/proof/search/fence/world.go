package fence

import (
	"cmp"
	"slices"
)

const (
	maxNodes   = 5
	maxClients = 3
	maxFence   = 5
)

// A Value is the value of a key in a search: one of a client's current attempt, or the ghost.
//
// The ghost stands for all attempts that are over, acquired or not. Nodes cannot tell them apart,
// and nobody accepts their answers any more, but what they sent may still arrive. It is there from
// the beginning: a search begins in a world that is not new. A ghost in a list of waiters would
// make no difference, because only a ghost releases: handing it the key leaves the key with the
// ghost.
type Value uint8

const (
	nobody Value = iota
	ghost
	firstClient
)

const ghostClient = -1

func valueOf(client int) Value { return firstClient + Value(client) }

// A phase is how far a client's attempt is.
type phase uint8

const (
	idle    phase = iota // no attempt
	asking               // first round
	raising              // second round
	mending              // has its token, and brings back nodes that are far ahead of it
)

// A client makes one attempt after the other, each under its own value. The zero client is idle.
//
// Everything that was ever sent to it stays on its way until the client has its decision: an answer
// that comes late, or never, is one that the decision does not look at. So one set of bits per node
// holds all answers there are.
type client struct {
	phase  phase
	adopts bool
	pilot  int8 // the node it waits at, or nowhere
	target int8 // of the second round
	floor  int8 // the largest token of the acquisitions that were over when the attempt began

	// While asking, bit f-1 of answers[n] is a grant of f by node n. While raising, it holds
	// isBelow and isAt.
	answers [maxNodes]uint8
}

const (
	isBelow uint8 = 1 << iota // a grant below the target: a raise is on its way
	isAt                      // a grant of the target, or a raise that succeeded
)

// A nodeState is what one node keeps.
type nodeState struct {
	key     Value
	fence   int8
	waiting [maxClients]Value // the oldest first, then nobody
}

type world struct {
	nodes   [maxNodes]nodeState
	clients [maxClients]client
	tokens  uint8 // bit t-1: the token t was acquired
}

// code is a world as a number. Worlds with one code differ only in the order of nodes or clients,
// which means nothing.
type code [2]uint64

// packer writes numbers into a code.
type packer struct {
	code code
	used uint
}

func (p *packer) put(bits uint, v uint64) {
	word, at := p.used/64, p.used%64
	p.code[word] |= v << at
	if at+bits > 64 {
		p.code[word+1] |= v >> (64 - at)
	}
	p.used += bits
}

func (p *packer) take(bits uint) uint64 {
	word, at := p.used/64, p.used%64
	v := p.code[word] >> at
	if at+bits > 64 {
		v |= p.code[word+1] << (64 - at)
	}
	p.used += bits
	return v & (1<<bits - 1)
}

const (
	keyBits   = 3
	fenceBits = 3
	headBits  = 2 + 1 + 2*fenceBits
)

func (c *client) head() uint64 {
	h := uint64(c.phase) | uint64(c.floor)<<3 | uint64(c.target)<<(3+fenceBits)
	if c.adopts {
		h |= 1 << 2
	}
	return h
}

// valueBits is how many bits tell the clients' values and nobody apart.
func (x *explorer) valueBits() uint {
	if x.Clients == maxClients {
		return 2
	}
	return uint(x.Clients)
}

// Encode sorts clients by their heads, and nodes by everything about them. It tries all orders of
// clients with the same head, and takes the smallest code.
func (x *explorer) Encode(w *world) code {
	var heads [maxClients]uint64
	for c := range x.Clients {
		heads[c] = w.clients[c].head()
	}
	best := code{^uint64(0), ^uint64(0)}
	for _, order := range x.orders {
		sorted := true
		for i := 1; i < len(order) && sorted; i++ {
			a, b := order[i-1], order[i]
			// Idle clients are all the same, whatever their order.
			sorted = heads[a] > heads[b] || heads[a] == heads[b] && (heads[a] != 0 || a < b)
		}
		if !sorted {
			continue
		}
		if c := x.encodeIn(w, order, &heads); cmp.Or(cmp.Compare(c[0], best[0]), cmp.Compare(c[1], best[1])) < 0 {
			best = c
		}
	}
	return best
}

func (x *explorer) encodeIn(w *world, order []int, heads *[maxClients]uint64) code {
	var renamed [firstClient + maxClients]Value
	renamed[ghost] = ghost
	for to, c := range order {
		renamed[valueOf(c)] = valueOf(to)
	}
	var columns [maxNodes]uint64
	for n := range x.Nodes {
		columns[n] = x.column(w, n, order, &renamed)
	}
	slices.Sort(columns[:x.Nodes])
	var p packer
	for n := range x.Nodes {
		p.put(x.columnBits, columns[n])
	}
	for _, c := range order {
		p.put(headBits, heads[c])
	}
	p.put(maxFence, uint64(w.tokens))
	return p.code
}

// column is everything about one node, in columnBits.
func (x *explorer) column(w *world, n int, order []int, renamed *[firstClient + maxClients]Value) uint64 {
	at := &w.nodes[n]
	v := uint64(renamed[at.key]) | uint64(at.fence)<<keyBits
	shift := uint(keyBits + fenceBits)
	for i := range order {
		if waiter := at.waiting[i]; waiter != nobody {
			v |= uint64(renamed[waiter]-firstClient+1) << shift
		}
		shift += x.valueBits()
	}
	for _, c := range order {
		v |= uint64(w.clients[c].answers[n]) << shift
		shift += uint(x.MaxFence)
		if w.clients[c].phase != idle && int(w.clients[c].pilot) == n {
			v |= 1 << shift
		}
		shift++
	}
	return v
}

func (x *explorer) Decode(c code) (w world) {
	p := packer{code: c}
	for n := range x.Nodes {
		at := &w.nodes[n]
		at.key, at.fence = Value(p.take(keyBits)), int8(p.take(fenceBits))
		for i := range x.Clients {
			if waiter := Value(p.take(x.valueBits())); waiter != nobody {
				at.waiting[i] = waiter - 1 + firstClient
			}
		}
		for i := range x.Clients {
			w.clients[i].answers[n] = uint8(p.take(uint(x.MaxFence)))
			if p.take(1) == 1 {
				w.clients[i].pilot = int8(n) + 1 // zero is none, until the end
			}
		}
	}
	for i := range x.Clients {
		one := &w.clients[i]
		one.phase, one.adopts = phase(p.take(2)), p.take(1) == 1
		one.floor, one.target = int8(p.take(fenceBits)), int8(p.take(fenceBits))
		one.pilot--
	}
	w.tokens = uint8(p.take(maxFence))
	return w
}
