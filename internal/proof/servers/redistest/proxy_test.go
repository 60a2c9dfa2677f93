package redistest

import (
	"fmt"
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

// wire is a connection without a Redis client, which would close it at the first timeout.
type wire struct {
	*net.TCPConn
	t *testing.T
}

// dial connects. The connection is closed with the test.
func dial(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { closeQuietly(conn) })
	return &wire{conn.(*net.TCPConn), t}
}

// answers returns a connection that has got an answer.
func answers(t *testing.T, addr string) *wire {
	t.Helper()
	w := dial(t, addr)
	w.ask("PING", "+PONG")
	return w
}

func (w *wire) tell(line string) {
	w.t.Helper()
	_, err := io.WriteString(w, line+"\r\n")
	require.NoError(w.t, err)
}

// hears fails the test unless exactly this comes next.
func (w *wire) hears(text string) {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(w, got)
	require.NoError(w.t, err)
	require.Equal(w.t, text, string(got))
}

func (w *wire) ask(line, reply string) {
	w.t.Helper()
	w.tell(line)
	w.hears(reply + "\r\n")
}

// isSilent fails the test if the connection delivers anything or ends within a moment.
func (w *wire) isSilent() {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(moment)))
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

// isReset fails the test unless the connection ends with RST.
func (w *wire) isReset() {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(w.t, err, syscall.ECONNRESET)
}

func counter(t *testing.T, server *Server) int {
	t.Helper()
	count, err := redis.Int(server.Do("GET", "counter"))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return count
}

// clients returns how many connections the server has, beside ours.
func clients(t *testing.T, server *Server) int {
	t.Helper()
	list, err := redis.String(server.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	return strings.Count(list, "\n") - 1
}

func TestProxyPassesTheEndOfAClientOn(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	fake := FakeServer(t, func(conn net.Conn) {
		_, err := io.Copy(conn, conn) // until the client closes its side
		ended <- err
	})
	proxy := NewProxy(t, fake.Addr())
	conn := dial(t, proxy.Addr())
	conn.tell("hello")
	require.NoError(t, conn.CloseWrite())
	echo, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "hello\r\n", string(echo))
	require.NoError(t, <-ended)

	conn = dial(t, proxy.Addr())
	conn.ask("hello", "hello")
	assert.Equal(t, 1, proxy.Connections())
	resetConn(conn.TCPConn)
	require.ErrorIs(t, <-ended, syscall.ECONNRESET)
	soon(t, func() bool { return proxy.Connections() == 0 }, "gone")
}

func TestResetAndRefuseTellPresentFromNewConnections(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Reset()
	conn.isReset()
	soon(t, func() bool { return proxy.Connections() == 0 && clients(t, server) == 0 }, "both sides are closed")
	present := answers(t, proxy.Addr())
	proxy.Refuse(true)
	late, err := net.Dial("tcp", proxy.Addr())
	if err == nil { // the kernel accepts, but the reset may be as fast as the dial
		defer closeQuietly(late)
		_, err = late.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	present.ask("PING", "+PONG")
	proxy.Refuse(false)
	answers(t, proxy.Addr())
}

func TestDelayIsLatencyAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies} {
		conn := answers(t, proxy.Addr())
		const commands, base = 10, 500 * time.Millisecond
		proxy.Delay(direction, base, 10*time.Millisecond)
		start := time.Now()
		for i := range commands {
			conn.tell(fmt.Sprint("ECHO ", i))
			time.Sleep(time.Millisecond) // a chunk of its own
		}
		for i := range commands {
			conn.hears(fmt.Sprintf("$1\r\n%d\r\n", i))
		}
		passed := time.Since(start)
		assert.GreaterOrEqual(t, passed, base-10*time.Millisecond)
		assert.Less(t, passed, commands*base, "they travelled at the same time")

		proxy.Delay(direction, time.Hour, time.Minute)
		conn.tell("PING")
		time.Sleep(5 * time.Millisecond) // so that it is in transit
		proxy.Delay(direction, 0, 0)
		conn.hears("+PONG\r\n") // at once
	}
}

