package pool

import (
	"context"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Node is one Redis master, reached through one connection. Its methods may be called from any
// goroutine. It must not be copied.
type Node pipeline.Node

// NewNode returns a node and begins to dial. An endpoint is a redis://, rediss:// or unix:// URL,
// or host:port; its path, where it is not that of a socket, is the number of the database. The
// error is [ErrEndpoint]; passwords are never part of it.
func NewNode(endpoint string, opts ...Option) (*Node, error) {
	node, err := pipeline.NewNode(endpoint, opts...)
	return (*Node)(node), err
}

func (n *Node) inner() *pipeline.Node { return (*pipeline.Node)(n) }

// Endpoint returns the endpoint without user and password.
func (n *Node) Endpoint() string { return n.inner().Endpoint() }

// Clock returns the clock that the node goes by.
func (n *Node) Clock() clock.Clock { return n.inner().Clock() }

// Close ends the connection. Calls without an answer end with [ErrClosed]. It returns nil.
func (n *Node) Close() error { return n.inner().Close() }

// Drain waits until no release is left to be delivered, or ctx ends, and returns how many are left.
// Close drops those.
func (n *Node) Drain(ctx context.Context) (left int) { return n.inner().Drain(ctx) }

// State tells whether a node takes calls.
type State = pipeline.State

// The states of a node.
const (
	// Connecting: the first dial, or the first one after a connection broke, is under way. Calls
	// are queued.
	Connecting State = pipeline.Connecting
	// Up: calls are sent.
	Up State = pipeline.Up
	// Down: the last dial failed. Calls fail at once, and dialing goes on in the background.
	Down State = pipeline.Down
	// Closed: the node was closed.
	Closed State = pipeline.Closed
)

// State returns whether the node takes calls.
func (n *Node) State() State { return n.inner().State() }

// Stats tells what a node has done and how it is, at one moment.
type Stats struct {
	Endpoint string // without user and password
	State    State
	Err      error  // why the node is Down; nil otherwise
	RunID    string // of the server that answered last; empty where it did not tell, or none did
	Product  string // of that server: "redis", "valkey" and the like; empty where unknown
	Version  string // of that product
	Waiting  int    // calls without an answer, queued or sent
	Kept     int    // releases that nobody waits for any more, to be delivered when the node is back
	Calls    uint64 // calls made
	Timeouts uint64 // calls that ended at their deadline
	Connects uint64 // connections made
	Dropped  uint64 // releases that were given up: there were too many, or the node was closed
}

// Stats returns the present figures.
func (n *Node) Stats() Stats { return Stats(n.inner().Stats()) }

// Identity tells which server answers at an endpoint, as it said when the connection was made.
type Identity struct {
	RunID   string // of the server process; empty where INFO is denied or does not tell
	Product string // "redis", "valkey" and the like, in lower case; empty where unknown
	Version string // of the product; empty where unknown
	Durable bool   // a restart loses nothing: every command is on disk before it is answered
	ReplID  string // of the replication history; empty where INFO does not tell
}

// Identity returns who answers at the endpoint, or answered last; false before the first
// connection.
func (n *Node) Identity() (Identity, bool) {
	id, met := n.inner().Identity()
	return Identity{RunID: id.RunID, Product: id.Product, Version: id.Version, Durable: id.Durable, ReplID: id.ReplID}, met
}
