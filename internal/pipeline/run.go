package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// steady is how long a connection that answered nothing must have lasted for its end to count as a
// lost connection, not as another failed attempt to connect.
const steady = time.Second

// run keeps the node connected until ctx ends. It is the node's writer, too: between two dials it
// runs write.
func (n *Node) run(ctx context.Context) {
	defer close(n.stopped)
	defer n.closed()
	wait := clock.Backoff{Shortest: n.config.backoffMin, Longest: n.config.backoffMax}
	var last previous
	for ctx.Err() == nil {
		c, err := n.connect(ctx, n.handshakeAfter(&last))
		if err == nil {
			began := n.config.clock.Now()
			err = n.serve(c)
			last = previous{clientID: c.clientID, runID: c.identity.RunID}
			// A server that is out of step, or refuses to serve, would do so again at once.
			wrong := errors.Is(err, ErrProtocol) || errors.Is(err, ErrRefused)
			if !wrong && (c.answered > 0 || n.config.clock.Now().Sub(began) >= steady) {
				wait.Reset()
				continue // calls wait for this one dial
			}
		}
		n.down(err)
		clock.Sleep(ctx, n.config.clock, wait.Next())
	}
}

// serve uses a connection until it breaks, and returns why it broke.
func (n *Node) serve(c *conn) error {
	n.identify(c)
	if !n.up(c) {
		c.close()
		return ErrClosed
	}
	n.tellObservers()
	go func() {
		n.giveUp(c, n.read(c)) // ends a blocked write
		close(c.gone)
	}()
	n.giveUp(c, n.write(c)) // ends the reader
	<-c.gone
	return n.broken(c)
}

// giveUp ends a connection. The first reason counts. From then on the writer takes nothing more
// from the queue: what is there waits for the next connection.
func (n *Node) giveUp(c *conn, err error) {
	n.mu.Lock()
	c.giveUpLocked(err)
	n.mu.Unlock()
}

// up makes c the connection of the node. What is queued goes out on it, kept calls first.
func (n *Node) up(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == Closed {
		return false
	}
	n.state, n.downErr, n.conn = Up, nil, c
	n.counts.connects++
	c.since = n.config.clock.Now()
	c.usedAt = c.since
	if ping := c.since.Add(idlePing); ping < n.watchAt {
		n.watchLocked(ping)
	}
	return true
}

// broken takes c away from the node. Nobody reads or writes on it any more, so what was sent and
// not answered has an unknown fate. Kept calls return to the front of the queue, in order: all of
// them were made before the ones that are queued. Scripts that are to be sent again were certainly
// not executed, so they count as unsent.
func (n *Node) broken(c *conn) error {
	n.mu.Lock()
	err := c.err
	n.conn = nil
	n.lastContact = n.config.clock.Now()
	if n.state == Up {
		n.state = Connecting
	}
	failed := fail(Unknown, c.err)
	var outcomes []outcome
	for _, o := range c.unproven { // executed, but nobody knows what the server remembered then
		if !o.call.completed {
			outcomes = append(outcomes, outcome{call: o.call, err: failed})
		}
	}
	for i := c.pending.len() - 1; i >= 0; i-- {
		call := c.pending.at(i)
		if !call.completed {
			call.completed = true
			outcomes = append(outcomes, outcome{call: *call, err: failed})
		}
		if call.Keep {
			call.eval, call.reloaded = false, false
			n.queue.unshift(*call)
		}
	}
	for i := c.retries.len() - 1; i >= 0; i-- {
		n.queue.unshift(*c.retries.at(i))
	}
	n.mu.Unlock()
	tell(outcomes)
	return err
}

// down fails what is queued, and every call from now on, with err, until there is a connection.
// Kept calls stay.
func (n *Node) down(err error) {
	n.mu.Lock()
	if n.state == Closed {
		n.mu.Unlock()
		return
	}
	n.state, n.downErr = Down, fail(Unsent, err)
	outcomes := n.failQueueLocked(n.downErr, func(c *Call) bool { return c.Keep })
	n.mu.Unlock()
	tell(outcomes)
	n.tellObservers()
}

// closed fails what is queued, for good.
func (n *Node) closed() {
	n.mu.Lock()
	n.state = Closed
	n.counts.dropped += uint64(n.keptLocked())
	outcomes := n.failQueueLocked(fail(Unsent, ErrClosed), func(*Call) bool { return false })
	n.drainedLocked()
	n.mu.Unlock()
	tell(outcomes)
}

func (n *Node) failQueueLocked(err *CallError, stays func(*Call) bool) (outcomes []outcome) {
	n.queue.filter(func(c *Call) bool {
		if !c.completed {
			c.completed = true
			outcomes = append(outcomes, outcome{call: *c, err: err})
		}
		return stays(c)
	})
	return outcomes
}
