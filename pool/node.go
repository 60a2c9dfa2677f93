package pool

import (
	"context"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Node is one Redis master, reached through one connection. Its methods are safe for concurrent
// use. Do not copy it.
type Node pipeline.Node

// NewNode returns the node at an endpoint and starts to dial it in the background. An endpoint is
// one of
//
//	redis://user:password@host:port/database
//	rediss://user:password@host:port/database?servername=name (TLS)
//	unix://user:password@/path/of/the/socket?db=database
//	host:port
//
// where only the host, or the path of the socket, is required in a URL; the port defaults to 6379
// and the database to 0. The server's certificate must have the servername, by default that of
// [WithTLSConfig], or else the host. Further parameters of rediss:// are cert, key and cacert,
// the files of [WithTLSFiles]. Blanks around an endpoint do not count. Errors match
// [ErrEndpoint], also for a bad option, and never contain a password. Close the node when done.
func NewNode(endpoint string, opts ...Option) (*Node, error) {
	node, err := pipeline.NewNode(endpoint, opts...)
	return (*Node)(node), err
}

func (n *Node) inner() *pipeline.Node { return (*pipeline.Node)(n) }

// Endpoint returns the endpoint without user and password.
func (n *Node) Endpoint() string { return n.inner().Endpoint() }

// Clock returns the clock of the node's deadlines and pauses.
func (n *Node) Clock() clock.Clock { return n.inner().Clock() }

// Close ends the connection and waits for the node's goroutines. Unanswered calls end with
// [ErrClosed]. It returns nil. A second Close does nothing.
func (n *Node) Close() error { return n.inner().Close() }

// Drain waits until every release has been delivered, ctx ends or the node is closed. It returns
// how many releases are left, which Close would drop.
func (n *Node) Drain(ctx context.Context) (left int) { return n.inner().Drain(ctx) }

// State says whether a node takes calls.
type State = pipeline.State

// The states of a node.
const (
	// Connecting: the first dial, or the first one after a connection broke, is under way. Calls
	// are queued until their deadline.
	Connecting State = pipeline.Connecting
	// Up: calls are sent.
	Up State = pipeline.Up
	// Down: the last dial failed. Calls fail at once, and dialing goes on in the background.
	Down State = pipeline.Down
	// Closed: the node was closed.
	Closed State = pipeline.Closed
)

// State returns the current state of the node.
func (n *Node) State() State { return n.inner().State() }

// Stats says what a node has done and what state it is in, at one moment.
type Stats struct {
	Endpoint string // without user and password
	State    State
	Err      error  // why the node is Down; nil in other states
	RunID    string // of the server that answers, or answered last; empty if unknown
	Product  string // of that server: "redis", "valkey" and the like; empty if unknown
	Version  string // of that product
	Waiting  int    // unanswered calls, queued or sent
	Kept     int    // releases that nobody waits for any more, delivered when the node is back
	Calls    uint64 // calls made
	Timeouts uint64 // calls that ended at their deadline
	Connects uint64 // connections established
	Dropped  uint64 // releases given up, because there were too many or the node was closed
}

// Stats returns the current figures.
func (n *Node) Stats() Stats { return Stats(n.inner().Stats()) }

// Identity describes the server that answers at an endpoint, as it reported when the connection was
// made.
type Identity struct {
	RunID   string // of the server process; empty if INFO is denied or has none
	Product string // "redis", "valkey" and the like, in lower case; empty if unknown
	Version string // of the product; empty if unknown
	Durable bool   // a restart loses nothing (docs/operations.md, Restarts); false if that cannot be seen
	ReplID  string // of the replication history; empty if INFO has none
}

// Identity returns the server that answers at the endpoint, or answered last; false before the
// first connection.
func (n *Node) Identity() (Identity, bool) {
	id, met := n.inner().Identity()
	return Identity{RunID: id.RunID, Product: id.Product, Version: id.Version, Durable: id.Durable, ReplID: id.ReplID}, met
}
