package fake

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// buffer is one direction of a connection: bytes written and not yet read.
type buffer struct {
	limit int // write blocks while this many bytes wait to be read
	// notify is called without mu when bytes or the end arrive. It is nil if the reader blocks in
	// read. Set it before use.
	notify func()

	mu        sync.Mutex // guards the fields below; held only while bytes are moved
	changed   sync.Cond  // whenever one of them changed
	bytes     []byte     // bytes[start:] was written and not yet read
	start     int
	ended     bool // the writer is done: io.EOF follows bytes
	abandoned bool // the reader is gone: what is written is lost
	told      bool // the writer has lost bytes to an abandoned buffer; from now on it gets an error
	broken    bool // reset: bytes are lost and both sides get an error
	readLate  bool // the reader's deadline has passed
	writeLate bool // the writer's deadline has passed
}

func newBuffer(limit int) *buffer {
	b := &buffer{limit: limit}
	b.changed.L = &b.mu
	return b
}

// read blocks until there is something to read, or a reason why there never will be.
func (b *buffer) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.abandoned:
			return 0, net.ErrClosed
		case b.broken:
			return 0, os.NewSyscallError("read", syscall.ECONNRESET)
		case b.readLate:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case b.unreadLocked() > 0:
			n := copy(p, b.bytes[b.start:])
			b.discardLocked(n)
			return n, nil
		case b.ended:
			return 0, io.EOF
		}
		b.changed.Wait()
	}
}

// take appends everything to dst without waiting. It reports whether the stream has ended, and
// whether the connection was reset.
func (b *buffer) take(dst []byte) (all []byte, ended, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return dst, true, true
	}
	if unread := b.unreadLocked(); unread > 0 {
		dst = append(dst, b.bytes[b.start:]...)
		b.discardLocked(unread)
	}
	return dst, b.ended, false
}

// write blocks while the buffer is full. It returns how many bytes were accepted before an error.
func (b *buffer) write(p []byte) (written int, err error) {
	for {
		n, err := b.writeSome(p[written:])
		written += n
		if n > 0 && b.notify != nil {
			b.notify()
		}
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// writeSome waits for room and fills it.
func (b *buffer) writeSome(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.ended:
			return 0, net.ErrClosed
		case b.broken:
			return 0, os.NewSyscallError("write", syscall.ECONNRESET)
		case b.writeLate:
			return 0, os.ErrDeadlineExceeded
		case b.abandoned && b.told:
			return 0, os.NewSyscallError("write", syscall.EPIPE)
		case b.abandoned:
			b.told = true // as in TCP: the first write is accepted, and answered with a reset
			return len(p), nil
		case b.unreadLocked() < b.limit || len(p) == 0:
			n := min(len(p), max(b.limit-b.unreadLocked(), 0))
			b.appendLocked(p[:n])
			return n, nil
		}
		b.changed.Wait()
	}
}

// push appends p without waiting, even beyond the limit. It reports whether at most most bytes are
// unread now.
func (b *buffer) push(p []byte, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abandoned || b.broken || b.ended {
		return true // lost on the way; the server will find out
	}
	b.appendLocked(p)
	return b.unreadLocked() <= most
}

func (b *buffer) unreadLocked() int { return len(b.bytes) - b.start }

func (b *buffer) appendLocked(p []byte) {
	if b.start > len(b.bytes)/2 {
		b.bytes = b.bytes[:copy(b.bytes, b.bytes[b.start:])]
		b.start = 0
	}
	b.bytes = append(b.bytes, p...)
	b.changed.Broadcast()
}

// discardLocked drops the oldest n bytes.
func (b *buffer) discardLocked(n int) {
	b.start += n
	if b.start == len(b.bytes) {
		b.bytes, b.start = b.bytes[:0], 0
	}
	b.changed.Broadcast()
}

// set changes flags and wakes everything that waits for one.
func (b *buffer) set(change func(b *buffer)) {
	b.mu.Lock()
	change(b)
	b.changed.Broadcast()
	b.mu.Unlock()
	if b.notify != nil {
		b.notify()
	}
}

// end marks the writer as done.
func (b *buffer) end() { b.set(func(b *buffer) { b.ended = true }) }

// stopReading marks the reader as gone.
func (b *buffer) stopReading() {
	b.set(func(b *buffer) { b.abandoned, b.bytes, b.start = true, nil, 0 })
}

// breakOff resets the connection.
func (b *buffer) breakOff() { b.set(func(b *buffer) { b.broken, b.bytes, b.start = true, nil, 0 }) }

// lateRead sets whether the reader's deadline has passed.
func (b *buffer) lateRead(is bool) { b.set(func(b *buffer) { b.readLate = is }) }

// lateWrite sets whether the writer's deadline has passed.
func (b *buffer) lateWrite(is bool) { b.set(func(b *buffer) { b.writeLate = is }) }

// isEnded reports whether the writer closed its side or the connection was reset.
func (b *buffer) isEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended || b.broken
}

// isAbandoned reports whether the reader closed its side or the connection was reset.
func (b *buffer) isAbandoned() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.abandoned || b.broken
}
