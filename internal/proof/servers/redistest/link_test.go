package redistest

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProxyPassesAHalfCloseOn(t *testing.T) {
	t.Parallel()
	fake := FakeServer(t, func(conn net.Conn) {
		if _, err := io.Copy(conn, conn); err != nil { // until the client closes its side
			t.Error(err)
		}
	})
	conn := rawDial(t, NewProxy(t, fake.Addr()).Addr())
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	echo, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(echo))
}

func TestProxyPassesTheResetOfAClientOn(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	fake := FakeServer(t, func(conn net.Conn) {
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	proxy := NewProxy(t, fake.Addr())
	conn := rawDial(t, proxy.Addr())
	soon(t, func() bool { return fake.Connections() == 1 }, "connected")
	resetConn(conn)
	require.ErrorIs(t, <-ended, syscall.ECONNRESET)
	soon(t, func() bool { return proxy.Connections() == 0 }, "gone")
}

func TestProxyResetsAClientThatWritesToAClosedServer(t *testing.T) {
	t.Parallel()
	fake := FakeServer(t, func(net.Conn) {})
	conn := rawDial(t, NewProxy(t, fake.Addr()).Addr())
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "closed in order")
	soon(t, func() bool {
		_, err := io.WriteString(conn, "PING\r\n")
		return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}, "reset")
}

func TestLinkThatEndedWhileDialingKeepsNoServer(t *testing.T) {
	t.Parallel()
	fake := FakeServer(t, func(conn net.Conn) {
		if _, err := io.Copy(io.Discard, conn); err == nil {
			t.Error("closed, not reset")
		}
	})
	client, server := rawDial(t, fake.Addr()), rawDial(t, fake.Addr())
	l := newLink(NewProxy(t, fake.Addr()), client)
	l.shut(resetConn)
	l.shut(resetConn)
	assert.False(t, l.attach(server))
	_, err := server.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}
