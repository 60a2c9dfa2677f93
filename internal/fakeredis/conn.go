package fakeredis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// DefaultBuffer is how many bytes one direction of a connection holds before a writer blocks: 1
// MiB, as much as the buffers of a socket.
const DefaultBuffer = 1 << 20

// Conn is one end of an in-process connection with a buffer in each direction. It behaves as TCP
// does: bytes written before a Close arrive, bytes not read before a [Conn.Reset] are lost, and so
// is, without an error, what is written to a peer that is gone. All methods may be called from any
// goroutine.
type Conn struct {
	in, out       *buffer
	local, remote address
}

// Pipe returns the two ends of a new connection. It is for tests that play the server by hand;
// [Node.Dial] connects to a fake.
func Pipe() (client, server *Conn) {
	up, down := newBuffer(), newBuffer()
	return &Conn{in: down, out: up, local: "client", remote: "server"},
		&Conn{in: up, out: down, local: "server", remote: "client"}
}

// Read reads what the other end wrote. It blocks until there are bytes, the other end closes
// (io.EOF), this end closes (net.ErrClosed), the connection is reset (ECONNRESET) or the deadline
// passes (os.ErrDeadlineExceeded).
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write sends p to the other end. It blocks only while the buffer is full.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// TryWrite is Write as far as there is room now. There must be no other writer.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if p = p[:min(len(p), c.out.room())]; len(p) == 0 {
		return 0, nil
	}
	return c.Write(p)
}

// Close ends both directions: written bytes still arrive, unread bytes are lost.
func (c *Conn) Close() error {
	c.end()
	return nil
}

func (c *Conn) end() {
	c.in.deadline(&c.in.readBy, time.Time{})
	c.out.deadline(&c.out.writeBy, time.Time{})
	c.out.end()
	c.in.stopReading()
}

// CloseWrite is a half-close: it ends the direction away from this end, which can still read.
func (c *Conn) CloseWrite() error {
	c.out.end()
	return nil
}

// Reset breaks the connection: bytes in transit are lost and both ends get ECONNRESET.
func (c *Conn) Reset() {
	c.out.breakOff()
	c.in.breakOff()
}

// LocalAddr returns a name for this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns a name for the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline makes reads fail from t on, by package time as with any net.Conn. The zero time
// means never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline makes writes that would block fail from t on, as [Conn.SetReadDeadline] does for
// reads.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.writeBy, t)
	return nil
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// address names an end of a connection.
type address string

func (address) Network() string  { return "fake" }
func (a address) String() string { return string(a) }

// buffer is one direction of a connection: bytes written and not yet read.
type buffer struct {
	// notify is called without mu when bytes or the end arrive. It is nil if the reader blocks in
	// read. Set it before use.
	notify func()

	mu        sync.Mutex // guards the fields below; held only while bytes are moved
	changed   sync.Cond  // whenever one of them changed
	bytes     []byte     // bytes[start:] was written and not yet read
	start     int
	ended     bool // the writer is done: io.EOF follows bytes
	abandoned bool // the reader is gone: what is written is lost
	broken    bool // reset: bytes are lost and both sides get an error
	readBy    deadline
	writeBy   deadline
}

func newBuffer() *buffer {
	b := &buffer{}
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
		case b.readBy.passed():
			return 0, os.ErrDeadlineExceeded
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
		case b.writeBy.passed():
			return 0, os.ErrDeadlineExceeded
		case b.abandoned:
			return len(p), nil // as the first such write in TCP, which a reset answers
		case b.unreadLocked() < DefaultBuffer:
			n := min(len(p), DefaultBuffer-b.unreadLocked())
			b.appendLocked(p[:n])
			return n, nil
		}
		b.changed.Wait()
	}
}

// push appends p without waiting, even beyond the limit.
func (b *buffer) push(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.abandoned && !b.broken && !b.ended { // else it is lost on the way; the server will find out
		b.appendLocked(p)
	}
}

func (b *buffer) room() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(DefaultBuffer-b.unreadLocked(), 0)
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

// deadline is the moment of package time from which reads or writes fail. It reads no clock: a
// context with that deadline does, as the runtime does for a socket, so that a deadline made from
// time.Now means what its maker intended.
type deadline struct {
	err  func() error // of the context; nil while there is no deadline
	stop func()
}

func (d *deadline) passed() bool { return d.err != nil && d.err() != nil }

// deadline sets one of the two, and wakes what waits when it passes. The zero time ends it.
func (b *buffer) deadline(d *deadline, t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.stop != nil {
		d.stop()
	}
	*d = deadline{}
	if !t.IsZero() {
		ctx, cancel := context.WithDeadline(context.Background(), t)
		wake := context.AfterFunc(ctx, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed.Broadcast()
		})
		*d = deadline{ctx.Err, func() { wake(); cancel() }}
	}
	b.changed.Broadcast()
}

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
