package fake

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// DefaultBuffer is how many bytes one direction of a connection holds before a writer blocks: 1
// MiB, as much as the buffers of a socket.
const DefaultBuffer = 1 << 20

// Conn is one end of an in-process connection with a buffer in each direction. It behaves as TCP
// does: bytes written before a Close arrive, bytes not read before a [Conn.Reset] are lost, and the
// first write to a peer that is gone succeeds. All methods may be called from any goroutine.
type Conn struct {
	in, out       *buffer
	local, remote address
	read, write   deadline
}

// Pipe returns the two ends of a new connection whose directions hold limit bytes each; a limit of
// 0 or less means [DefaultBuffer]. It is for tests that play the server by hand; [Node.Dial]
// connects to a fake.
func Pipe(limit int) (client, server *Conn) {
	if limit <= 0 {
		limit = DefaultBuffer
	}
	up, down := newBuffer(limit), newBuffer(limit)
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

// Close ends both directions: written bytes still arrive, unread bytes are lost.
func (c *Conn) Close() error {
	c.end()
	return nil
}

func (c *Conn) end() {
	c.read.stop()
	c.write.stop()
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
	c.read.set(t, c.in.lateRead)
	return nil
}

// SetWriteDeadline makes writes that would block fail from t on, as [Conn.SetReadDeadline] does for
// reads.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t, c.out.lateWrite)
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

// deadline is the moment of package time from which a connection is late. It reads no clock: a
// context with that deadline does, as the runtime does for a socket, so that a deadline made from
// time.Now means what its maker intended.
type deadline struct {
	mu     sync.Mutex // guards the fields below
	cancel func()     // ends the wait for the moment; nil while there is none
	late   bool       // what was last reported
	count  uint64     // counts set: a wait for an older deadline reports nothing
}

// set waits for t instead of the previous moment. It reports whether t has passed now, and again
// when it passes.
func (d *deadline) set(t time.Time, say func(late bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopLocked()
	if t.IsZero() {
		d.sayLocked(false, say)
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), t)
	d.sayLocked(ctx.Err() != nil, say)
	count := d.count
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if count == d.count {
			d.sayLocked(true, say)
		}
	})
	d.cancel = func() { stop(); cancel() }
}

func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopLocked()
}

func (d *deadline) stopLocked() {
	d.count++
	if d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
}

func (d *deadline) sayLocked(late bool, say func(bool)) {
	if d.late != late {
		d.late = late
		say(late)
	}
}
