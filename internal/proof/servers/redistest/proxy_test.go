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

// ends fails the test unless the connection ends, with RST or in an orderly way.
func (w *wire) ends(want error) {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(w.t, err, want)
}

func (w *wire) ask(line, reply string) {
	w.t.Helper()
	w.tell(line)
	w.hears(reply + "\r\n")
}

// isSilentAfter fails the test unless this comes next, and nothing behind it within a moment.
func (w *wire) isSilentAfter(text string) {
	w.t.Helper()
	w.hears(text)
	w.isSilent()
}

// isSilent fails the test if the connection delivers anything or ends within a moment.
func (w *wire) isSilent() {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(moment)))
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
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
	listener, err := Listen()
	require.NoError(t, err)
	defer closeQuietly(listener)
	go func() {
		for {
			server, err := listener.Accept()
			if err != nil {
				return
			}
			_, err = io.Copy(server, server) // until the client closes its side
			ended <- err
			closeQuietly(server)
		}
	}()
	proxy := NewProxy(t, listener.Addr().String())
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

// damage is a fault of a proxy, and what becomes of a command that is sent meanwhile.
type damage struct {
	name       string
	begin, end func(p *Proxy)
	executed   bool   // by the server, while the fault lasts
	heard      string // of the reply ":1", while the fault lasts
	ends       error  // how the connection ends; nil: the rest of the reply comes when the fault ends
	once       bool   // it is over with one connection
	newcomers  string // what becomes of new connections meanwhile: served, mute, held
}

func dropping(d Direction) (begin, end func(p *Proxy)) {
	return func(p *Proxy) { p.Drop(d, true) }, func(p *Proxy) { p.Drop(d, false) }
}

func holding(d Direction) (begin, end func(p *Proxy)) {
	return func(p *Proxy) { p.Hold(d, true) }, func(p *Proxy) { p.Hold(d, false) }
}

func delaying(d Direction) (begin, end func(p *Proxy)) {
	return func(p *Proxy) { p.Delay(d, time.Hour, time.Minute) }, func(p *Proxy) { p.Delay(d, 0, 0) }
}

func damages() (all []damage) {
	for d, name := range []string{"requests", "replies", "both"} {
		for _, kind := range []struct {
			does      string
			of        func(Direction) (begin, end func(p *Proxy))
			ends      error
			newcomers string
		}{
			{"dropped", dropping, syscall.ECONNRESET, "mute"},
			{"held", holding, nil, "held"},
			{"late", delaying, nil, "served"},
		} {
			begin, end := kind.of(Direction(d))
			all = append(all, damage{
				name: name + " " + kind.does, begin: begin, end: end, executed: Direction(d) == Replies,
				ends: kind.ends, newcomers: kind.newcomers,
			})
		}
	}
	for n := range 4 {
		all = append(all, damage{
			name: fmt.Sprintf("reply cut after %d bytes", n), begin: func(p *Proxy) { p.CutReplies(n) },
			executed: true, heard: ":1\r\n"[:n], ends: io.EOF, once: true,
		})
	}
	return append(
		all,
		damage{name: "cut after a request", begin: (*Proxy).CutAfterRequest, executed: true, ends: syscall.ECONNRESET, once: true},
		damage{
			name: "trickle", begin: func(p *Proxy) { p.Trickle(time.Hour) }, end: func(p *Proxy) { p.Trickle(0) },
			executed: true, heard: ":", newcomers: "served",
		},
	)
}

func TestEachFaultOfAProxyDoesWhatItSays(t *testing.T) {
	t.Parallel()
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			server, proxy := proxied(t)
			conn, sound := answers(t, proxy.Addr()), answers(t, proxy.Addr())
			d.begin(proxy)
			conn.tell("INCR counter")
			if d.once {
				conn.hears(d.heard)
				conn.ends(d.ends)
				assert.Equal(t, 1, counter(t, server))
				answers(t, proxy.Addr())
				return
			}
			conn.isSilentAfter(d.heard)
			if d.executed {
				soon(t, func() bool { return counter(t, server) == 1 }, "executed")
			} else {
				assert.Zero(t, counter(t, server))
			}
			newcomer := dial(t, proxy.Addr())
			newcomer.tell("INCR newcomers")
			newcomer.isSilentAfter(d.heard)
			if d.newcomers != "served" {
				soon(t, func() bool { return clients(t, server) == 2 }, "the server knows nothing of a third")
			}
			d.end(proxy)
			if d.ends == nil {
				conn.hears(":1\r\n"[len(d.heard):])
			} else {
				conn.ends(d.ends)
			}
			if d.newcomers == "mute" {
				newcomer.ends(syscall.ECONNRESET)
			} else {
				newcomer.hears(":1\r\n"[len(d.heard):])
			}
			sound.ask("PING", "+PONG") // what lost nothing goes on
			answers(t, proxy.Addr())
		})
	}
}

func TestHealEndsAllFaults(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	for _, d := range damages() {
		d.begin(proxy)
	}
	proxy.Refuse(true)
	proxy.Heal()
	answers(t, proxy.Addr()).ask("INCR counter", ":1")
	assert.Equal(t, 1, counter(t, server))
}

func TestResetAndRefuseTellPresentFromNewConnections(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Reset()
	conn.ends(syscall.ECONNRESET)
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
