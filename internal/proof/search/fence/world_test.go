package fence

import (
	"math/bits"

	"github.com/redquorum/redquorum/internal/proof/search"
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

// Names says that a value is a client's.
func (Value) Names() string { return "client+2" }

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
	phase       phase
	adopts      bool
	coordinator int8 `search:"node"` // it waits at, plus one; 0 for none
	target      int8 // of the second round
	floor       int8 // the largest token of the acquisitions that were over when the attempt began

	// While asking, bit f-1 of answers[n] is a grant of f by node n. While raising, it holds
	// isBelow and isAt.
	answers [maxNodes]uint8 `search:"nodes"`
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
	nodes   [maxNodes]nodeState `search:"nodes"`
	clients [maxClients]client  `search:"clients"`
	tokens  uint16              // bit t-1: the token t was acquired
}

// end makes a client idle. What its attempt left behind is the ghost's.
func (w *world) end(c int) {
	w.clients[c] = client{}
	for n := range w.nodes {
		at := &w.nodes[n]
		if at.key == valueOf(c) {
			at.key = ghost
		}
		kept := 0
		for _, waiter := range at.waiting {
			if waiter != valueOf(c) {
				at.waiting[kept] = waiter
				kept++
			}
		}
		clear(at.waiting[kept:])
	}
}

// aim begins the second round.
func (c *client) aim(target int8) {
	was := c.answers
	c.phase, c.target, c.answers = raising, target, [maxNodes]uint8{}
	for n, grants := range was {
		for ; grants != 0; grants &= grants - 1 {
			c.note(n, int64(bits.TrailingZeros8(grants))+1)
		}
	}
}

// note records a grant, or a raise that succeeded.
func (c *client) note(n int, fence int64) {
	switch {
	case c.phase == asking:
		c.answers[n] |= 1 << (fence - 1)
	case fence < int64(c.target):
		c.answers[n] |= isBelow
	case fence == int64(c.target):
		c.answers[n] |= isAt
	}
}

func largest(tokens uint16) int8 { return int8(bits.Len16(tokens)) }

// Alike says that nodes and clients may change places.
func (x *explorer) Alike() search.Alike {
	return search.Alike{Nodes: search.Same(x.Nodes), Clients: search.Same(x.Clients)}
}
