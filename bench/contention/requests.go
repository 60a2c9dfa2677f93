package contention

import (
	"bytes"
	"context"
	"net"
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
	return countingConn{conn, c}, nil
}

// countingConn is a connection to a server that counts commands as they are written.
type countingConn struct {
	net.Conn
	counter *commandCounter
}

// Write counts before the system call.
func (c countingConn) Write(b []byte) (int, error) {
	c.counter.add(CommandsIn(b))
	return c.Conn.Write(b)
}

// CommandsIn returns how many commands begin in what a client writes. Each begins with a star at
// the start of a line, and no word of a lock has one there.
func CommandsIn(written []byte) int {
	n := bytes.Count(written, []byte("\n*"))
	if bytes.HasPrefix(written, []byte("*")) {
		n++
	}
	return n
}
