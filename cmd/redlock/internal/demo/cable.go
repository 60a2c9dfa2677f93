package demo

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errUnplugged = errors.New("unplugged")

// cable connects one worker's Locker with the nodes. Unplugging it closes its connections and
// prevents new ones.
type cable struct {
	mu        sync.Mutex // guards the fields below
	unplugged bool
	conns     map[net.Conn]struct{}
}

func newCable() *cable { return &cable{conns: map[net.Conn]struct{}{}} }

// dial is a dialer for pool.WithDialer.
func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.isUnplugged() {
		return nil, errUnplugged
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unplugged {
		return nil, errors.Join(errUnplugged, conn.Close())
	}
	c.conns[conn] = struct{}{}
	return &cableConn{conn, c}, nil
}

func (c *cable) isUnplugged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unplugged
}

func (c *cable) unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = true
	for conn := range c.conns {
		_ = conn.Close() //nolint:errcheck // it ends either way
	}
	clear(c.conns)
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = false
}

// cableConn is removed from its cable when it is closed.
type cableConn struct {
	net.Conn
	cable *cable
}

func (c *cableConn) Close() error {
	c.cable.mu.Lock()
	delete(c.cable.conns, c.Conn)
	c.cable.mu.Unlock()
	return c.Conn.Close()
}
