package leasehttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
)

// silentConn notes that its peer has fallen silent: then nothing is known of it. A peer that has
// closed the connection, or whose process has died, is not silent: its kernel says so.
type silentConn struct {
	net.Conn
	silent atomic.Bool // set by Read
}

// Read reads. Its own deadlines are the server's way to stop it.
func (c *silentConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if isSilence(err) {
		c.silent.Store(true)
	}
	return n, err
}

// isSilence reports whether an error of a socket leaves it open what became of the peer.
func isSilence(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// listener makes connections that note it.
type listener struct{ net.Listener }

// Accept waits for a connection.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &silentConn{Conn: conn}, nil
}

// Listener returns one whose connections tell the streams of a Door why they ended. The server has
// [WithConn].
func Listener(l net.Listener) net.Listener {
	notice(l)
	return listener{l}
}

type connKey struct{}

// WithConn is http.Server.ConnContext.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// isBroken reports whether the client of a request may be alive although its stream has ended with
// an error: it did not read what was sent, or does not answer.
func isBroken(r *http.Request, err error) bool {
	conn, _ := r.Context().Value(connKey{}).(*silentConn)
	return isSilence(err) || errors.Is(err, os.ErrDeadlineExceeded) || conn != nil && conn.silent.Load()
}
