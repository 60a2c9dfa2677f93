package fakenode

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// DefaultBuffer is how many bytes one direction of a connection holds before a writer blocks, as with a socket's
// buffers: 1 MiB.
const DefaultBuffer = 1 << 20

// Conn is one end of a connection inside the process, with a buffer in each direction. It behaves as TCP does:
// what was written before a Close arrives, what was not read before a [Conn.Reset] is lost, and the first write to a
// peer that is gone succeeds. All methods may be called from any goroutine.
type Conn struct {
	in, out       *buffer
	local, remote address
	read, write   deadline
}

// Pipe returns the two ends of a new connection whose directions hold limit bytes each; limit 0 or less means
// [DefaultBuffer]. It serves tests that play the server by hand; [Node.Dial] gives connections to a real fake.
func Pipe(limit int) (client, server *Conn) {
	if limit <= 0 {
		limit = DefaultBuffer
	}
	up, down := newBuffer(limit), newBuffer(limit)
	return &Conn{in: down, out: up, local: "client", remote: "server"},
		&Conn{in: up, out: down, local: "server", remote: "client"}
}

// Read reads what the other end wrote. It blocks until there is something, the other end closed (io.EOF), this end
// closed (net.ErrClosed), the connection was reset (ECONNRESET) or the deadline passed (os.ErrDeadlineExceeded).
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write hands p to the other end. It blocks only while the buffer is full.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close ends both directions: what was written still arrives, what was not read is lost.
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

// CloseWrite ends the direction away from this end, which can still read: a half-close.
func (c *Conn) CloseWrite() error {
	c.out.end()
	return nil
}

// Reset breaks the connection: bytes on the way are lost and both ends get ECONNRESET.
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

// SetReadDeadline makes reads fail from t on, by the clock of package time as with any net.Conn. The zero time
// means never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.read.set(t, c.in.lateRead)
	return nil
}

// SetWriteDeadline makes writes that would block fail from t on, as [Conn.SetReadDeadline] does for reads.
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

func (address) Network() string  { return "fakenode" }
func (a address) String() string { return string(a) }

// deadline is a moment of package time, by which a connection is late. It reads no clock itself: a context of that
// deadline does, as the runtime does for a socket, so that a deadline made by time.Now means what its maker meant.
type deadline struct {
	mu     sync.Mutex // guards the fields below
	cancel func()     // ends the wait for the moment; nil while there is none
	late   bool       // what was last said
	count  uint64     // counts set: a wait that ends for an older one says nothing
}

// set waits for t, in the place of what was waited for before, and says whether it has passed, now and then.
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
