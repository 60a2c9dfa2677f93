package pipeline

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// answer is one reply of the server, or its error.
type answer struct {
	reply any
	err   error
}

// read hands the replies to their calls until the connection ends. It keeps the turn then.
func (n *Node) read(c *conn) error {
	for {
		<-c.turn
		if c.failed != nil {
			return c.failed
		}
		if err := n.readBatch(c); err != nil {
			return err
		}
		n.park(c)
	}
}

// readBatch waits for a reply, and hands it on with those that came with it.
func (n *Node) readBatch(c *conn) error {
	reply, err := c.in.receive()
	for more := true; more; {
		if err != nil {
			if err = printableError(err); !isReply(err) {
				return connectionLost(err)
			}
		}
		c.answers = append(c.answers, answer{reply, unwrapped(err)})
		if more = len(c.answers) < maxBatch; more {
			reply, more, err = c.in.ready()
		}
	}
	c.outcomes, err = n.match(c, c.answers, c.outcomes[:0])
	tell(c.outcomes)
	if err != nil {
		return err
	}
	if c.readOnly != nil { // no longer a master; the next handshake tells
		return fmt.Errorf("%w: %w", ErrReplica, c.readOnly)
	}
	clear(c.answers)
	clear(c.outcomes)
	c.answers = c.answers[:0]
	return nil
}

// match gives each reply to the oldest unanswered call, or to several that were sent together. A
// reply that its call cannot have means that the server is out of step: that call and all behind it
// stay pending, for broken to end.
func (n *Node) match(c *conn, answers []answer, outcomes []outcome) ([]outcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range answers {
		if c.pending.len() == 0 {
			return outcomes, fmt.Errorf("%w: a reply that nobody asked for", ErrProtocol)
		}
		call := c.pending.at(0)
		var err error
		if p, ok := call.Request.Sink.(*proofCall); ok {
			if err = check(call, a); err == nil {
				c.pending.pop()
				c.answered++
				outcomes, err = c.provenLocked(p, a, outcomes)
			}
		} else if call.together > 1 {
			outcomes, err = c.matchTogetherLocked(int(call.together), a, outcomes)
		} else {
			outcomes, err = c.matchLocked(a, outcomes)
		}
		if err != nil {
			return outcomes, err
		}
	}
	n.drainedLocked()
	n.wakeLocked(c)
	return outcomes, nil
}

// matchTogetherLocked gives each of the oldest calls its part of their one reply. An error in place
// of that reply is an error of each: the server ran none of them, or stopped at some point. If the
// user may not use one of the keys, it ran none, and each is run by itself.
func (c *conn) matchTogetherLocked(calls int, a answer, outcomes []outcome) ([]outcome, error) {
	script := c.pending.at(0).Request.Script
	parts, several := a.reply.([]any)
	if a.err == nil && (several || !script.batch.one) && len(parts) != calls {
		return outcomes, fmt.Errorf("%w: %d calls of a script were answered with %T: out of step", ErrProtocol, calls, a.reply)
	}
	for i := range calls {
		part := a
		if several {
			part.reply = parts[i]
			if script.batch.script == script {
				part.reply = parts[i : i+1]
			}
			if words, failed := parts[i].(redis.Error); failed {
				part = answer{err: unwrapped(printableError(words))}
			}
		}
		c.pending.at(0).alone = hasCode(a.err, "NOPERM")
		var err error
		if outcomes, err = c.matchLocked(part, outcomes); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

// check returns an error if a call cannot have been answered like this.
func check(call *Call, a answer) error {
	if accept := call.Request.Accept; a.err == nil && accept != nil && !accept(a.reply) {
		return fmt.Errorf("%w: %s was answered with %T: out of step", ErrProtocol, call.command(), a.reply)
	}
	if a.err != nil && call.Keep && isAway(a.err) {
		return fmt.Errorf("%w: %w", ErrRefused, a.err) // the kept call stays pending
	}
	return nil
}

// matchLocked gives an answer to the oldest unanswered call.
func (c *conn) matchLocked(a answer, outcomes []outcome) ([]outcome, error) {
	if err := check(c.pending.at(0), a); err != nil {
		return outcomes, err
	}
	call := c.pending.pop()
	c.answered++
	if hasCode(a.err, "READONLY") {
		c.readOnly = a.err
	}
	unknown := call.Request.Script != nil && !call.eval && hasCode(a.err, "NOSCRIPT")
	if (unknown || call.alone && call.together != 1) && c.again(call, unknown) {
		return outcomes, nil
	}
	if call.completed {
		return outcomes, nil
	}
	o := outcome{call: call, reply: a.reply}
	if a.err != nil {
		o.err = fail(Refused, a.err)
	} else if call.Request.Prove {
		if c.proves {
			c.unproven = append(c.unproven, o)
			return outcomes, nil
		}
		o.proven = true
	}
	call.completed = true
	return append(outcomes, o), nil
}

// again queues a script that the server did not run before everything that waits to be sent, and
// reports whether it did. If the server did not know it, somebody has flushed the scripts, because
// every connection loads a script before it first runs it.
//
// A later call for one of its keys that has already been sent would now run first. If that does
// harm, the script is not run at all, because its caller has moved on: an extension run behind its
// lock's release would write the key again.
func (c *conn) again(call Call, unknown bool) bool {
	if call.completed && !call.Keep {
		return false
	}
	if unknown && call.reloaded {
		return false // it was loaded just before
	}
	if unknown {
		c.scripts = nil // the server has forgotten them
	}
	if !call.Request.Script.late && c.overtaken(call.Request) {
		return false
	}
	call.eval = unknown && c.mayEval
	call.reloaded = unknown && !c.mayEval
	c.retries.push(call)
	return true
}

// overtaken reports whether a later call that has been sent is for one of the keys of a request.
func (c *conn) overtaken(r *Request) bool {
	keys := map[string]bool{r.Key: r.Key != ""}
	for _, key := range r.Words.Keys() {
		keys[key] = true
	}
	for i := range c.pending.len() {
		later := c.pending.at(i).Request
		if keys[later.Key] {
			return true
		}
		if later.Words.keys > 1 && slices.ContainsFunc(later.Words.Keys(), func(key string) bool { return keys[key] }) {
			return true
		}
	}
	return false
}
