package shared

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// code is a world as a number. Worlds with one code differ only in the order of nodes or clients,
// which means nothing.
type code [3]uint64

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

const (
	fenceBits  = 2
	linkBits   = 2 + 1 + 1 + 2*fenceBits
	plainBits  = 3 + 2 + 3 + fenceBits
	clientBits = 3 + 2 + linkBits // of one client in a column
	columnBits = plainBits + maxClients*clientBits
	headBits   = 3 + 2 + 1 + 3*fenceBits
	tailBits   = maxFence + fenceBits + 1
)

// Of the size that is left, columns and heads must fit in.
const _ = uint(64*len(code{}) - maxNodes*columnBits - maxClients*headBits - tailBits)

func (l *link) bits() uint64 {
	return uint64(l.promise) | bit(l.vote)<<2 | bit(l.closed)<<3 | uint64(l.answers)<<4
}

func linkOf(v uint64) link {
	return link{int8(v & 3), v>>2&1 == 1, v>>3&1 == 1, uint8(v >> 4)}
}

func (c *client) head() uint64 {
	return uint64(c.phase) | uint64(c.mode)<<3 | bit(c.waits)<<5 | uint64(c.target)<<6 |
		uint64(c.floorRead)<<(6+fenceBits) | uint64(c.floorWrite)<<(6+2*fenceBits)
}

// Encode sorts clients by their heads, and nodes by everything about them. It tries all orders of
// clients with the same head, and takes the smallest code.
func (x *explorer) Encode(w *world) code {
	var heads [maxClients]uint64
	for c := range x.Clients {
		heads[c] = w.clients[c].head()
	}
	best, first := code{}, true
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
		if c := x.encodeIn(w, order, &heads); first || slices.Compare(c[:], best[:]) < 0 {
			best, first = c, false
		}
	}
	return best
}

func (x *explorer) encodeIn(w *world, order []int, heads *[maxClients]uint64) code {
	var renamed [stray + 1]Value
	renamed[marker], renamed[stray] = marker, stray
	for to, c := range order {
		renamed[valueOf(c)] = valueOf(to)
	}
	var columns [maxNodes]uint64
	for n := range x.Nodes {
		columns[n] = w.column(n, order, &renamed)
	}
	slices.Sort(columns[:x.Pilots])
	slices.Sort(columns[x.Pilots:x.Nodes])
	var p search.Packer[code]
	for n := range x.Nodes {
		p.Put(columnBits, columns[n])
	}
	for _, c := range order {
		p.Put(headBits, heads[c])
	}
	p.Put(tailBits, uint64(w.written)|uint64(w.read)<<maxFence|uint64(w.faults)<<(maxFence+fenceBits))
	return p.Code
}

// column is everything about one node, in columnBits.
func (w *world) column(n int, order []int, renamed *[stray + 1]Value) uint64 {
	at := &w.nodes[n]
	intent := uint64(0)
	if at.intent != nobody {
		intent = uint64(renamed[at.intent] - firstClient + 1)
	}
	v := uint64(renamed[at.key]) | uint64(at.left)<<3 | intent<<5 | uint64(at.fence)<<8
	shift := uint(plainBits)
	for i, c := range order {
		one := uint64(at.members[c])
		if waiter := at.waiting[i]; waiter != nobody {
			one |= uint64(renamed[waiter]-firstClient+1) << 3
		}
		v |= (one | w.clients[c].links[n].bits()<<5) << shift
		shift += clientBits
	}
	return v
}

// Decode returns the world of a code.
func (x *explorer) Decode(c code) (w world) {
	p := search.Packer[code]{Code: c}
	for n := range x.Nodes {
		at := &w.nodes[n]
		at.key, at.left = Value(p.Take(3)), int8(p.Take(2))
		if intent := Value(p.Take(3)); intent != nobody {
			at.intent = intent - 1 + firstClient
		}
		at.fence = int8(p.Take(fenceBits))
		for i := range maxClients {
			at.members[i] = int8(p.Take(3))
			if waiter := Value(p.Take(2)); waiter != nobody {
				at.waiting[i] = waiter - 1 + firstClient
			}
			w.clients[i].links[n] = linkOf(p.Take(linkBits))
		}
	}
	for i := range x.Clients {
		one := &w.clients[i]
		one.phase, one.mode, one.waits = phase(p.Take(3)), mode(p.Take(2)), p.Take(1) == 1
		one.target, one.floorRead, one.floorWrite = int8(p.Take(fenceBits)), int8(p.Take(fenceBits)), int8(p.Take(fenceBits))
	}
	w.written, w.read, w.faults = uint8(p.Take(maxFence)), int8(p.Take(fenceBits)), uint8(p.Take(1))
	return w
}
