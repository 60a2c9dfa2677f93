package pipeline

import (
	"runtime"
	"slices"

	"github.com/redquorum/redquorum/clock"
)

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

// wakeLocked wakes an idle writer that has something to do.
func (n *Node) wakeLocked(c *conn) {
	if c.idle && c.retries.len()+n.queue.len() > 0 {
		c.idle = false
		c.wake <- struct{}{}
	}
}
