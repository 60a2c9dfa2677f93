package scenario_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// switchboard is a proxy that moves standing connections from one server to another. It does not
// care about a command that is under way.
type switchboard struct {
	url      string
	listener net.Listener

	mu     sync.Mutex // guards the fields below
	target string
	plugs  []*plug
}

// plug is the connection of a client, and the current one to a server.
type plug struct {
	client net.Conn

	mu     sync.Mutex // guards the field below
	server net.Conn
}

func newSwitchboard(t *testing.T, target string) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &switchboard{url: "redis://" + listener.Addr().String(), listener: listener, target: target}
	go b.accept()
	t.Cleanup(func() {
		assert.NoError(t, listener.Close())
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.plugs {
			p.close()
		}
	})
	return b
}

func (b *switchboard) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		p := &plug{client: client}
		if p.connect(b.target) == nil {
			b.plugs = append(b.plugs, p)
			go p.forward()
		} else {
			_ = client.Close()
		}
		b.mu.Unlock()
	}
}

// switchTo moves all connections to target, and leads new ones there.
func (b *switchboard) switchTo(t *testing.T, target string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.target = target
	for _, p := range b.plugs {
		assert.NoError(t, p.connect(target))
	}
}

// connect plugs the client into a server, whose replies go to the client until the next connect.
func (p *plug) connect(target string) error {
	server, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	p.mu.Lock()
	old := p.server
	p.server = server
	p.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := p.client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	return nil
}

func (p *plug) forward() {
	defer p.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.client.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		server := p.server
		p.mu.Unlock()
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *plug) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.client.Close(), p.server.Close()
}
