package scenario_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// impostor is a way to answer that no Redis has.
type impostor struct {
	name  string
	words string // a regular expression that the error must match
	// speak answers what was read last from the connection, and reports whether it continues.
	speak func(conn net.Conn) (goOn bool)
}

func say(text string) func(net.Conn) bool {
	return func(conn net.Conn) bool {
		_, err := io.WriteString(conn, text)
		return err == nil
	}
}

var impostors = []impostor{
	{"mute", `not connected yet|not ready within|no answer in time`, func(net.Conn) bool { return true }},
	{"one byte per second", `not connected yet|not ready within|no answer in time`, func(conn net.Conn) bool {
		_, err := io.WriteString(conn, "+")
		time.Sleep(time.Second)
		return err == nil
	}},
	{"garbage", `protocol error`, say("\x00\xff\x17 what is this?\r\n")},
	{"a bulk string of 99999999999999 bytes", `protocol error.*over the limit`, say("$99999999999999\r\n")},
	{"an array of 1000000000000 entries", `protocol error.*over the limit`, say("*1000000000000\r\n")},
	{"surplus OKs", `protocol error`, say(strings.Repeat("+OK\r\n", 64))},
	{"closes", `closed by the server|connection lost|reset`, func(net.Conn) bool { return false }},
}

// atOnce is a server that is an impostor from the start.
func (i impostor) atOnce(t *testing.T) (url string) {
	t.Helper()
	return redistest.FakeServer(t, func(conn net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := conn.Read(buf); err != nil || !i.speak(conn) {
				return
			}
		}
	}).URL()
}

// afterSet is a real server that turns into the impostor when it is sent a SET, for the rest of the
// connection. It has executed the SET, and executes what follows.
func (i impostor) afterSet(t *testing.T, m cluster.Master) (url string) {
	t.Helper()
	return redistest.FakeServer(t, func(client net.Conn) {
		server, err := net.Dial("tcp", m.Addr())
		if err != nil {
			return
		}
		var turned atomic.Bool
		var replies sync.WaitGroup
		replies.Go(func() { _, _ = io.Copy(unless{client, &turned}, server) }) //nolint:errcheck // either connection ends it
		defer replies.Wait()
		defer server.Close()
		buf := make([]byte, 1<<16) // everything that comes at once: it speaks after each read
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(buf[:n], []byte("\r\nSET\r\n")) {
				turned.Store(true)
			}
			if _, err := server.Write(buf[:n]); err != nil || (turned.Load() && !i.speak(client)) {
				return
			}
		}
	}).URL()
}

// unless writes until it has turned, and then discards.
type unless struct {
	to     io.Writer
	turned *atomic.Bool
}

func (u unless) Write(p []byte) (int, error) {
	if u.turned.Load() {
		return len(p), nil
	}
	return u.to.Write(p)
}

// webServer is a real HTTP server.
func webServer(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return "redis" + strings.TrimPrefix(server.URL, "http")
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) (url string) {
	t.Helper()
	server := redistest.StartOne(t)
	must(t, server.Kill())
	return server.URL()
}
