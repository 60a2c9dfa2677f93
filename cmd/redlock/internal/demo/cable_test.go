package demo

import (
	"errors"
	"net"
	"testing"
)

func TestUnpluggedCableEndsItsConnections(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := newCable()
	dial := func() (net.Conn, error) { return c.dial(t.Context(), "tcp", listener.Addr().String()) }
	first, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	c.unplug()
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := dial(); !errors.Is(err, errUnplugged) {
		t.Errorf("dial: got %v, want %v", err, errUnplugged)
	}
	c.plug()
	second, err := dial()
	if err != nil {
		t.Fatalf("dial again: %v", err)
	}
	if len(c.conns) != 1 {
		t.Errorf("got %d connections, want the second one", len(c.conns))
	}
	if err := second.Close(); err != nil || len(c.conns) != 0 {
		t.Errorf("closed with %v: got %d connections left, want none", err, len(c.conns))
	}
}
