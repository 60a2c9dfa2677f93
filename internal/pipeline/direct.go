package pipeline

// A caller that finds its connection idle may write for itself: it borrows the writer's part, and
// with it everything that only the writer uses. To everybody else the writer is busy meanwhile, so
// calls stay in one order (S6, S8, docs/safety.md): what others queue waits for the writer, which
// the caller wakes when it is done. The mutex hands the part over and back.
//
// The caller never waits. It writes what the network takes at once, and leaves the rest to the
// writer. The connection does not end meanwhile: the writer waits for its part to come back before
// it returns, so nobody decides what was sent before the caller knows.

// tryWriter writes what the network takes without waiting, which may be nothing.
type tryWriter interface {
	TryWrite(p []byte) (n int, err error)
}

// maxDirect bounds the bytes of a call that its caller writes: few enough for the buffer of a
// socket.
const maxDirect = 4 << 10

// lendsLocked reports whether the caller of the one queued call shall write it. If so, it has the
// writer's part.
func (c *conn) lendsLocked(r *Request) bool {
	c.lent = r.Direct && c.direct != nil && c.err == nil && c.retries.len() == 0 &&
		len(r.Words.text)+len(r.Words.tail) <= maxDirect
	return c.lent
}

// writeDirectly writes what is queued in the writer's place. It unlocks the mutex.
func (n *Node) writeDirectly(c *conn) {
	batch := n.takeBatchLocked(c, c.spare[:0])
	n.mu.Unlock()
	n.setTimes(batch)
	c.announce(batch)
	for i := range batch { // one call, and commands of our own around it
		c.out = appendCommand(c.out, batch[i:][:1])
	}
	written, err := c.direct.TryWrite(c.out)
	c.written += uint64(written)
	c.out = c.out[:copy(c.out, c.out[written:])]

	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		c.giveUpLocked(connectionLost(err))
		if written == 0 {
			n.takeBackLocked(c, len(batch), err)
		}
	}
	clear(batch)
	c.spare, c.lent = batch, false
	c.idle = c.err == nil && len(c.out) == 0 && n.queue.len()+c.retries.len() == 0
	if !c.idle {
		c.wake <- struct{}{} // there is room: the caller took over from an idle writer
	}
}

// awaitReturn waits until no caller has the writer's part of a connection that has ended. No caller
// gets it any more, and one that has it signals the end.
func (n *Node) awaitReturn(c *conn) {
	n.mu.Lock()
	lent := c.lent
	n.mu.Unlock()
	if lent {
		<-c.wake
	}
}
