package pipeline

import (
	"runtime"
	"slices"

	"github.com/redquorum/redquorum/clock"
)

// write sends what is queued, one batch at a time, until the connection ends.
func (n *Node) write(c *conn) error {
	var batch []outgoing
	for {
		batch = n.takeBatch(c, batch[:0])
		if len(batch) == 0 {
			select {
			case <-c.wake:
				// Let callers that are about to make a call do so first: a large batch costs one
				// system call. This costs nothing if there are none, and under load it saves a
				// fifth of the CPU per lock.
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

// takeBack moves an unwritten batch back to the front of the queue, for the next connection: the
// server had closed this one. The batch was sent last, so it forms the end of the pending calls.
func (n *Node) takeBack(c *conn, calls int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.giveUpLocked(connectionLost(err))
	for range min(calls, c.pending.len()) { // fewer if a wrong server answered too early
		n.queue.unshift(c.pending.popLast())
	}
}

func (c *conn) send(batch []outgoing) error {
	asked := c.guard.asked.Add(uint64(len(batch)))
	proves := false
	for _, o := range batch {
		if o.name == "" { // a proof, always the last of its batch
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

// takeBatch moves calls from the queue to the pending ones, in order, before any byte of them is
// written, so that their replies find them. Nobody waits for a completed call any more, so it is
// dropped unless it is kept. If there is nothing to take, the writer counts as idle.
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
					call.eval = true // EVAL loads the script, too
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

// wakeLocked wakes an idle writer if there is something to write.
func (n *Node) wakeLocked(c *conn) {
	if c.idle && c.retries.len()+n.queue.len() > 0 {
		c.idle = false
		c.wake <- struct{}{}
	}
}
