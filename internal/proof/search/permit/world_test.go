package permit

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

const (
	nodes       = 3
	quorum      = 2
	maxClients  = 3
	permits     = 2 // at most, in a search
	coordinator = 0 // where messages are in order (Calm); otherwise any node may be the coordinator
)

// A value is the value of a slot's key: one of a client's current attempt, or of an attempt that is
// over, or of a client that is never heard of again.
type value uint8

const (
	nobody value = iota
	over         // nodes cannot tell the attempts that are over apart, so they share one value
	dead
	firstClient
	firstGone = firstClient + maxClients
)

// Names says that a value is a client's.
func (value) Names() string { return "client+3" }

func valueOf(c int) value { return firstClient + value(c) }

// goneOf returns the value of what a client's attempts left behind that are over. Its releases are
// under way. Only where messages are in order does it matter whose they are.
func goneOf(c int) value { return firstGone + value(c) }

func (v value) isClient() bool { return v >= firstClient && v < firstGone }
func (v value) isGone() bool   { return v >= firstGone }

// A phase is how far a client's attempt is.
type phase uint8

const (
	idle       phase = iota // no attempt, or nothing of it has arrived anywhere
	trying                  // asks all nodes for any slot
	waiting                 // asks one node for any slot, or for a place on its list
	queued                  // is on that list (only where messages are in order)
	woken                   // was given a slot there, and told (only where messages are in order)
	collecting              // asks all nodes for one slot
	holding
)

// A vote is what a client knows of a node: the slot that it got there, or one of these.
type vote = int8

const (
	unknown vote = 0
	refused vote = 3
)

// A client makes one attempt after the other, each under its own value. The zero client is idle.
type client struct {
	phase phase
	slot  int8        `search:"other"` // that it collects, holds or was given; 0 for none
	at    int8        `search:"node"`  // at which it waits or waited, plus one; 0 for none
	votes [nodes]vote `search:"nodes, other"`
	ext   uint8       `search:"bits of nodes"` // that voted for the extension that is under way

	// Only where messages are in order:
	first int8         // the slot that it asks for first
	free  [nodes]uint8 // the slots that were free where it was answered, a bit each
	ahead uint8        // the clients that were on the coordinator's list when this one came, a bit each
}

// A nodeState is what one node keeps.
type nodeState struct {
	spec.Semaphore[value]
	firm uint8 `search:"bits of others"` // slots whose key lives at least as long as the attempt of its value

	// The attempts and locks, and the extensions, that were under way when the node last lost its
	// data. As long as there are any, the node has no vote.
	lost, lostExt uint8 `search:"bits of clients"`
}

type world struct {
	nodes   [nodes]nodeState   `search:"nodes"`
	clients [maxClients]client `search:"clients"`
	losses  uint8              // of data, or crashes, that may still come
	calls   uint8              // that may still come, where messages are in order
}

func bitOf(i int) uint8 { return 1 << i }

// alive reports whether the process of a waiter listens.
func alive(v value) bool { return v != dead }

// votes counts those for a slot.
func (c *client) count(slot int8) (n int) {
	for _, v := range c.votes {
		if v == slot {
			n++
		}
	}
	return n
}

// end ends the attempt of a client, or its lock. What it leaves behind gets another value.
func (w *world) end(c int, left value) {
	w.clients[c] = client{}
	w.disown(c, left)
	for n := range w.nodes {
		m := &w.nodes[n]
		m.lost &^= bitOf(c)
		m.lostExt &^= bitOf(c)
	}
}

// disown gives all that is a client's another value.
func (w *world) disown(c int, to value) {
	for n := range w.nodes {
		m := &w.nodes[n]
		for i := range permits {
			if m.Slots[i] == valueOf(c) {
				m.Slots[i] = to
				m.firm &^= bitOf(i)
			}
		}
		for i := range m.Waiting {
			if m.Waiting[i] == valueOf(c) {
				m.Waiting[i] = to
			}
		}
	}
}

// given marks the slots that were handed over: they live for the grace only.
func (m *nodeState) given(g spec.Given[value]) {
	for i := range permits {
		if m.Slots[i] == nobody || g[i] != nobody {
			m.firm &^= bitOf(i)
		}
	}
}

// Alike says that nodes may change places, clients that ask for the same number of permits, and
// slots that all of them ask for.
func (x *explorer) Alike() search.Alike {
	alike := search.Alike{Nodes: search.Same(nodes), Clients: x.Permits, Others: []int{0, 1}}
	if x.LaxNode {
		alike.Nodes = []int{0, 1, 2}
	}
	if x.Permits[0] == permits {
		alike.Others = search.Same(permits)
	}
	return alike
}
