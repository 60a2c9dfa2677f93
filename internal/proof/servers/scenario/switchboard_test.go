package scenario_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// switchboard is an address that moves from server to server, like a service name or a virtual IP.
// As a proxy that speaks Redis may do, it can move standing connections, too. It does not care
// about a command that is under way.
type switchboard struct {
	url string

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
	b := &switchboard{target: target}
	b.url = redistest.FakeServer(t, b.serve).URL()
	return b
}

// serve plugs a client in until it ends, or the server that it is plugged into.
func (b *switchboard) serve(client net.Conn) {
	p := &plug{client: client}
	b.mu.Lock()
	err := p.connect(b.target)
	if err == nil {
		b.plugs = append(b.plugs, p)
	}
	b.mu.Unlock()
	if err == nil {
		p.forward()
	}
}

// lead leads new connections to target.
func (b *switchboard) lead(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.target = target
}

// switchTo moves all connections to target, and leads new ones there.
func (b *switchboard) switchTo(t *testing.T, target string) {
	t.Helper()
	b.lead(target)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.plugs {
		assert.NoError(t, p.connect(target))
	}
}

// connect plugs the client into a server. It ends with the server that it is plugged into.
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
		_, _ = io.Copy(p.client, server) //nolint:errcheck // either connection ends it
		if p.current() == server {
			p.close()
		}
	}()
	return nil
}

func (p *plug) current() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

func (p *plug) forward() {
	defer p.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.client.Read(buf)
		if err != nil {
			return
		}
		if _, err := p.current().Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *plug) close() { _, _ = p.client.Close(), p.current().Close() }
