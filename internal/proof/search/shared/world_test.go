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

// Names says that a value is a client's.
func (Value) Names() string { return "client+2" }

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
	links      [maxNodes]link `search:"nodes"`
}

// A nodeState is what one node keeps.
type nodeState struct {
	key     Value
	left    int8             // for how many ticks the key lives
	members [maxClients]int8 `search:"clients"` // absent, expired, or one more than the ticks that the member lives
	intent  Value
	fence   int8
	waiting [maxClients]Value // the oldest first, then nobody
}

const (
	noMember = 0
	expired  = 1
)

type world struct {
	nodes   [maxNodes]nodeState `search:"nodes"`
	clients [maxClients]client  `search:"clients"`
	written uint8               // bit t-1: a writer has acquired with the token t
	read    int8                // the largest token with which a reader has acquired
	faults  uint8               // how many are still to come
}

// Alike says that clients may change places, and nodes at which clients wait, and all others.
func (x *explorer) Alike() search.Alike {
	alike := search.Alike{Nodes: search.Same(x.Nodes), Clients: search.Same(x.Clients)}
	for n := x.Coordinators; n < x.Nodes; n++ {
		alike.Nodes[n] = 1
	}
	return alike
}
