package resp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
)

// Config is how a door behaves.
type Config struct {
	Leases *lease.Leases
	Clock  clock.Clock

	// Login reports whether a client may use the door; nil if none has to log in. The user is
	// "default" if the client names none.
	Login func(ctx context.Context, user, password string) bool

	// DefaultTTL is that of a lock without one, as SETNX has none; 0 refuses such locks.
	DefaultTTL time.Duration

	// Force takes locks away from other clients with DEL, and tells the log; nil if nobody may.
	Force *admin.Operator
}

// mostConnections bounds the clients at one time. Each takes two small buffers and a goroutine.
const mostConnections = 16_384

// Server serves clients on any number of listeners. It must not be copied.
type Server struct {
	config  Config
	scripts scripts
	ids     atomic.Int64

	mu    sync.Mutex // guards the fields below; never held over I/O
	conns map[net.Conn]struct{}
	ended bool
	all   sync.WaitGroup // of connections
}

// New returns a server.
func New(config Config) *Server {
	return &Server{config: config, scripts: scripts{known: map[string]*script{}}, conns: map[net.Conn]struct{}{}}
}

// Serve serves clients of a listener until ctx ends, and waits for the commands under way. It
// closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) //nolint:errcheck // it is not needed any more
	defer stop()
	for {
		network, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			s.end()
			return nil
		case err == nil:
			s.all.Go(func() { s.ServeConn(ctx, network) })
		case errors.Is(err, net.ErrClosed):
			s.end()
			return err
		default: // too many open files, as a rule
			late, timer := clock.After(s.config.Clock, acceptPause)
			select {
			case <-late:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// acceptPause is how long a server waits after it could not accept a connection.
const acceptPause = 50 * time.Millisecond

// end closes all connections, and waits for their commands.
func (s *Server) end() {
	s.mu.Lock()
	s.ended = true
	for network := range s.conns {
		_ = network.Close() //nolint:errcheck // what was to be written is written
	}
	s.mu.Unlock()
	s.all.Wait()
}

// enter counts a connection, unless there are too many.
func (s *Server) enter(network net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.conns) >= mostConnections {
		return false
	}
	s.conns[network] = struct{}{}
	return true
}

func (s *Server) leave(network net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, network)
}

// ServeConn serves one client until it leaves, and closes its connection. Commands run one after
// the other. A client counts its TTL from the reply (S42), so none waits for the command behind it.
func (s *Server) ServeConn(ctx context.Context, network net.Conn) {
	defer network.Close() //nolint:errcheck // the client is told nothing more
	if !s.enter(network) {
		_, _ = network.Write([]byte("-ERR max number of clients reached\r\n")) //nolint:errcheck // it is refused anyhow
		return
	}
	defer s.leave(network)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failing := &failingWriter{to: network}
	buffer := bufio.NewWriterSize(failing, 1<<10)
	c := &conn{
		server: s, ctx: ctx, id: s.ids.Add(1), from: network.RemoteAddr().String(),
		in: &reader{Reader: bufio.NewReaderSize(network, mostLine), known: s.config.Login == nil}, out: server.NewPeer(buffer),
	}
	c.reset()
	for !c.left {
		args, err := c.in.request()
		var framing errFraming
		switch {
		case err == nil && len(args) > 0:
			c.do(args)
		case errors.Is(err, errTooLarge):
			c.fail(err.Error())
		case errors.As(err, &framing):
			c.fail(err.Error())
			c.left = true
		case err != nil:
			c.left = true
		}
		if c.queued == nil || c.in.Buffered() == 0 || c.left { // what is only queued grants nothing
			c.out.Flush()
		}
		if failing.err != nil { // the client is gone, and the end of the last reply with it
			c.giveBack()
			return
		}
		c.unsent = c.unsent[:0]
	}
}

// failingWriter keeps the first error, which the library that writes replies leaves out.
type failingWriter struct {
	to  net.Conn
	err error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}
