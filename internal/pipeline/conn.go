package pipeline

import (
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
)

// maxBatch bounds the calls that are written, or answered, at once, so that a long queue does not hold the mutex.
const maxBatch = 512

// conn is one connection of a node, and the calls that were given to it. A [Subscription] has a conn of its own, without calls;
// what Node.mu guards here, Subscription.mu guards there.
type conn struct {
	network  net.Conn // what the dialer returned: closing it needs no write, as closing TLS does
	guard    *guard
	redis    redis.Conn // over guard; one goroutine sends, one receives
	clientID int64      // CLIENT ID; 0 when unknown
	identity Identity   // of the server, without what was before
	mayLoad  bool       // the server lets us load scripts

	wake chan struct{} // told by Do when there is something to write and the writer is idle; room for one
	gone chan struct{} // closed when the reader has ended

	received uint64 // replies that redigo returned; of the reader only
	proofs   int    // that were sent; of the writer only
	answered uint64 // calls answered; written by the reader, read when it has ended, and by tick under Node.mu

	// Guarded by Node.mu.
	idle    bool          // the writer waits on wake
	pending ring          // sent, in the order of their replies
	scripts []*Script     // that the server was given on this connection
	retries ring          // scripts that the server did not know, to be sent in full before anything else
	err     error         // why it ended; nil while it is in use
	since   clock.Instant // when it was made
	usedAt  clock.Instant // when tick last saw that it had been used
	usedBy  uint64        // answered at that time

	proves      bool      // the memory key can be read; set before use
	proof       *Proof    // the last that was read; nil before the first
	unproven    []outcome // answered, and told when the proof behind them is in
	spareProofs []*proofCall
}

// newConn returns a connection that speaks over stream, which is network itself or TLS on it.
func newConn(network, stream net.Conn) *conn {
	g := &guard{Conn: stream}
	return &conn{
		network: network, guard: g, redis: redis.NewConn(g, 0, 0),
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

func (c *conn) giveUpLocked(err error) {
	if c.err == nil && err != nil {
		c.err = err
		c.close()
	}
}

func (c *conn) close() {
	_ = c.network.Close() //nolint:errcheck // nothing is lost with it: what was not answered counts as unknown
}

// outgoing is a command on its way to redigo.
type outgoing struct {
	name string
	args []any
}
