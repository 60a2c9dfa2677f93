package pipeline

import (
	"runtime"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// maxWriteBuffer is flushed, even within a batch.
const maxWriteBuffer = 64 << 10

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
				if err := c.flush(); err != nil { // the rest of what a caller wrote
					return connectionLost(err)
				}
				continue
			case <-c.gone:
				n.awaitReturn(c)
				return nil
			}
		}
		n.setTimes(batch)
		before := c.written
		if err := c.send(batch); err != nil {
			if c.written == before {
				n.mu.Lock()
				n.takeBackLocked(c, len(batch), err)
				n.mu.Unlock()
			}
			return connectionLost(err)
		}
		clear(batch)
	}
}

// setTimes sets the argument of timed scripts, just before they are written. A pause after this
// makes them arrive late, as a slow network does.
func (n *Node) setTimes(batch []outgoing) {
	for i := range batch {
		if o := &batch[i]; o.script != nil && o.script.timed {
			left := o.request.Sink.(Timed).Until().Sub(n.config.clock.Now())
			o.left = int64((max(left, 0) + time.Millisecond - 1) / time.Millisecond)
		}
	}
}

// takeBackLocked moves an unwritten batch back to the front of the queue, for the next connection:
// the server had closed this one. The batch was sent last, so it forms the end of the pending
// calls.
func (n *Node) takeBackLocked(c *conn, calls int, err error) {
	c.giveUpLocked(connectionLost(err))
	for range min(calls, c.pending.len()) { // fewer if a wrong server answered too early
		n.queue.unshift(c.pending.popLast())
	}
}

// send writes commands at once.
func (c *conn) send(batch []outgoing) error {
	c.announce(batch)
	for i := range batch {
		if batch[i].together == 0 {
			continue
		}
		if err := c.buffer(batch[i:][:batch[i].together]); err != nil {
			return err
		}
	}
	return c.flush()
}

// announce tells the reader how many replies there will be, before any byte of the batch is
// written.
func (c *conn) announce(batch []outgoing) {
	commands := 0
	for i := range batch {
		commands += min(batch[i].together, 1)
	}
	asked := c.in.asked.Add(uint64(commands))
	if batch[len(batch)-1].proof { // it is always the last of its batch
		c.in.proofs[c.proofs%len(c.in.proofs)].Store(asked)
		c.proofs++
	}
}

// buffer takes a command, which is written with the next flush at the latest.
func (c *conn) buffer(calls []outgoing) error {
	if c.out = appendCommand(c.out, calls); len(c.out) >= maxWriteBuffer {
		return c.flush()
	}
	return nil
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	n, err := c.stream.Write(c.out)
	c.written += uint64(n)
	c.out = c.out[:0]
	return err
}

// appendCommand appends one command, which runs all the calls if there are several.
func appendCommand(to []byte, calls []outgoing) []byte {
	words, keys := 0, 0
	for i := range calls {
		words += int(calls[i].request.Words.count)
		keys += int(calls[i].request.Words.keys)
	}
	script := calls[0].script
	timed := script != nil && script.timed // such calls are not run together
	if timed {
		words++
	}
	if script != nil {
		to = appendNumber(to, '*', 3+words) // EVALSHA, the digest and the number of keys
		if calls[0].eval {
			to = append(append(to, evalWord...), script.encoded().text...)
		} else {
			to = append(to, script.encoded().short...)
		}
		to = appendNumber(to, '$', digits(int64(keys)))
		to = append(strconv.AppendInt(to, int64(keys), 10), crlf...)
	} else {
		to = appendNumber(to, '*', words)
	}
	for i := range calls {
		w := &calls[i].request.Words
		to = append(to, w.text[:w.behind]...)
	}
	for i := range calls {
		w := &calls[i].request.Words
		to = append(append(to, w.text[w.behind:]...), w.tail...)
	}
	if timed {
		to = appendNumber(to, '$', digits(calls[0].left))
		to = append(strconv.AppendInt(to, calls[0].left, 10), crlf...)
	}
	return to
}

func appendNumber(to []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(to, kind), int64(n), 10), crlf...)
}

// takeBatch moves calls from the queue to the pending ones, in order, before any byte of them is
// written, so that their replies find them. Nobody waits for a completed call any more, so it is
// dropped unless it is kept. If there is nothing to take, the writer counts as idle.
func (n *Node) takeBatch(c *conn, batch []outgoing) []outgoing {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.takeBatchLocked(c, batch)
}

func (n *Node) takeBatchLocked(c *conn, batch []outgoing) []outgoing {
	g := &c.gathering
	g.out = batch
	var proveUntil clock.Instant
	for _, from := range [...]*ring{&c.retries, &n.queue} {
		for c.err == nil && from.len() > 0 && len(g.out)+g.held < maxBatch {
			call := from.pop()
			if call.completed && !call.Keep {
				continue
			}
			c.placeLocked(call)
			if call.Request.Prove && c.proves {
				proveUntil = max(proveUntil, call.Request.Deadline)
			}
		}
	}
	for len(g.groups) > 0 {
		c.closeLocked(0)
	}
	if proveUntil != 0 {
		c.takeProofLocked(proveUntil)
	}
	batch, g.out = g.out, nil
	c.idle = len(batch) == 0
	return batch
}

// wakeLocked wakes an idle writer if there is something to write.
func (n *Node) wakeLocked(c *conn) {
	if c.retries.len()+n.queue.len() > 0 {
		c.callReaderLocked()
	}
	if c.idle && c.retries.len()+n.queue.len() > 0 {
		c.idle = false
		c.wake <- struct{}{}
	}
}
