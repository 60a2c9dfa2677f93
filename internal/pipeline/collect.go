package pipeline

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// A caller that has a connection for itself may read its reply for itself, as it may write its call
// (direct.go). That spares it the wake-up of the reader and its own by the reader, which is most of
// what a call on a near server costs.
//
// One goroutine reads at a time: the one that has the turn, a token of which a connection has one.
// With it goes all that only the reader uses. So replies are matched in their order by one
// goroutine after the other, and whoever matches them does what the reader does: the caller also
// hands on replies to calls of others that it meets.
//
//	reader: reads ──last reply was a caller's, and nothing is pending──▶ parked
//	           ◀──a call that nobody collects, the end of the connection, leftAlone──┘
//
// Why no reply stays unread: the reader parks under mu while nothing is pending, and gives the turn
// back in the same step. From then on, a call that will not be collected calls the reader, under
// mu, and so does a caller that does not get the turn. What is left is a caller that does not come
// as promised, or does not wait for a late reply. Both are found when the connection was leftAlone,
// as is the end of one that nobody reads: a server that has gone is noticed while nobody calls, as
// ever.
//
// Why a caller does not wait for longer than its deadline, or than its context: what ends a call
// before its reply (tick, Withdraw) ends the read of a caller, under mu, by a deadline in the past,
// and so does the end of the context, if that caller still has the turn. It calls the reader then,
// for the reply that is on its way. The caller has not begun a reply there: it waits for its first
// byte. Behind that it reads as the reader does; if the rest of a reply does not come, the same
// deadline ends the connection, and its calls have an unknown fate.
//
// Why nobody matches on a connection that has ended: the reader takes the turn for its last read,
// which fails, and keeps it. It reads nothing where a caller's read failed: what has come behind
// that may be out of step. Only then does serve go on, so broken decides about calls that nobody
// can answer any more (S6, S8, docs/safety.md).

// leftAlone is how long a connection may be left unread while nothing happens on it.
const leftAlone = 10 * time.Millisecond

// Decider says whether what a caller waits for has been decided.
type Decider interface{ Decided() bool }

// Collect reads replies in the reader's place, if nobody reads, until what the caller waits for has
// been decided, or ctx ends. It may return earlier: then the outcome comes by the call's Sink as
// always. It is for the maker of a call with [Request.Collects], on the goroutine that made it,
// without a mutex: it runs the Sinks of all calls whose replies it meets.
func (n *Node) Collect(ctx context.Context, wanted Decider) {
	n.mu.Lock()
	c := n.conn
	if c == nil || !c.takeTurnLocked(wanted) {
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { n.interrupt(c, wanted) })()
	}
	var err error
	for err == nil && !wanted.Decided() {
		if err = c.in.await(); err == nil {
			err = n.readBatch(c)
		}
	}
	late := !wanted.Decided()
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.interrupted {
		_ = c.network.SetReadDeadline(time.Time{}) //nolint:errcheck // then the next read ends the connection
	}
	if c.interrupted && late {
		c.callReaderLocked()
	}
	c.collector, c.interrupted = nil, false
	if err != nil && !errors.Is(err, errInterrupted) {
		c.failed = err
		c.giveUpLocked(err)
	}
	c.turn <- struct{}{} // there is room: it was taken from there
}

// expectLocked is told of a new call, before it is written.
func (c *conn) expectLocked(r *Request) {
	c.collects = r.Collects && r.Direct && c.direct != nil
	if !c.collects {
		c.callReaderLocked()
	}
}

// takeTurnLocked reports whether the caller that waits for this has the turn from here on. If not,
// the reader reads.
func (c *conn) takeTurnLocked(wanted Decider) bool {
	if c.err == nil && c.parked {
		select {
		case <-c.turn:
			c.collector = wanted
			return true
		default: // another caller collects
		}
	}
	c.callReaderLocked()
	return false
}

// callReaderLocked makes a parked reader read as soon as it has the turn.
func (c *conn) callReaderLocked() {
	if c.parked {
		c.parked = false
		c.called <- struct{}{} // there is room: the reader takes one for each time that it parks
	}
}

// interrupt makes a caller stop, if it still has the turn.
func (n *Node) interrupt(c *conn, wanted Decider) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.collector == wanted {
		c.interruptLocked()
	}
}

// interruptLocked makes a caller that collects stop.
func (c *conn) interruptLocked() {
	if c.collector != nil && !c.interrupted {
		c.interrupted = true
		_ = c.network.SetReadDeadline(past) //nolint:errcheck // only a closed connection has none, and that ends the read
	}
}

var past = time.Unix(1, 0)

// errInterrupted means that a caller waits no longer for a reply, of which nothing has come.
var errInterrupted = errors.New("pool: interrupted")

// park gives the turn back and, if callers collect their replies and nothing is pending, returns
// when the reader is needed.
func (n *Node) park(c *conn) {
	n.mu.Lock()
	c.parked = c.collects && c.err == nil && c.pending.len()+c.retries.len()+n.queue.len() == 0
	parked, seen := c.parked, c.answered
	c.turn <- struct{}{}
	n.mu.Unlock()
	for parked {
		late, timer := clock.After(n.config.clock, leftAlone)
		select {
		case <-c.called:
			timer.Stop()
			return
		case <-late:
		}
		n.mu.Lock()
		if c.parked && c.collector == nil && c.answered == seen {
			c.callReaderLocked()
		}
		seen = c.answered
		n.mu.Unlock()
	}
}

// await returns when a byte of a reply is there, or errInterrupted.
func (r *reader) await() error {
	r.waits = true
	err := r.need(1)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errInterrupted
	default:
		return connectionLost(err)
	}
}