func TestCutRepliesEndsAReplyInTheMiddleOnce(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, after := range []int{0, 1, 3, 11} {
		proxy.CutReplies(after)
		conn := dial(t, proxy.Addr())
		conn.tell("ECHO hello")
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
	conn.tell("INCR counter")
	conn.isReset()
	assert.Equal(t, 1, counter(t, server))
	answers(t, proxy.Addr())
}

func TestTrickleGivesOneByteAtATime(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	const every = 4 * time.Millisecond
	proxy.Trickle(every)
	start := time.Now()
	conn.ask("PING", "+PONG")
	assert.GreaterOrEqual(t, time.Since(start), 6*every)
	proxy.Trickle(time.Hour)
	conn.tell("PING")
	conn.hears("+")
	conn.isSilent()
	proxy.Trickle(0)
	conn.hears("PONG\r\n")
}

func TestDropOfRequestsHidesThemAndResetsWhenItEnds(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	torn, sound := answers(t, proxy.Addr()), answers(t, proxy.Addr())
	monitor := server.Monitor(t)
	proxy.Drop(Requests, true)
	torn.tell("INCR counter")
	torn.isSilent()
	monitor.Sync()
	assert.Empty(t, monitor.Matching("INCR"))
	proxy.Drop(Requests, false)
	torn.isReset()
	sound.ask("INCR counter", ":1") // what lost nothing goes on
}

func TestDropOfRepliesHidesWhatWasExecuted(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Drop(Replies, true)
	conn.tell("INCR counter")
	soon(t, func() bool { return counter(t, server) == 1 }, "executed")
	proxy.Delay(Requests, time.Millisecond, 0) // another change does not end it
	conn.isSilent()
	proxy.Heal()
	conn.isReset()
}

func TestDropMakesNewConnectionsMuteInBothDirections(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies, Both} {
		proxy.Drop(direction, true)
		conn := dial(t, proxy.Addr())
		conn.tell("INCR counter")
		conn.isSilent()
		assert.Equal(t, 1, proxy.Connections())
		assert.Zero(t, clients(t, server), "the server knows nothing of it")
		proxy.Drop(direction, false)
		conn.isReset()
		soon(t, func() bool { return proxy.Connections() == 0 }, "reset")
	}
	assert.Zero(t, counter(t, server))
}

func TestDropTakesWhatIsUnderWayAndTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	writer, closer, later := answers(t, proxy.Addr()), answers(t, proxy.Addr()), answers(t, proxy.Addr())
	proxy.Delay(Requests, time.Hour, 0)
	writer.tell("INCR counter")
	require.NoError(t, closer.Close())
	soon(t, func() bool { return proxy.Connections() == 2 }, "the FIN is under way")
	proxy.Drop(Requests, true)
	require.NoError(t, later.Close())
	proxy.Delay(Requests, 0, 0) // all of it arrives now, or never
	writer.isSilent()
	assert.Zero(t, counter(t, server))
	assert.Equal(t, 3, clients(t, server), "the server still waits for all of them")
	proxy.Heal()
	writer.isReset()
	soon(t, func() bool { return clients(t, server) == 0 }, "all are reset")
}

func TestHoldDeliversInOrderWhenItEnds(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies, Both} {
		require.NoError(t, server.FlushAll())
		conn := answers(t, proxy.Addr())
		proxy.Hold(direction, true)
		for range 3 {
			conn.tell("INCR counter")
		}
		conn.isSilent()
		if direction == Replies {
			soon(t, func() bool { return counter(t, server) == 3 }, "executed")
		} else {
			assert.Zero(t, counter(t, server))
		}
		proxy.Hold(direction, false)
		conn.hears(":1\r\n:2\r\n:3\r\n")
	}
}

func TestHeldRequestArrivesAfterItsClientHasLeft(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Hold(Requests, true)
	conn.tell("INCR counter")
	conn.isSilent()
	require.NoError(t, conn.Close())
	soon(t, func() bool { return proxy.Connections() == 0 }, "the client has left")
	proxy.Hold(Requests, false)
	soon(t, func() bool { return counter(t, server) == 1 }, "executed for nobody")
	soon(t, func() bool { return clients(t, server) == 0 }, "and closed")
}

func TestHoldKeepsNewConnectionsFromTheServer(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	proxy.Hold(Replies, true)
	patient, hasty := dial(t, proxy.Addr()), dial(t, proxy.Addr())
	patient.tell("INCR counter")
	hasty.tell("INCR counter")
	hasty.isSilent()
	assert.Zero(t, clients(t, server))
	require.NoError(t, hasty.Close())
	soon(t, func() bool { return proxy.Connections() == 1 }, "one has left")
	proxy.Heal()
	patient.hears(":1\r\n")
	patient.isSilent()
	assert.Equal(t, 1, counter(t, server), "what was written before the handshake was never sent")
}
