package pipeline

import (
	"fmt"
	"net"
	"runtime"
	"slices"

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

// write sends what is queued, a batch at a time, until the connection ends.
func (n *Node) write(c *conn) error {
	var batch []outgoing
	for {
		batch = n.takeBatch(c, batch[:0])
		if len(batch) == 0 {
			select {
			case <-c.wake:
				// Callers that are about to make a call get to do so first: a batch of many costs one system call. Where
				// there are none this costs nothing; under load, it saves a fifth of the CPU per lock.
				runtime.Gosched()
				continue
			case <-c.gone:
				return nil
			}
		}
		before := c.guard.written
		if err := c.send(batch); err != nil {
			if c.guard.written == before {
				n.takeBack(c, len(batch), err)
			}
			return connectionLost(err)
		}
		clear(batch)
	}
}

// takeBack returns a batch of which no byte was written to the front of the queue, for the next connection: the server had
// closed this one. The batch was sent last, so it is what the pending calls end with.
func (n *Node) takeBack(c *conn, calls int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.giveUpLocked(connectionLost(err))
	for range min(calls, c.pending.len()) { // fewer where a wrong server answered before it was asked
		n.queue.unshift(c.pending.popLast())
	}
}

func (c *conn) send(batch []outgoing) error {
	asked := c.guard.asked.Add(uint64(len(batch)))
	proves := false
	for _, o := range batch {
		if o.name == "" { // a proof, the last of its batch
			c.guard.proofs[c.proofs%len(c.guard.proofs)].Store(asked)
			c.proofs++
			proves = true
			continue
		}
		if err := c.redis.Send(o.name, o.args...); err != nil {
			return err
		}
	}
	if err := c.redis.Flush(); err != nil {
		return err
	}
	if proves {
		if _, err := c.guard.Write(askForProof); err != nil {
			return err
		}
	}
	return c.guard.flush()
}

// takeBatch moves calls from the queue to the pending ones, in their order, before a byte of them is written, so that
// their replies find them. Nobody waits any more for a completed call: it is dropped, unless it is kept.
// With nothing to take, the writer counts as idle.
func (n *Node) takeBatch(c *conn, batch []outgoing) []outgoing {
	n.mu.Lock()
	defer n.mu.Unlock()
	var proveUntil clock.Instant
	for _, from := range [...]*ring{&c.retries, &n.queue} {
		for c.err == nil && from.len() > 0 && len(batch) < maxBatch {
			call := from.pop()
			if call.completed && !call.Keep {
				continue
			}
			if script := call.Request.Script; script != nil && !call.eval && !slices.Contains(c.scripts, script) {
				c.scripts = append(c.scripts, script)
				if c.mayLoad {
					batch = c.takeLocked(script.load(call.Request.Deadline), batch)
				} else {
					call.eval = true // which loads it as well
				}
			}
			batch = c.takeLocked(call, batch)
			if call.Request.Prove && c.proves {
				proveUntil = max(proveUntil, call.Request.Deadline)
			}
		}
	}
	if proveUntil != 0 {
		batch = c.takeProofLocked(proveUntil, batch)
	}
	c.idle = len(batch) == 0
	return batch
}

func (c *conn) takeLocked(call *Call, batch []outgoing) []outgoing {
	c.pending.push(call)
	name, args := call.wire()
	return append(batch, outgoing{name, args})
}

// answer is one reply as redigo returns it.
type answer struct {
	reply any
	err   error
}

// read hands the replies to their calls until the connection ends. The replies that came with one read are handed on
// together: redigo returns them without waiting.
func (n *Node) read(c *conn) error {
	var answers []answer
	var outcomes []outcome
	for {
		reply, err := c.redis.Receive()
		if err != nil && !isReply(err) {
			return connectionLost(err)
		}
		c.received++
		answers = append(answers, answer{reply, unwrapped(err)})
		if c.received < c.guard.replies && len(answers) < maxBatch {
			continue
		}
		outcomes, err = n.match(c, answers, outcomes[:0])
		tell(outcomes)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if hasCode(a.err, "READONLY") { // it was a master when we connected; the next handshake finds out what it is now
				return fmt.Errorf("%w: %w", ErrReplica, a.err)
			}
		}
		clear(answers)
		clear(outcomes)
		answers = answers[:0]
	}
}

// match gives each reply to the oldest call without one. A reply that its call cannot have means that the server is
// out of step: that call and all behind it stay pending, for broken.
func (n *Node) match(c *conn, answers []answer, outcomes []outcome) ([]outcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, a := range answers {
		if c.pending.len() == 0 {
			return outcomes, fmt.Errorf("%w: a reply that nobody asked for", ErrProtocol)
		}
		call := c.pending.at(0)
		if accept := call.Request.Accept; a.err == nil && accept != nil && !accept(a.reply) {
			return outcomes, fmt.Errorf("%w: %s was answered by a %T: out of step", ErrProtocol, call.command(), a.reply)
		}
		if call.Keep && isAway(a.err) {
			return outcomes, fmt.Errorf("%w: %w", ErrRefused, a.err) // the call stays pending, and is kept
		}
		c.pending.pop()
		c.answered++
		if p, ok := call.Request.Sink.(*proofCall); ok {
			var err error
			reply := c.received - uint64(len(answers)-i-1)
			if outcomes, err = c.provenLocked(p, a, reply, outcomes); err != nil {
				return outcomes, err
			}
			continue
		}
		if call.Request.Script != nil && !call.eval && hasCode(a.err, "NOSCRIPT") && c.again(call) {
			continue
		}
		if call.completed {
			continue
		}
		o := outcome{call: call, reply: a.reply}
		if a.err != nil {
			o.err = fail(Refused, a.err)
		} else if call.Request.Prove {
			if c.proves {
				c.unproven = append(c.unproven, o)
				continue
			}
			o.proven = true
		}
		call.completed = true
		outcomes = append(outcomes, o)
	}
	n.drainedLocked()
	n.wakeLocked(c)
	return outcomes, nil
}

// again puts a script that the server did not know (every connection loads a script before it first runs it, so somebody has
// flushed them since) before everything that waits to be sent, and reports whether it did.
// A later call of the same key that has been sent already would now come before it. Where that does harm the script
// is not run at all: its caller went on (a release behind an extension; run late, the extension would write the key again).
func (c *conn) again(call *Call) bool {
	if call.completed && !call.Keep {
		return false
	}
	if key := call.Request.Key; !call.Request.Script.late {
		if key == "" {
			c.scripts = nil
			return false
		}
		for i := range c.pending.len() {
			if c.pending.at(i).Request.Key == key {
				return false
			}
		}
	}
	c.scripts = nil // somebody made the server forget its scripts
	call.eval = true
	c.retries.push(call)
	return true
}

// wakeLocked wakes an idle writer that has something to do.
func (n *Node) wakeLocked(c *conn) {
	if c.idle && c.retries.len()+n.queue.len() > 0 {
		c.idle = false
		c.wake <- struct{}{}
	}
}

func (c *Call) command() string {
	if c.Request.Script != nil {
		return "a script"
	}
	return c.Request.Name
}
