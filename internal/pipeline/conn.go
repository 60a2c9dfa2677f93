package pipeline

import (
	"net"

	"github.com/redquorum/redquorum/clock"
)

// maxBatch bounds the calls that are written, or answered, at once, so that a long queue does not
// hold the mutex.
const maxBatch = 512

// conn is one connection of a node, with the calls that were given to it. A [Subscription] has its
// own conn, without calls; there, Subscription.mu guards what Node.mu guards here.
type conn struct {
	network  net.Conn // what the dialer returned; unlike TLS, it closes without a write
	stream   net.Conn // network itself, or TLS on top of it
	in       reader   // over stream
	clientID int64    // CLIENT ID; 0 if unknown
	identity Identity // of the server, without the fields about earlier connections
	mayLoad  bool     // the server lets us load scripts
	mayEval  bool     // the server lets us run scripts by their text

	wake   chan struct{} // signals the writer that there is something to write; room for one
	gone   chan struct{} // closed when the reader has ended
	direct tryWriter     // network, for callers that write; nil if it may wait
	turn   chan struct{} // has the turn while nobody reads; room for one
	called chan struct{} // signals the parked reader; room for one

	// Used by the reader, or in its place.
	readOnly error     // the server's words that it is no longer a master
	failed   error     // why nothing more may be read
	answers  []answer  // replies that came together
	outcomes []outcome // what their Sinks are told

	// Used by the writer, or in its place.
	out     []byte // not written yet
	written uint64 // bytes the network took
	proofs  int    // proofs sent

	answered uint64 // calls answered; the reader writes it under mu; read under mu or after it ends

	// Guarded by Node.mu.
	idle  bool       // the writer waits for wake, and nobody writes in its place
	lent  bool       // a caller writes in its place
	spare []outgoing // the memory of that caller's batch

	collects    bool    // the last call was one that its caller collects
	parked      bool    // the reader leaves the turn to callers, until it is called
	collector   Decider // what the caller that has the turn waits for; nil where none has it
	interrupted bool    // and shall return it

	pending   ring          // sent, in the order of their replies
	scripts   []*Script     // given to the server on this connection
	retries   ring          // scripts the server did not run; sent before anything else
	gathering gathering     // empty while nobody takes a batch
	err       error         // why it ended; nil while in use
	since     clock.Instant // when it was established
	usedAt    clock.Instant // when tick last saw new answers
	usedBy    uint64        // the value of answered then

	proves      bool      // the memory key can be read; set before use
	proof       *Proof    // the last one read; nil before the first
	unproven    []outcome // answered; told once the proof behind them is in
	spareProofs []*proofCall
}

// newConn returns a connection that speaks over stream.
func newConn(network, stream net.Conn) *conn {
	c := &conn{
		network: network, stream: stream, in: reader{from: stream},
		wake: make(chan struct{}, 1), gone: make(chan struct{}), direct: newTryWriter(stream),
		turn: make(chan struct{}, 1), called: make(chan struct{}, 1),
	}
	c.turn <- struct{}{}
	return c
}

func (c *conn) giveUpLocked(err error) {
	if c.err == nil && err != nil {
		c.err = err
		c.close()
		c.callReaderLocked()
	}
}

func (c *conn) close() {
	_ = c.network.Close() //nolint:errcheck // nothing is lost: unanswered calls count as unknown
}
