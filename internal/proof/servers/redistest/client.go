package redistest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// replyTimeout bounds every connect, write and read of our own connections. No command of a test
// takes longer, unless the server is stopped.
const replyTimeout = 10 * time.Second

// Do sends one command to the server on a connection of its own, past every proxy, and returns the
// reply. It gives up after 10 s (a stopped server).
func (s *Server) Do(cmd string, args ...any) (any, error) {
	conn, err := s.dial(replyTimeout)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(conn)
	return conn.Do(cmd, args...)
}

func (s *Server) dial(timeout time.Duration) (redis.Conn, error) {
	return redis.Dial("tcp", s.Addr(), redis.DialPassword(s.config.password), redis.DialConnectTimeout(timeout),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
}

// memoryKey is the key of the memory marker, which clients never delete (pipeline.MemoryKey).
const memoryKey = "redquorum:memory"

// registerKey is beside it (pipeline.RegisterKey).
const registerKey = "redquorum:members"

// Keys returns all keys of database 0 but the memory marker, sorted.
func (s *Server) Keys() ([]string, error) {
	keys, err := redis.Strings(s.Do("KEYS", "*"))
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == memoryKey || key == registerKey })
	slices.Sort(keys)
	return keys, err
}

// Clear deletes all keys of database 0 but the memory marker: the server has forgotten nothing.
func (s *Server) Clear() error {
	keys, err := s.Keys()
	if err != nil || len(keys) == 0 {
		return err
	}
	_, err = s.Do("DEL", redis.Args{}.AddFlat(keys)...)
	return err
}

// FlushAll deletes all keys, the memory marker included: the server has forgotten what it held.
func (s *Server) FlushAll() error {
	_, err := s.Do("FLUSHALL")
	return err
}

// closeQuietly closes what is abandoned anyway.
func closeQuietly(closer io.Closer) {
	if err := closer.Close(); err != nil {
		return // it is gone either way, and we broke most of them
	}
}

// resetConn closes a TCP connection with RST and discards what is not sent yet. It closes others
// normally.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.SetLinger(0) != nil {
		return // closed already
	}
	closeQuietly(conn)
}

const (
	// monitorTimeout bounds the wait for a mark.
	monitorTimeout = time.Minute
	// syncMark begins the argument of the ECHO that tells Sync that everything has been recorded.
	syncMark = "redistest-sync-"
)

// Monitor records every command that a server executes, with MONITOR. That includes commands inside
// scripts; AUTH appears without its password or, depending on the version, not at all. It ends with
// the server's process: after a restart, make a new one.
type Monitor struct {
	tb     testing.TB
	server *Server
	ended  chan struct{} // closed by read

	mu    sync.Mutex // guards the fields below; never held over I/O
	lines []string   // written by read
	syncs int        // marks sent
	seen  int        // the latest mark received
}

// Monitor starts to record what reaches the server. It returns once the recording is on. The
// recording ends with the test.
func (s *Server) Monitor(tb testing.TB) *Monitor {
	tb.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr(), replyTimeout)
	if err != nil {
		tb.Fatalf("redistest: monitor %s: %v", s.Addr(), err)
	}
	m := &Monitor{tb: tb, server: s, ended: make(chan struct{})}
	wire := redis.NewConn(conn, 0, replyTimeout) // reads wait until the cleanup
	if err := subscribe(wire, s.config.password); err != nil {
		closeQuietly(conn)
		tb.Fatalf("redistest: monitor %s: %v", s.Addr(), err)
	}
	go m.read(wire)
	tb.Cleanup(func() {
		closeQuietly(conn) // not wire: redigo does not allow Close during Receive
		<-m.ended
	})
	return m
}

func subscribe(wire redis.Conn, password string) error {
	if password != "" {
		if _, err := redis.DoWithTimeout(wire, replyTimeout, "AUTH", password); err != nil {
			return err
		}
	}
	_, err := redis.DoWithTimeout(wire, replyTimeout, "MONITOR")
	return err
}

// Lines returns the recorded lines, oldest first, as MONITOR prints them:
//
//	1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"
func (m *Monitor) Lines() []string { return m.Matching("") }

// Matching returns the recorded lines that contain the text. MONITOR quotes each word and keeps its
// case: `"SET" "key"`.
func (m *Monitor) Matching(text string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []string
	for _, line := range m.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// Clear discards what was recorded so far.
func (m *Monitor) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = nil
}

// Sync returns once everything that the server executed before the call is recorded. Then
// [Monitor.Lines] can prove that something did not reach the server. Sync does not wait for what is
// still on its way there. It fails the test after a minute, so call it from the test's own
// goroutine.
func (m *Monitor) Sync() {
	m.tb.Helper()
	m.mu.Lock()
	m.syncs++
	mark := m.syncs
	m.mu.Unlock()
	if _, err := m.server.Do("ECHO", fmt.Sprint(syncMark, mark)); err != nil {
		m.tb.Fatalf("redistest: monitor %s: %v", m.server.Addr(), err)
	}
	for deadline := time.Now().Add(monitorTimeout); ; time.Sleep(time.Millisecond) {
		over := isClosed(m.ended) || time.Now().After(deadline)
		m.mu.Lock()
		done := m.seen >= mark
		m.mu.Unlock()
		if done {
			return
		}
		if over {
			m.tb.Fatalf("redistest: monitor %s: its mark did not come within %v or before the server ended",
				m.server.Addr(), monitorTimeout)
		}
	}
}

// read records until the connection ends.
func (m *Monitor) read(wire redis.Conn) {
	defer close(m.ended)
	for {
		line, err := redis.String(wire.Receive())
		if err != nil {
			return
		}
		m.mu.Lock()
		if _, mark, found := strings.Cut(line, `"ECHO" "`+syncMark); found {
			var n int
			if _, err := fmt.Sscanf(mark, "%d", &n); err == nil {
				m.seen = max(m.seen, n)
			}
		} else {
			m.lines = append(m.lines, line)
		}
		m.mu.Unlock()
	}
}
