package redistest

import (
	"net"
	"sync"
	"testing"
)

// Fake is a server that says what its handler says: see [FakeServer].
type Fake struct {
	listener net.Listener
	handler  func(net.Conn)
	handlers sync.WaitGroup // accept and every handler; waited for by close

	mu     sync.Mutex // guards the fields below; never held over I/O
	conns  map[net.Conn]struct{}
	closed bool
}

// FakeServer listens on a free port of [Host] and runs the handler for each connection in a
// goroutine of its own. It is for servers that talk garbage, speak HTTP, stay mute, or answer
// twice. The connection is closed when the handler returns. The end of the test closes all
// connections and waits for the handlers, so a handler must return when its connection fails.
func FakeServer(tb testing.TB, handler func(conn net.Conn)) *Fake {
	tb.Helper()
	listener, err := Listen()
	if err != nil {
		tb.Fatalf("redistest: fake server: %v", err)
	}
	f := &Fake{listener: listener, handler: handler, conns: make(map[net.Conn]struct{})}
	f.handlers.Go(f.accept)
	tb.Cleanup(f.close)
	return f
}

// Addr returns the server's host:port.
func (f *Fake) Addr() string { return f.listener.Addr().String() }

// URL returns the server as redis://host:port.
func (f *Fake) URL() string { return "redis://" + f.Addr() }

// Connections returns how many handlers run.
func (f *Fake) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

func (f *Fake) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed; or no descriptors are left, but then the test's own dial fails first
		}
		if !f.admit(conn) {
			closeQuietly(conn)
		}
	}
}

func (f *Fake) admit(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.conns[conn] = struct{}{}
	f.handlers.Go(func() { f.serve(conn) })
	return true
}

func (f *Fake) serve(conn net.Conn) {
	defer func() {
		closeQuietly(conn)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, conn)
	}()
	f.handler(conn)
}

func (f *Fake) close() {
	f.mu.Lock()
	f.closed = true
	conns := f.conns
	f.conns = make(map[net.Conn]struct{})
	f.mu.Unlock()
	closeQuietly(f.listener)
	for conn := range conns {
		closeQuietly(conn)
	}
	f.handlers.Wait()
}
