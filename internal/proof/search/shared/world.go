package shared

import (
	"github.com/redquorum/redquorum/internal/proof/search"
)

const (
	maxNodes   = 3
	maxClients = 3
	maxTTL     = 3
	maxFence   = 3
	fenceBits  = 2
)

// A Value is the value of a key in a search: the marker, or that of a client's present attempt.
type Value uint8

const (
	nobody Value = iota
	marker
	firstClient
	// stray is the value of intents that come at any time, from attempts of which nothing else is
	// left.
	stray = firstClient + maxClients
)

func valueOf(client int) Value { return firstClient + Value(client) }

// A mode is what a client wants.
type mode uint8

const (
	reader mode = iota
	writer
	foreign // a writer of another library
)

// A phase is how far a client's attempt is.
type phase uint8

const (
	idle    phase = iota // no attempt
	asking               // first round; of a reader, second round, too
	raising              // second round of a writer
	held
	over // given up, released, lost or crashed; what it sent and what it left may still be there
)

// A link is what is between a client and a node.
type link struct {
	// promise is for how many ticks the node has yet to keep what it last gave the client. It is
	// the judge's: neither the node nor the client looks at it.
	promise int8

	vote   bool // the client counts the node, until the promise ends
	closed bool // the attempt is over, and only its release is on its way to the node

	// While a writer asks, bit f-1 of answers is a grant of f. While it raises, answers holds
	// isBelow and isAt. A reader's answers are the smallest counter that it was granted, and the
	// largest that it was granted or that was raised for it, in fenceBits each.
	answers uint8
}

const (
	isBelow uint8 = 1 << iota // a grant below the target: a raise is on its way
	isAt                      // a grant of the target, or a raise that succeeded
)

func (l *link) lowest() int8  { return int8(l.answers & (1<<fenceBits - 1)) }
func (l *link) highest() int8 { return int8(l.answers >> fenceBits) }

// A client makes one attempt after the other, each under its own value. The next one begins when
// nothing of the last is left anywhere. The zero client is idle.
type client struct {
	phase      phase
	mode       mode
	waits      bool
	target     int8 // of a writer's second round
	floorRead  int8 // the largest tokens of the acquisitions that were over when the attempt began
	floorWrite int8
	links      [maxNodes]link
}

// A nodeState is what one node keeps.
type nodeState struct {
	key     Value
	left    int8             // for how many ticks the key lives
	members [maxClients]int8 // absent, expired, or one more than the ticks that the member lives
	intent  Value
	fence   int8
	waiting [maxClients]Value // the oldest first, then nobody
}

const (
	noMember = 0
	expired  = 1
)

type world struct {
	nodes   [maxNodes]nodeState
	clients [maxClients]client
	written uint8 // bit t-1: a writer has acquired with the token t
	read    int8  // the largest token with which a reader has acquired
	faults  uint8 // how many are still to come
}

// Alike says that clients may change places, and nodes at which clients wait, and all others.
func (x *explorer) Alike() search.Alike {
	alike := search.Alike{Nodes: search.Same(x.Nodes), Clients: search.Same(x.Clients)}
	for n := x.Pilots; n < x.Nodes; n++ {
		alike.Nodes[n] = 1
	}
	return alike
}

// Rename puts nodes and clients into another order.
func (x *explorer) Rename(w *world, order *search.Order) (to world) {
	to.written, to.read, to.faults = w.written, w.read, w.faults
	values := [stray + 1]Value{marker: marker, stray: stray}
	for i, c := range order.Clients {
		values[valueOf(c)] = valueOf(i)
		one, was := &to.clients[i], &w.clients[c]
		*one = *was
		for j, n := range order.Nodes {
			one.links[j] = was.links[n]
		}
	}
	for i, n := range order.Nodes {
		at, was := &to.nodes[i], &w.nodes[n]
		*at = nodeState{key: values[was.key], left: was.left, intent: values[was.intent], fence: was.fence}
		for j, c := range order.Clients {
			at.members[j], at.waiting[j] = was.members[c], values[was.waiting[j]]
		}
	}
	return to
}

// Sign tells nodes and clients apart by what does not depend on names.
func (x *explorer) Sign(w *world, c, n int) uint64 {
	if n == search.Nowhere {
		one := &w.clients[c]
		return uint64(one.phase) | uint64(one.mode)<<3 | search.Bits(one.waits)<<5 | uint64(one.target)<<6 |
			uint64(one.floorRead)<<8 | uint64(one.floorWrite)<<10
	}
	at := &w.nodes[n]
	if c == search.Nobody {
		return uint64(min(at.key, firstClient)) | uint64(at.left)<<2 | uint64(at.fence)<<4 |
			search.Bits(at.intent != nobody, at.intent == stray)<<6
	}
	l, v := &w.clients[c].links[n], valueOf(c)
	sign := search.Bits(l.vote, l.closed, at.key == v, at.intent == v) | uint64(l.promise)<<4 | uint64(l.answers)<<6 |
		uint64(at.members[c])<<14
	for i, waiter := range at.waiting {
		if waiter == v {
			sign |= 1 << (17 + i)
		}
	}
	return sign
}
