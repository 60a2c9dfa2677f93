package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
)

// Limits of what a node holds. A healthy node answers tens of thousands of calls per second, each
// within a millisecond. A queue this long belongs to a node that does not answer, and more of it
// would only cost memory.
const (
	maxCalls = 16384 // calls without an answer, queued or sent
	maxKept  = 16384 // kept calls beyond these, for a node that is away
)

// Node is one Redis master. Its methods are safe for concurrent use. Do not copy it.
type Node struct {
	endpoint atomic.Pointer[endpoint] // where it is never changes; see Trust
	name     string                   // the endpoint without credentials
	config   config
	cancel   context.CancelFunc // ends run
	stopped  chan struct{}      // closed when run and all its goroutines have ended
	watch    *clock.Timer       // runs tick

	mu      sync.Mutex // guards the fields below; never held over I/O or a call of a Sink
	state   State
	downErr *CallError    // the last error, while state is Down
	queue   ring          // to be sent, in order; only kept calls while state is Down
	conn    *conn         // nil unless state is Up
	watchAt clock.Instant // when watch runs next
	counts  counts

	identity    Identity      // of the current or last connection
	met         bool          // there has been a connection
	connections uint64        // whose handshake succeeded
	lastContact clock.Instant // when the last connection ended
	observers   map[*byte]func()
	drained     chan struct{} // closed when every kept call is answered; nil while nobody waits

	subscriptions map[*Subscription]struct{} // those that have not ended
}

// State says whether a node takes calls.
type State uint8

const (
	// Connecting: the first dial, or the first one after a connection broke, is under way. Calls
	// are queued.
	Connecting State = iota
	// Up: calls are sent.
	Up
	// Down: the last dial failed. Calls fail at once, and dialing goes on in the background.
	Down
	// Closed: the node was closed.
	Closed
)

// String returns the state as a word.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Up:
		return "up"
	case Down:
		return "down"
	case Closed:
		return "closed"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

const never = clock.Instant(math.MaxInt64)

// NewNode returns the node at an endpoint (redis://, rediss://, unix:// or host:port) and starts to
// dial it in the background. Its errors match [ErrEndpoint], say what is wrong, and never contain a
// password. Close the node when done.
func NewNode(endpoint string, opts ...Option) (*Node, error) {
	e, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return newNode(e, cfg), nil
}

// Again returns a new node at the same endpoint with the same options, for one that was closed.
func (n *Node) Again() *Node { return newNode(*n.endpoint.Load(), n.config) }

func newNode(e endpoint, cfg config) *Node {
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{
		name: e.String(), config: cfg,
		cancel: cancel, stopped: make(chan struct{}), watchAt: never, observers: map[*byte]func(){},
		subscriptions: map[*Subscription]struct{}{},
	}
	n.endpoint.Store(&e)
	n.mu.Lock() // tick may run before watch is set
	n.watch = cfg.clock.AfterFunc(idlePing, n.tick)
	n.mu.Unlock()
	go n.run(ctx)
	return n
}

// Endpoint returns the endpoint without user, password and files.
func (n *Node) Endpoint() string { return n.name }

// Listed returns the endpoint as the masters' list of members has it: with the name that its
// certificate must have, if it is not the host's ([WithServerName]).
func (n *Node) Listed() string { return n.endpoint.Load().listed() }

// User returns the user name that the endpoint has, or that of Redis' default user.
func (n *Node) User() string { return cmp.Or(n.endpoint.Load().username, "default") }

// Server identifies the server at the endpoint, as far as the text of the endpoint tells: two nodes
// with the same Server are one master, whatever their databases.
func (n *Node) Server() string {
	e := n.endpoint.Load()
	return e.network + ":" + e.address
}

// Database returns the number of the database that the endpoint names, 0 by default.
func (n *Node) Database() int { return n.endpoint.Load().database }

// Do makes a call. It never waits: the answer reaches the call's Sink, by the request's deadline.
func (n *Node) Do(c Call) {
	n.mu.Lock()
	err := n.admitLocked(c.Keep)
	c.completed = err != nil
	if err == nil || (c.Keep && n.state == Down) {
		n.queue.push(c)
	}
	if err == nil && c.Request.Deadline < n.watchAt {
		n.watchLocked(c.Request.Deadline)
	}
	if n.conn != nil && err == nil {
		n.conn.expectLocked(c.Request)
	}
	if conn := n.conn; err == nil && conn != nil && conn.idle {
		conn.idle = false
		if conn.lendsLocked(c.Request) {
			n.writeDirectly(conn)
			return
		}
		conn.wake <- struct{}{} // there is room: idle is set only after the last signal was taken
	}
	n.mu.Unlock()
	if err != nil {
		c.Request.Sink.Complete(int(c.Index), nil, err)
	}
}

// admitLocked counts a new call. It returns why the call fails at once, or nil. (It returns an
// error, because a nil *CallError would not be a nil error.)
func (n *Node) admitLocked(keep bool) error {
	n.counts.calls++
	waiting := n.queue.len()
	if n.conn != nil {
		waiting += n.conn.pending.len() + len(n.conn.unproven) + n.conn.retries.len()
	}
	switch {
	case n.state == Closed:
		return fail(Unsent, ErrClosed)
	case n.state == Down:
		if keep && waiting >= maxKept {
			n.queue.pop() // the key of the oldest had the most time to expire by itself
			n.counts.dropped++
		}
		return n.downErr
	case !keep && waiting >= maxCalls:
		return fail(Unsent, ErrBusy)
	case keep && waiting >= maxCalls+maxKept:
		n.counts.dropped++
		return fail(Unsent, ErrBusy)
	}
	return nil
}

// Close ends the node. Calls without an answer end with [ErrClosed], and kept calls are dropped
// ([Node.Drain] waits for them, [Stats.Dropped] counts them). It closes the connection and every
// [Subscription], and returns when all goroutines of the node have ended. A second Close does
// nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	n.state = Closed
	if n.conn != nil {
		n.conn.giveUpLocked(ErrClosed)
	}
	subscriptions := slices.Collect(maps.Keys(n.subscriptions)) // a closed node gets no more
	n.mu.Unlock()
	n.cancel()
	for _, s := range subscriptions {
		s.end()
	}
	<-n.stopped
	n.watch.Stop()
	return nil
}

// outcome is what a Sink is told once the mutex is free.
type outcome struct {
	call   Call
	reply  any
	err    error
	proof  *Proof
	proven bool // call Proven, not Complete
}

func tell(outcomes []outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.proven {
			o.call.Request.Sink.(Prover).Proven(int(o.call.Index), o.reply, o.proof)
		} else {
			o.call.Request.Sink.Complete(int(o.call.Index), o.reply, o.err)
		}
	}
}

// Clock returns the clock of deadlines.
func (n *Node) Clock() clock.Clock { return n.config.clock }
