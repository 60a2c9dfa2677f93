package network_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// middlebox is a proxy in front of a master. It looks at each piece of what passes, and does what
// the test chose before any client dialed it.
type middlebox struct {
	target  string
	running sync.WaitGroup

	// resets: the connection of the client ends by RST in the middle of this reply.
	resets func(reply []byte) bool
	// repeats: the master gets this request again, on a new connection, after so long (negative:
	// never). After 0, the answer to the first one is lost, and all that follows goes to the new
	// connection. Later, the client had that answer, and the other one is lost.
	repeats func(request []byte) (after time.Duration)

	mu    sync.Mutex
	conns []net.Conn // all that there were
}

// upstream is a connection of a middlebox to the master.
type upstream struct {
	net.Conn
	mute     atomic.Bool   // its answers are lost
	answered chan struct{} // has one signal if one was lost
}

// inFront starts a middlebox in front of a host's master. It ends with the test.
func (h *host) inFront(t *testing.T, b *middlebox) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(h.address(1), "0"))
	require.NoError(t, err)
	b.target = h.master.Addr()
	b.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			b.running.Go(func() { b.serve(client) })
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, listener.Close())
		b.mu.Lock()
		for _, c := range b.conns {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.running.Wait()
	})
	return "redis://" + listener.Addr().String()
}

// serve passes on the requests of a client.
func (b *middlebox) serve(client net.Conn) {
	server := b.dial(client)
	for buf := make([]byte, 1<<16); server != nil; {
		n, err := client.Read(buf)
		after := time.Duration(-1)
		if err == nil && b.repeats != nil {
			after = b.repeats(buf[:n])
		}
		server.mute.Store(after == 0)
		if err == nil {
			_, err = server.Write(buf[:n])
		}
		switch {
		case err != nil:
			_ = server.Close()
			return
		case after == 0:
			select {
			case <-server.answered:
			case <-time.After(time.Second): // it was no whole request
			}
			_ = server.Close()
			if server = b.dial(client); server != nil {
				_, _ = server.Write(buf[:n]) //nolint:errcheck // the test notices
			}
		case after > 0:
			request := append([]byte(nil), buf[:n]...)
			b.running.Go(func() {
				time.Sleep(after)
				if again := b.dial(nil); again != nil {
					_, _ = again.Write(request) //nolint:errcheck // the test notices
				}
			})
		}
	}
}

// dial connects to the master, and passes its replies on to the client, if there is one.
func (b *middlebox) dial(client net.Conn) *upstream {
	conn, err := net.Dial("tcp", b.target)
	if err != nil {
		return nil
	}
	server := &upstream{Conn: conn, answered: make(chan struct{}, 1)}
	b.mu.Lock()
	b.conns = append(b.conns, conn)
	if client != nil {
		b.conns = append(b.conns, client)
	}
	b.mu.Unlock()
	if client != nil {
		b.running.Go(func() { b.answer(client, server) })
	}
	return server
}

// answer passes on the replies of a connection to the master.
func (b *middlebox) answer(client net.Conn, server *upstream) {
	for buf := make([]byte, 1<<16); ; {
		n, err := server.Read(buf)
		switch {
		case server.mute.Load():
			select {
			case server.answered <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		case err != nil:
			_ = client.Close()
			return
		case b.resets != nil && b.resets(buf[:n]):
			_, _ = client.Write(buf[:n/2])         //nolint:errcheck // the test notices
			time.Sleep(10 * time.Millisecond)      // the client has read that
			_ = client.(*net.TCPConn).SetLinger(0) //nolint:errcheck // the test notices
			_ = client.Close()
			_ = server.Close()
			return
		default:
			_, _ = client.Write(buf[:n]) //nolint:errcheck // the test notices
		}
	}
}
