package redistest

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// silent fails the test if the connection delivers anything or ends within a moment.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(moment)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(replyTimeout)))
}

// rawAnswers is answers without a Redis client, because that would close the connection at the
// first timeout.
func rawAnswers(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn := rawDial(t, addr)
	write(t, conn, "PING\r\n")
	_, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n")))
	require.NoError(t, err)
	return conn
}

// isReset fails the test unless the connection ends with RST.
func isReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestDropOfRequestsHidesThemAndResetsWhenItEnds(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	torn, sound := rawAnswers(t, proxy.Addr()), answers(t, proxy.Addr())
	monitor := server.Monitor(t)
	proxy.Drop(Requests, true)
	write(t, torn, "INCR counter\r\n")
	silent(t, torn)
	monitor.Sync()
	assert.Empty(t, monitor.Matching("INCR"))

	proxy.Drop(Requests, false)
	isReset(t, torn)
	_, err := sound.Do("INCR", "counter")
	require.NoError(t, err, "a connection that lost nothing goes on")
	assert.Equal(t, 1, counter(t, server))
}

func TestDropOfRepliesHidesWhatWasExecuted(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := rawAnswers(t, proxy.Addr())
	proxy.Drop(Replies, true)
	write(t, conn, "INCR counter\r\n")
	soon(t, func() bool { return counter(t, server) == 1 }, "executed")
	proxy.Delay(Requests, time.Millisecond, 0) // another change does not end it
	silent(t, conn)
	proxy.Heal()
	isReset(t, conn)
}

func TestDropMakesNewConnectionsMuteInBothDirections(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies, Both} {
		proxy.Drop(direction, true)
		conn := rawDial(t, proxy.Addr())
		write(t, conn, "INCR counter\r\n")
		silent(t, conn)
		assert.Equal(t, 1, proxy.Connections())
		kept := proxy.matching(func(l *link) bool { return len(l.lanes[Requests]) > 0 })
		assert.Empty(t, kept, "what it sends is thrown away")
		assert.Equal(t, 1, clients(t, server), "the server knows nothing of it")
		proxy.Drop(direction, false)
		isReset(t, conn)
		soon(t, func() bool { return proxy.Connections() == 0 }, "reset")
	}
	assert.Zero(t, counter(t, server))
}

func TestDropLosesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Drop(Requests, true)
	require.NoError(t, conn.Close())
	soon(t, func() bool { return proxy.Connections() == 0 }, "the client has left")
	time.Sleep(moment)
	assert.Equal(t, 2, clients(t, server), "the server still waits for it")
	proxy.Heal()
	soon(t, func() bool { return clients(t, server) == 1 }, "reset")
}

func TestDropTakesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	writer, closer := rawAnswers(t, proxy.Addr()), rawAnswers(t, proxy.Addr())
	const travel = time.Second // long, for a busy machine
	proxy.Delay(Requests, travel, 0)
	write(t, writer, "INCR counter\r\n")
	require.NoError(t, closer.Close())
	soon(t, func() bool { return proxy.Connections() == 1 }, "the FIN is under way")
	proxy.Drop(Requests, true)
	silent(t, writer)
	time.Sleep(travel)
	assert.Zero(t, counter(t, server))
	assert.Equal(t, 3, clients(t, server), "the server still waits for both")
	proxy.Heal()
	isReset(t, writer)
	soon(t, func() bool { return clients(t, server) == 1 }, "both are reset")
}

func TestHoldDeliversInOrderWhenItEnds(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies, Both} {
		require.NoError(t, server.FlushAll())
		conn := answers(t, proxy.Addr())
		proxy.Hold(direction, true)
		for range 3 {
			send(t, conn, "INCR", "counter")
		}
		if direction == Replies {
			soon(t, func() bool { return counter(t, server) == 3 }, "executed")
		} else {
			time.Sleep(moment)
			assert.Zero(t, counter(t, server))
		}
		proxy.Hold(direction, false)
		for want := 1; want <= 3; want++ {
			got, err := redis.Int(conn.Receive())
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
}

func TestHeldRequestArrivesAfterItsClientHasLeft(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := rawAnswers(t, proxy.Addr())
	proxy.Hold(Requests, true)
	write(t, conn, "INCR counter\r\n")
	silent(t, conn)
	require.NoError(t, conn.Close())
	soon(t, func() bool { return proxy.Connections() == 0 }, "the client has left")
	proxy.Hold(Requests, false)
	soon(t, func() bool { return counter(t, server) == 1 }, "executed for nobody")
	soon(t, func() bool { return clients(t, server) == 1 }, "and closed")
}

func TestHoldKeepsNewConnectionsFromTheServer(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	proxy.Hold(Replies, true)
	patient, hasty := rawDial(t, proxy.Addr()), rawDial(t, proxy.Addr())
	write(t, patient, "INCR counter\r\n")
	write(t, hasty, "INCR counter\r\n")
	silent(t, hasty)
	assert.Equal(t, 1, clients(t, server))
	require.NoError(t, hasty.Close())
	soon(t, func() bool { return proxy.Connections() == 1 }, "one has left")

	proxy.Heal()
	reply := make([]byte, len(":1\r\n"))
	_, err := io.ReadFull(patient, reply)
	require.NoError(t, err)
	assert.Equal(t, ":1\r\n", string(reply))
	time.Sleep(moment)
	assert.Equal(t, 1, counter(t, server), "what was written before the handshake was never sent")
}
