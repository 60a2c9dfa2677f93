package redistest

import (
	"io"
	"net"
	"slices"
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
	return redis.Dial("tcp", s.Addr(), redis.DialUsername(s.config.user), redis.DialPassword(s.config.password), redis.DialConnectTimeout(timeout),
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
