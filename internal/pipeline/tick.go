package pipeline

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// minTick is the shortest pause between two ticks, so that thousands of calls to a silent node,
// each with its own deadline, cost one tick per millisecond, not one each.
const minTick = time.Millisecond

// idlePing is how long a connection may be idle before it is PINGed.
const idlePing = 5 * time.Second

// watchLocked makes tick run at the given instant, instead of the one set before.
func (n *Node) watchLocked(at clock.Instant) {
	n.watchAt = at
	n.watch.Reset(max(at.Sub(n.config.clock.Now()), 0))
}

// tick runs when something may be due. It ends calls whose deadline has passed, gives up a
// connection whose oldest call is overdue, and PINGs an idle one. It relies on the local clock
// alone, whatever the network does.
func (n *Node) tick() {
	n.mu.Lock()
	if n.state == Closed {
		n.mu.Unlock()
		return
	}
	now := n.config.clock.Now()
	next := never
	overdue := func(c *Call) bool {
		if c.Request.Deadline > now {
			next = min(next, c.Request.Deadline)
			return false
		}
		n.counts.timeouts++
		return true
	}
	unsent := ErrTimeout
	if n.state == Connecting {
		unsent = fmt.Errorf("not connected yet: %w", ErrTimeout)
	}
	outcomes := n.endLocked(overdue, unsent, ErrTimeout)
	if n.conn != nil {
		next = min(next, n.tickConnLocked(n.conn, now))
	}
	if next == never {
		n.watchAt = never
	} else {
		n.watchLocked(max(next, now.Add(minTick)))
	}
	n.mu.Unlock()
	tell(outcomes)
}

// endLocked ends the calls that are over, and returns what their Sinks are to be told: unsent is
// the error of those that wait for a connection.
func (n *Node) endLocked(over func(*Call) bool, unsent, err error) (outcomes []outcome) {
	end := func(c *Call, fate Fate, err error) bool {
		if c.completed || !over(c) {
			return false
		}
		c.completed = true
		outcomes = append(outcomes, outcome{call: *c, err: fail(fate, err)})
		return true
	}
	n.queue.filter(func(c *Call) bool {
		// A kept call stays in its place, so its order relative to the other calls does not change.
		return !end(c, Unsent, unsent) || c.Keep
	})
	if c := n.conn; c != nil {
		for i := range c.retries.len() {
			end(c.retries.at(i), Unsent, err)
		}
		for i := range c.pending.len() {
			end(c.pending.at(i), Unknown, err)
		}
		for i := range c.unproven {
			end(&c.unproven[i].call, Unknown, err)
		}
		if len(outcomes) > 0 {
			c.interruptLocked()
		}
	}
	return outcomes
}

// Withdraw ends the calls of some Sinks that have not ended, with [ErrWithdrawn]. Those that were
// not sent never will be, except for kept ones.
func (n *Node) Withdraw(of func(Sink) bool) {
	n.mu.Lock()
	outcomes := n.endLocked(func(c *Call) bool { return of(c.Request.Sink) }, ErrWithdrawn, ErrWithdrawn)
	n.mu.Unlock()
	tell(outcomes)
}

// tickConnLocked returns when to tick again for the connection.
func (n *Node) tickConnLocked(c *conn, now clock.Instant) clock.Instant {
	if c.usedBy != c.answered {
		c.usedBy, c.usedAt = c.answered, now
	}
	if c.pending.len() > 0 {
		// A call made before the connection, such as a kept one, has its time from the start of the
		// connection. A server that works off a long backlog is not stalled.
		oldest := max(c.pending.at(0).Request.Deadline, c.since, c.usedAt)
		giveUpAt := oldest.Add(n.config.stallTimeout)
		if giveUpAt > now {
			return giveUpAt
		}
		c.giveUpLocked(fmt.Errorf("%w: no answer for %v", ErrStalled, now.Sub(oldest)))
		return never
	}
	pingAt := c.usedAt.Add(idlePing)
	if pingAt > now {
		return pingAt
	}
	n.queue.push(n.newPing(now))
	n.wakeLocked(c)
	return now.Add(minTick)
}

// newPing returns a PING with a text of its own, so its answer cannot be taken for another's.
func (n *Node) newPing(now clock.Instant) Call {
	n.counts.pings++
	text := "redquorum-" + strconv.FormatUint(n.counts.pings, 10)
	return Call{Request: &Request{
		Words: Command("PING", text), Deadline: now.Add(n.config.dialTimeout), Sink: nobody{},
		Accept: func(reply any) bool {
			echo, ok := reply.([]byte)
			return ok && string(echo) == text
		},
	}}
}

// nobody is a Sink that ignores outcomes.
type nobody struct{}

func (nobody) Complete(int, any, error) {}
