package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// Limits of what a node holds. A healthy node answers tens of thousands of calls per second within a millisecond; a
// queue this long belongs to a node that does not answer, and more of it would only cost memory.
const (
	maxCalls = 16384 // calls without an answer, queued or sent
	maxKept  = 16384 // kept calls beyond these, for a node that is away
)

// Node is one Redis master. Its methods may be called from any goroutine. It must not be copied.
type Node struct {
	endpoint endpoint
	name     string // the endpoint without credentials
	config   config
	cancel   context.CancelFunc // ends run
	stopped  chan struct{}      // closed by run when it and all its goroutines have ended
	watch    *clock.Timer       // runs tick

	mu      sync.Mutex // guards the fields below; never held over I/O, nor while a Sink is told
	state   State
	downErr *CallError    // the last error, while state is Down
	queue   ring          // to be sent, in order; while state is Down, only kept calls
	conn    *conn         // nil unless state is Up
	watchAt clock.Instant // when watch runs next
	counts  counts

	identity    Identity      // of the present or last connection
	met         bool          // there was one
	connections uint64        // made, and whose handshake succeeded
	lastContact clock.Instant // when the last connection ended
	observers   map[*byte]func()
	drained     chan struct{} // closed when no kept call is without an answer; nil while nobody waits for that

	subscriptions map[*Subscription]struct{} // that have not ended
}

// State tells whether a node takes calls.
type State uint8

const (
	// Connecting: the first dial, or the first one after a connection broke, is under way. Calls are queued.
	Connecting State = iota
	// Up: calls are sent.
	Up
	// Down: the last dial failed. Calls fail at once, and dialing goes on in the background.
	Down
	// Closed: for good.
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

// NewNode returns the node at an endpoint (redis://, rediss://, unix:// or host:port) and begins to dial it in the
// background. The error is [ErrEndpoint], says what is wrong, and never contains a password. Close the node when done.
func NewNode(endpoint string, opts ...Option) (*Node, error) {
	e, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{
		endpoint: e, name: e.String(), config: cfg,
		cancel: cancel, stopped: make(chan struct{}), watchAt: never, observers: map[*byte]func(){},
		subscriptions: map[*Subscription]struct{}{},
	}
	n.mu.Lock() // tick may run before watch is set
	n.watch = cfg.clock.AfterFunc(cfg.idlePing, n.tick)
	n.mu.Unlock()
	go n.run(ctx)
	return n, nil
}

// Endpoint returns where the node is, without user and password.
func (n *Node) Endpoint() string { return n.name }

// Server identifies the server that the endpoint leads to, as far as its text tells: two nodes of one Server are one
// master, whatever their databases.
func (n *Node) Server() string { return n.endpoint.network + ":" + n.endpoint.address }

// Do makes a call. It never waits: the answer comes to the call's Sink, by the request's deadline.
func (n *Node) Do(c *Call) {
	n.mu.Lock()
	err := n.admitLocked(c)
	if err == nil || (c.Keep && n.state == Down) {
		n.queue.push(c)
	}
	if err != nil {
		c.completed = true
	} else if conn := n.conn; conn != nil && conn.idle {
		conn.idle = false
		conn.wake <- struct{}{} // has room: sent to only when idle was set, which takes it out first
	}
	if err == nil && c.Request.Deadline < n.watchAt {
		n.watchLocked(c.Request.Deadline)
	}
	n.mu.Unlock()
	if err != nil {
		c.Request.Sink.Complete(c, nil, err)
	}
}

// admitLocked counts a new call and returns why it fails at once, or nil (as an error: a nil *CallError would not be one).
func (n *Node) admitLocked(c *Call) error {
	n.counts.calls++
	waiting := n.queue.len()
	if n.conn != nil {
		waiting += n.conn.pending.len() + len(n.conn.unproven) + n.conn.retries.len()
	}
	switch {
	case n.state == Closed:
		return fail(Unsent, ErrClosed)
	case n.state == Down:
		if c.Keep && waiting >= maxKept {
			n.queue.pop() // the oldest has had the longest time to expire by itself
			n.counts.dropped++
		}
		return n.downErr
	case !c.Keep && waiting >= maxCalls:
		return fail(Unsent, ErrBusy)
	case c.Keep && waiting >= maxCalls+maxKept:
		n.counts.dropped++
		return fail(Unsent, ErrBusy)
	}
	return nil
}

// Close ends the node: calls that are queued or not answered end with [ErrClosed], kept calls are
// forgotten ([Node.Drain] waits for them, [Stats.Dropped] counts them), the connection is closed,
// and so is every [Subscription]. It returns when every goroutine of the node has ended. A second
// Close does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	n.state = Closed
	if n.conn != nil {
		n.conn.giveUpLocked(ErrClosed)
	}
	subscriptions := slices.Collect(maps.Keys(n.subscriptions)) // no more are added to a closed node
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
	call   *Call
	reply  any
	err    error
	proof  *Proof
	proven bool // tell Proven
}

func tell(outcomes []outcome) {
	for _, o := range outcomes {
		if o.proven {
			o.call.Request.Sink.(Prover).Proven(o.call, o.reply, o.proof)
		} else {
			o.call.Request.Sink.Complete(o.call, o.reply, o.err)
		}
	}
}

// Clock returns the clock that deadlines count on.
func (n *Node) Clock() clock.Clock { return n.config.clock }
