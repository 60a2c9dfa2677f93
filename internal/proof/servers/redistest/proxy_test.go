package redistest

import (
	"io"
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

// moment is how long a test waits for something that must not come.
const moment = 40 * time.Millisecond

// proxied returns a server and a proxy in front of it.
func proxied(t *testing.T) (*Server, *Proxy) {
	t.Helper()
	server := StartOne(t)
	return server, NewProxy(t, server.Addr())
}

// answers returns a connection to the address that has answered a PING.
func answers(t *testing.T, addr string) redis.Conn {
	t.Helper()
	conn := dial(t, addr, replyTimeout)
	_, err := conn.Do("PING")
	require.NoError(t, err)
	return conn
}

// rawDial connects without a Redis client. The connection is closed with the test, and fails after
// replyTimeout.
func rawDial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { closeQuietly(conn) })
	require.NoError(t, conn.SetDeadline(time.Now().Add(replyTimeout)))
	return conn.(*net.TCPConn)
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

// write sends text on a connection without a Redis client.
func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// silent fails the test if the connection delivers anything or ends within a moment.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(moment)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(replyTimeout)))
}

// isReset fails the test unless the connection ends with RST.
func isReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
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

func counter(t *testing.T, server *Server) int {
	t.Helper()
	count, err := redis.Int(server.Do("GET", "counter"))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return count
}

// clients returns how many connections the server has, including ours.
func clients(t *testing.T, server *Server) int {
	t.Helper()
	list, err := redis.String(server.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	return strings.Count(list, "\n")
}

func TestProxyPassesTheEndOfAClientOn(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	fake := FakeServer(t, func(conn net.Conn) {
		_, err := io.Copy(conn, conn) // until the client closes its side
		ended <- err
	})
	proxy := NewProxy(t, fake.Addr())
	conn := rawDial(t, proxy.Addr())
	write(t, conn, "hello")
	require.NoError(t, conn.CloseWrite())
	echo, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(echo))
	require.NoError(t, <-ended)

	conn = rawDial(t, proxy.Addr())
	write(t, conn, "x")
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	assert.Equal(t, 1, proxy.Connections())
	resetConn(conn)
	require.ErrorIs(t, <-ended, syscall.ECONNRESET)
	soon(t, func() bool { return proxy.Connections() == 0 }, "gone")
}

func TestResetAndRefuseTellPresentFromNewConnections(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := rawAnswers(t, proxy.Addr())
	proxy.Reset()
	isReset(t, conn)
	soon(t, func() bool { return proxy.Connections() == 0 && clients(t, server) == 1 }, "both sides are closed")
	present := answers(t, proxy.Addr())
	proxy.Refuse(true)
	refused(t, proxy.Addr())
	_, err := present.Do("PING")
	require.NoError(t, err)
	proxy.Refuse(false)
	answers(t, proxy.Addr())
}

func TestDelayIsLatencyAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies} {
		conn := answers(t, proxy.Addr())
		const commands, base = 20, 500 * time.Millisecond
		proxy.Delay(direction, base, 10*time.Millisecond)
		start := time.Now()
		for i := range commands {
			send(t, conn, "ECHO", i)
			time.Sleep(time.Millisecond) // a chunk of its own
		}
		for i := range commands {
			echo, err := redis.Int(conn.Receive())
			require.NoError(t, err)
			assert.Equal(t, i, echo)
		}
		passed := time.Since(start)
		assert.GreaterOrEqual(t, passed, base-10*time.Millisecond)
		assert.Less(t, passed, commands*base/2, "they travelled at the same time")

		proxy.Delay(direction, time.Hour, time.Minute)
		send(t, conn, "PING")
		time.Sleep(5 * time.Millisecond) // so that it is in transit
		proxy.Delay(direction, 0, 0)
		_, err := conn.Receive()
		require.NoError(t, err, "the end of the delay delivers at once")
	}
}

func TestCutRepliesEndsAReplyInTheMiddleOnce(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, after := range []int{0, 1, 3, 11} {
		proxy.CutReplies(after)
		conn := rawDial(t, proxy.Addr())
		write(t, conn, "ECHO hello\r\n")
		got, err := io.ReadAll(conn)
		require.NoError(t, err, "closed, not reset")
		assert.Equal(t, "$5\r\nhello\r\n"[:after], string(got))
		answers(t, proxy.Addr())
	}
	proxy.CutReplies(3)
	proxy.Heal()
	answers(t, proxy.Addr())
}

func TestCutAfterRequestHidesWhatWasExecutedOnce(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.CutAfterRequest()
	send(t, conn, "INCR", "counter")
	_, err := conn.Receive()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, 1, counter(t, server))
	answers(t, proxy.Addr())
}

func TestTrickleGivesOneByteAtATime(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	conn := rawAnswers(t, proxy.Addr())
	const every = 4 * time.Millisecond
	proxy.Trickle(every)
	start := time.Now()
	write(t, conn, "PING\r\n")
	buffer := make([]byte, len("+PONG\r\n"))
	_, err := io.ReadFull(conn, buffer)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(start), 6*every)

	proxy.Trickle(time.Hour)
	write(t, conn, "PING\r\n")
	_, err = io.ReadFull(conn, buffer[:1])
	require.NoError(t, err)
	silent(t, conn)
	proxy.Trickle(0)
	_, err = io.ReadFull(conn, buffer[1:])
	require.NoError(t, err)
	assert.Equal(t, "+PONG\r\n", string(buffer))
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
		assert.Equal(t, 1, clients(t, server), "the server knows nothing of it")
		proxy.Drop(direction, false)
		isReset(t, conn)
		soon(t, func() bool { return proxy.Connections() == 0 }, "reset")
	}
	assert.Zero(t, counter(t, server))
}

func TestDropTakesWhatIsUnderWayAndTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	writer, closer, later := rawAnswers(t, proxy.Addr()), rawAnswers(t, proxy.Addr()), rawAnswers(t, proxy.Addr())
	const travel = time.Second // long, for a busy machine
	proxy.Delay(Requests, travel, 0)
	write(t, writer, "INCR counter\r\n")
	require.NoError(t, closer.Close())
	soon(t, func() bool { return proxy.Connections() == 2 }, "the FIN is under way")
	proxy.Drop(Requests, true)
	silent(t, writer)
	require.NoError(t, later.Close())
	time.Sleep(travel)
	assert.Zero(t, counter(t, server))
	assert.Equal(t, 4, clients(t, server), "the server still waits for all of them")
	proxy.Heal()
	isReset(t, writer)
	soon(t, func() bool { return clients(t, server) == 1 }, "all are reset")
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
