package redlocktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
)

// port makes a node reachable by TCP. It passes bytes on to connections in memory, so the faults of
// the node are the same there.
//
// It stays open while the node is stopped, and resets new connections: if it closed, another
// cluster might get the same port, and its nodes the requests for this one.
type port struct {
	node     *Node
	listener net.Listener
	running  sync.WaitGroup // accept, and two per connection

	mu     sync.Mutex // guards the fields below
	conns  map[*net.TCPConn]struct{}
	closed bool
}

// listen opens the node's port.
func (n *Node) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.endpoint = listener.Addr().String()
	n.port = &port{node: n, listener: listener, conns: make(map[*net.TCPConn]struct{})}
	n.port.running.Go(n.port.accept)
	return nil
}

// acceptPause is the pause before accepting again after an error, such as no free descriptors.
const acceptPause = 5 * time.Millisecond

func (p *port) accept() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			clock.Sleep(context.Background(), p.node.cluster.clock, acceptPause)
			continue
		}
		client := conn.(*net.TCPConn)
		if !p.add(client) {
			reset(client)
			return
		}
		p.running.Go(func() {
			p.serve(client)
			p.remove(client)
		})
	}
}

// serve passes bytes on until the connection ends.
func (p *port) serve(client *net.TCPConn) {
	conn, err := p.node.dial(context.Background())
	if err != nil {
		reset(client)
		return
	}
	server := conn.(*fakeredis.Conn)
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.Copy(server, client); err != nil {
			server.Reset()
		} else {
			_ = server.CloseWrite() //nolint:errcheck // always nil
		}
	})
	if _, err := io.Copy(client, server); err != nil {
		reset(client)
	}
	_ = client.Close() //nolint:errcheck // it ends either way
	up.Wait()
	_ = server.Close() //nolint:errcheck // always nil
}

// reset closes a connection as a process that was killed does.
func reset(client *net.TCPConn) {
	_ = client.SetLinger(0) //nolint:errcheck // then it is closed in the usual way
	_ = client.Close()      //nolint:errcheck // it ends either way
}

// add notes a connection, for close. It reports false if the port is closed.
func (p *port) add(client *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[client] = struct{}{}
	}
	return !p.closed
}

func (p *port) remove(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
}

// close ends everything. A client that does not read does not delay it, because its connection is
// closed here too.
func (p *port) close() {
	_ = p.listener.Close() //nolint:errcheck // it ends either way
	p.mu.Lock()
	p.closed = true
	for client := range p.conns {
		reset(client)
	}
	p.mu.Unlock()
	p.running.Wait()
}

// inBubble reports whether the caller runs in a testing/synctest bubble. No function says so; the
// first line of a goroutine's stack does.
func inBubble() bool {
	var buf [256]byte
	header, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("\n"))
	return bytes.Contains(header, []byte("synctest"))
}
