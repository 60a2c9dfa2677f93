package contention

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// commandCounter counts the commands that one process sends, over all its connections.
type commandCounter struct {
	total       atomic.Uint64
	inWindow    atomic.Uint64 // those written between from and until
	from, until atomic.Int64  // Instants; both 0 until window is called
}

// window starts counting what is written between two instants for inWindow.
func (c *commandCounter) window(from, until Instant) {
	c.from.Store(int64(from))
	c.until.Store(int64(until))
}

func (c *commandCounter) add(n int) {
	c.total.Add(uint64(n))
	if at := int64(now()); at >= c.from.Load() && at < c.until.Load() {
		c.inWindow.Add(uint64(n))
	}
}

// dial is net.Dialer's DialContext with a connection that counts.
func (c *commandCounter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, counter: c}, nil
}

// countingConn is a connection to a server that counts commands as they are written.
type countingConn struct {
	net.Conn
	counter *commandCounter

	mu       sync.Mutex // guards requests; not held over I/O
	requests requestStream
}

// Write counts a command with its last byte, before the system call.
func (c *countingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	n, err := c.requests.feed(b)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if n > 0 {
		c.counter.add(n)
	}
	return c.Conn.Write(b)
}

// requestStream follows the commands of one connection: *<words>, and for each word $<length> and
// as many bytes.
type requestStream struct {
	kind   byte // of the header that is being read: '*' or '$'; 0 between headers
	number int  // the digits of that header so far
	words  int  // of the command that are still to come; 0 between commands
	skip   int  // bytes of the current word that are still to come, with its line end
}

// feed takes the next bytes of the stream and returns how many commands end in them.
func (s *requestStream) feed(b []byte) (commands int, err error) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			s.skip -= n
			b = b[n:]
			if s.skip == 0 {
				if s.words--; s.words == 0 {
					commands++
				}
			}
			continue
		}
		if err := s.header(b[0]); err != nil {
			return commands, err
		}
		b = b[1:]
	}
	return commands, nil
}

// header takes the next byte of a header.
func (s *requestStream) header(c byte) error {
	switch {
	case s.kind == 0 && (c == '*') == (s.words == 0) && (c == '*' || c == '$'):
		s.kind, s.number = c, 0
	case s.kind != 0 && c >= '0' && c <= '9':
		s.number = 10*s.number + int(c-'0')
	case s.kind != 0 && c == '\r':
	case s.kind == '*' && c == '\n':
		s.kind, s.words = 0, s.number
	case s.kind == '$' && c == '\n':
		s.kind, s.skip = 0, s.number+len("\r\n")
	default:
		return fmt.Errorf("contention: %q in the header of a request", c)
	}
	return nil
}
