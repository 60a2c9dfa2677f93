package cluster

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Embedded is a miniredis. Its keys expire by FastForward only. It goes out of reach by closing its
// port and connections.
type Embedded struct {
	*miniredis.Miniredis
	address string // also while it is closed
}

// StartEmbedded starts embedded masters that vote.
func StartEmbedded(tb testing.TB, n int) *Cluster {
	tb.Helper()
	c := &Cluster{}
	for range n {
		m := Embedded{miniredis.NewMiniRedis(), redistest.FreeAddr(tb)}
		require.NoError(tb, m.listen())
		tb.Cleanup(m.Close)
		c.Masters = append(c.Masters, m)
	}
	c.Meet(tb)
	return c
}

// Addr is host:port.
func (e Embedded) Addr() string { return e.address }

// URL is the endpoint.
func (e Embedded) URL() string { return "redis://" + e.address }

// Stop is Kill: a goroutine cannot be stopped.
func (e Embedded) Stop() error { return e.Kill() }

// Continue brings the master back with its keys.
func (e Embedded) Continue() error { return e.listen() }

// Kill closes its port and connections.
func (e Embedded) Kill() error {
	e.Close()
	return nil
}

// Restart brings the master back empty.
func (e Embedded) Restart() error {
	e.FlushAll()
	return e.listen()
}

// listen opens the port. Another connection of this machine may have it for a moment.
func (e Embedded) listen() error {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err := e.StartAddr(e.address); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return err
		}
	}
}

// Do runs a command on a connection of its own.
func (e Embedded) Do(cmd string, args ...any) (any, error) {
	conn, err := redis.Dial("tcp", e.address, redis.DialReadTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the reply is there
	return conn.Do(cmd, args...)
}

// Keys returns its keys, without the memory marker.
func (e Embedded) Keys() ([]string, error) {
	return slices.DeleteFunc(e.Miniredis.Keys(), func(key string) bool { return key == pipeline.MemoryKey }), nil
}
