package pipeline

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// late is a connection whose callers are stopped before they write, until go is closed.
type late struct {
	net.Conn
	writes *atomic.Int64
	resume <-chan struct{}
}

func (c late) TryWrite(p []byte) (int, error) {
	c.writes.Add(1)
	<-c.resume
	return c.Write(p)
}

// The connection ends while a caller that writes for itself is stopped. The call was not written,
// so it is sent on the next connection, and only there: nobody may decide its fate before.
func TestAConnectionEndsWhileACallerWritesOnIt(t *testing.T) {
	inBubble(t, func(h *harness) {
		resume := make(chan struct{})
		var writes atomic.Int64
		require.NoError(t, h.node.Close())
		h.node = h.newNode("fake:6379", WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := h.dial(ctx, network, address)
			return late{conn, &writes, resume}, err
		}))
		h.up()
		pass(time.Second)
		asked := newWaiter(t)
		go h.call(true, Request{Words: Command("ECHO", "first"), Direct: true, Deadline: h.clock.Now().Add(time.Minute)}, asked)
		pass(time.Millisecond)
		behind := h.do(true, Request{Words: Command("ECHO", "second"), Direct: true, Deadline: h.clock.Now().Add(time.Minute)})
		pass(time.Millisecond)
		assert.EqualValues(t, 1, writes.Load(), "the second is left to the writer")
		h.server.Kill()
		h.server.Restart(true)
		pass(time.Second)
		assert.Empty(t, h.executed())
		close(resume)
		assert.Equal(t, []byte("first"), asked.reply())
		assert.Equal(t, []byte("second"), behind.reply())
		pass(time.Second)
		assert.Equal(t, []string{"ECHO", "ECHO"}, h.executed())
	})
}

// A caller writes what a socket takes at once, and does not wait for a peer that does not read.
func TestATriedWriteToAFullSocketReturns(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	socket := newTryWriter(client)
	if socket == nil {
		t.Skip("on this platform, only the writer writes to sockets")
	}
	chunk := make([]byte, 64<<10)
	for {
		if n, err := socket.TryWrite(chunk); n < len(chunk) {
			require.NoError(t, err)
			break
		}
	}
	require.NoError(t, client.Close())
	n, err := socket.TryWrite(chunk)
	assert.Zero(t, n)
	assert.ErrorIs(t, err, net.ErrClosed)
}

// tunnel is a dialer's own connection, which changes what it writes to the socket within.
type tunnel struct{ *net.TCPConn }

func TestNothingIsWrittenPastADialersOwnConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NotNil(t, newTryWriter(conn))
	assert.Nil(t, newTryWriter(tunnel{conn.(*net.TCPConn)}))
}
