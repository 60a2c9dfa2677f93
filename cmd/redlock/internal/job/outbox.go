package job

import (
	"io"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
)

const (
	outboxRoom  = 256 << 10   // bytes that wait to be written: some thousand lines of the log
	outboxBound = time.Second // for what is unread when all is over
)

// Outbox is an io.Writer that never blocks: a stuck reader of stderr must not delay a renewal, a
// signal or the release. Messages wait in order, up to outboxRoom. More are dropped, and the reader
// is told how many.
type Outbox struct {
	w     io.Writer
	clock clock.Clock
	note  func(dropped int) []byte // tells the reader how many messages were dropped

	mu      sync.Mutex // guards the fields below; never held over a write
	queue   [][]byte   // one message each
	size    int        // bytes in the queue and in the current write
	dropped int
	idle    chan struct{} // closed when everything has been written; nil while idle
}

// NewOutbox returns an outbox for a writer. Note makes the line about messages that were dropped.
func NewOutbox(w io.Writer, clk clock.Clock, note func(int) []byte) *Outbox {
	return &Outbox{w: w, clock: clk, note: note}
}

// Write takes a message. It returns no error: nobody could act on it.
func (o *Outbox) Write(message []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size+len(message) > outboxRoom {
		o.dropped++
		return len(message), nil
	}
	o.queue = append(o.queue, append([]byte(nil), message...)) // the caller may reuse its bytes
	o.size += len(message)
	if o.idle == nil {
		o.idle = make(chan struct{})
		// It ends when all is written, or with the process: flush waits no longer than its bound.
		go o.drain()
	}
	return len(message), nil
}

func (o *Outbox) drain() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 && o.dropped > 0 {
			o.queue = append(o.queue, o.note(o.dropped))
			o.size += len(o.queue[0])
			o.dropped = 0
		}
		if len(o.queue) == 0 {
			close(o.idle)
			o.idle = nil
			o.mu.Unlock()
			return
		}
		message := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		_, _ = o.w.Write(message) //nolint:errcheck // if nobody reads it, nobody is left to tell
		o.mu.Lock()
		o.size -= len(message)
		o.mu.Unlock()
	}
}

// Flush waits until everything is written, at most outboxBound.
func (o *Outbox) Flush() {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return
	}
	late := make(chan struct{})
	timer := o.clock.AfterFunc(outboxBound, func() { close(late) })
	defer timer.Stop()
	select {
	case <-idle:
	case <-late:
	}
}
