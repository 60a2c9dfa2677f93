package redistest

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxied returns a server and a proxy in front of it.
func proxied(t *testing.T) (*Server, *Proxy) {
	t.Helper()
	server := StartOne(t)
	return server, NewProxy(t, server.Addr())
}

// send writes one command and does not wait for its reply.
func send(t *testing.T, conn redis.Conn, cmd string, args ...any) {
	t.Helper()
	require.NoError(t, conn.Send(cmd, args...))
	require.NoError(t, conn.Flush())
}

// answers returns a connection to the address that has answered a PING.
func answers(t *testing.T, addr string) redis.Conn {
	t.Helper()
	conn := dial(t, addr, replyTimeout)
	_, err := conn.Do("PING")
	require.NoError(t, err)
	return conn
}

// clients returns how many connections the server has, including ours.
func clients(t *testing.T, server *Server) int {
	t.Helper()
	list, err := redis.String(server.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	return strings.Count(list, "\n")
}

func TestProxyPassesLargeValuesBothWays(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn, err := redis.DialURL(proxy.URL(), redis.DialReadTimeout(replyTimeout))
	require.NoError(t, err)
	defer closeQuietly(conn)
	want := strings.Repeat("value", 200_000)
	_, err = conn.Do("SET", "key", want)
	require.NoError(t, err)
	got, err := redis.String(conn.Do("GET", "key"))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	got, err = redis.String(server.Do("GET", "key"))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestProxyReachesAUnixSocket(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithUnixSocket())
	answers(t, NewProxy(t, server.Socket()).Addr())
}

func TestProxyCountsTheConnectionsOfItsClients(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	first, second := answers(t, proxy.Addr()), answers(t, proxy.Addr())
	assert.Equal(t, 2, proxy.Connections())
	require.NoError(t, first.Close())
	soon(t, func() bool { return proxy.Connections() == 1 }, "one is left")
	require.NoError(t, second.Close())
	soon(t, func() bool { return proxy.Connections() == 0 }, "none is left")
	soon(t, func() bool { return clients(t, server) == 1 }, "the server's side is closed too")
}

func TestProxyFollowsItsServerThroughARestart(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	old := answers(t, proxy.Addr())
	require.NoError(t, server.Kill())
	_, err := old.Receive()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	refused(t, proxy.Addr())
	require.NoError(t, server.Restart())
	answers(t, proxy.Addr())
}

func TestResetEndsPresentConnectionsOnly(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Reset()
	_, err := conn.Receive()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	soon(t, func() bool { return proxy.Connections() == 0 && clients(t, server) == 1 }, "both sides are closed")
	answers(t, proxy.Addr())
}

func TestRefuseSparesPresentConnections(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Refuse(true)
	refused(t, proxy.Addr())
	_, err := conn.Do("PING")
	require.NoError(t, err)
	proxy.Refuse(false)
	answers(t, proxy.Addr())
}

func TestProxyClosesInEveryState(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	states := map[string]func(*Proxy){
		"sound":            func(*Proxy) {},
		"delaying":         func(p *Proxy) { p.Delay(Both, time.Hour, 0) },
		"dropping":         func(p *Proxy) { p.Drop(Both, true) },
		"holding requests": func(p *Proxy) { p.Hold(Requests, true) },
		"holding replies":  func(p *Proxy) { p.Hold(Replies, true) },
		"trickling":        func(p *Proxy) { p.Trickle(time.Hour) },
		"refusing":         func(p *Proxy) { p.Refuse(true) },
	}
	for name, harm := range states {
		proxy, err := LaunchProxy(server.Addr())
		require.NoError(t, err)
		old, left := answers(t, proxy.Addr()), answers(t, proxy.Addr())
		harm(proxy)
		send(t, old, "PING")
		send(t, left, "PING")
		require.NoError(t, left.Close())
		if name != "refusing" {
			send(t, dial(t, proxy.Addr(), replyTimeout), "PING")
			soon(t, func() bool { return proxy.Connections() == 2 }, name)
		}
		proxy.Close() // hangs unless every goroutine ends
		assert.Empty(t, proxy.links, name)
		require.ErrorIs(t, proxy.listener.Close(), net.ErrClosed, name)
	}
}

// refused fails the test unless a new connection is reset.
func refused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err == nil { // the kernel accepts, but the reset may be as fast as the dial
		defer closeQuietly(conn)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(replyTimeout)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// rawDial connects without a Redis client. The connection is closed with the test, and fails after
// replyTimeout.
func rawDial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { closeQuietly(conn) })
	require.NoError(t, conn.SetDeadline(time.Now().Add(replyTimeout)))
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	return tcp
}
