package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// replyTimeout bounds every connect, write and read of our own connections. No command of a test
// takes longer, unless the server is stopped.
const replyTimeout = 10 * time.Second

// client is a connection for one command at a time. It is dialed when needed.
type client struct {
	dial func() (redis.Conn, error)

	mu   sync.Mutex // guards conn; held over its I/O, which replyTimeout bounds
	conn redis.Conn // nil before the first dial and after the last one broke
}

// Do sends one command to the server on a connection of our own, past every proxy, and returns the
// reply. It gives up after 2 s (a stopped server). If the connection turns out to be closed, it
// sends the command once more on a new one.
func (s *Server) Do(cmd string, args ...any) (any, error) { return s.client.do(cmd, args...) }

// MemoryKey is the key of the memory marker, which clients never delete (pipeline.MemoryKey).
const MemoryKey = "redquorum:memory"

// Keys returns all keys of database 0 but [MemoryKey], sorted.
func (s *Server) Keys() ([]string, error) {
	keys, err := redis.Strings(s.Do("KEYS", "*"))
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == MemoryKey })
	slices.Sort(keys)
	return keys, err
}

// Clear deletes all keys of database 0 but [MemoryKey]: the server has not forgotten anything.
func (s *Server) Clear() error {
	keys, err := s.Keys()
	if err != nil || len(keys) == 0 {
		return err
	}
	_, err = s.Do("DEL", redis.Args{}.AddFlat(keys)...)
	return err
}

// FlushAll deletes all keys, [MemoryKey] included: the server has forgotten what it held.
func (s *Server) FlushAll() error {
	_, err := s.Do("FLUSHALL")
	return err
}

func (s *Server) dial() (redis.Conn, error) {
	return redis.Dial("tcp", s.Addr(), redis.DialPassword(s.config.password), redis.DialConnectTimeout(replyTimeout),
		redis.DialReadTimeout(replyTimeout), redis.DialWriteTimeout(replyTimeout))
}

func (c *client) do(cmd string, args ...any) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.conn != nil
	reply, err := c.onceLocked(cmd, args...)
	// It broke without a timeout: the server had closed it before, by CLIENT KILL or a restart.
	if old && c.conn == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return c.onceLocked(cmd, args...)
	}
	return reply, err
}

func (c *client) onceLocked(cmd string, args ...any) (any, error) {
	if c.conn == nil {
		conn, err := c.dial()
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	reply, err := c.conn.Do(cmd, args...)
	if c.conn.Err() != nil {
		closeQuietly(c.conn)
		c.conn = nil
	}
	return reply, err
}

func (c *client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		closeQuietly(c.conn)
		c.conn = nil
	}
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
