package pipeline

import "fmt"

// answer is one reply as redigo returns it.
type answer struct {
	reply any
	err   error
}

// read hands the replies to their calls until the connection ends. Replies that came with one read
// are handed on together: redigo returns them without waiting.
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
			if hasCode(a.err, "READONLY") { // no longer a master; the next handshake tells
				return fmt.Errorf("%w: %w", ErrReplica, a.err)
			}
		}
		clear(answers)
		clear(outcomes)
		answers = answers[:0]
	}
}

// match gives each reply to the oldest unanswered call. A reply that its call cannot have means
// that the server is out of step: that call and all behind it stay pending, for broken to end.
func (n *Node) match(c *conn, answers []answer, outcomes []outcome) ([]outcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, a := range answers {
		if c.pending.len() == 0 {
			return outcomes, fmt.Errorf("%w: a reply that nobody asked for", ErrProtocol)
		}
		call := c.pending.at(0)
		if accept := call.Request.Accept; a.err == nil && accept != nil && !accept(a.reply) {
			return outcomes, fmt.Errorf("%w: %s was answered with %T: out of step", ErrProtocol, call.command(), a.reply)
		}
		if call.Keep && isAway(a.err) {
			return outcomes, fmt.Errorf("%w: %w", ErrRefused, a.err) // the kept call stays pending
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

// again queues a script that the server did not know before everything that waits to be sent, and
// reports whether it did. Every connection loads a script before it first runs it, so somebody has
// flushed the scripts since.
//
// A later call for the same key that has already been sent would now run first. If that does harm,
// the script is not run at all, because its caller has moved on: an extension run behind its lock's
// release would write the key again.
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
	c.scripts = nil // the server has forgotten them
	call.eval = true
	c.retries.push(call)
	return true
}

func (c *Call) command() string {
	if c.Request.Script != nil {
		return "a script"
	}
	return c.Request.Name
}
