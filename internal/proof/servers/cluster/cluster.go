// Package cluster starts the masters of a test or benchmark, real ones ([Start]) and embedded ones
// ([StartEmbedded]), and the Lockers on them. Each ends with its test.
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
	"github.com/redquorum/redquorum/redlock"
)

// Master is one Redis master of a test.
type Master interface {
	Addr() string
	URL() string
	Do(cmd string, args ...any) (any, error) // past all proxies
	Keys() ([]string, error)                 // without the memory marker
	Stop() error                             // out of reach; keys stay
	Continue() error
	Kill() error
	Restart() error // empty
}

// Cluster is the masters of a test.
type Cluster struct {
	Masters []Master
	Real    bool // server processes, not embedded ones
}

// Start starts servers that vote. Servers with options are not made to vote: their options may bar
// them.
func Start(tb testing.TB, n int, opts ...redistest.Option) *Cluster {
	tb.Helper()
	c := StartYoung(tb, n, opts...)
	if len(opts) == 0 {
		c.Meet(tb)
	}
	return c
}

// StartYoung starts servers that no client has met yet.
func StartYoung(tb testing.TB, n int, opts ...redistest.Option) *Cluster {
	tb.Helper()
	c := &Cluster{Real: true}
	for _, server := range redistest.Start(tb, n, opts...) {
		c.Masters = append(c.Masters, server)
	}
	return c
}

// Meet makes new masters ready to vote, like those that were used before. They form a cluster with
// the first client, so a master that forgets is barred for as long as the test's own maximum TTL.
func (c *Cluster) Meet(tb testing.TB) {
	tb.Helper()
	l, err := redlock.New(
		c.URLs(), redlock.WithTTL(10*time.Millisecond), redlock.WithMaxTTL(10*time.Millisecond), redlock.WithCluster("none"),
	)
	require.NoError(tb, err)
	RequireUp(tb, l, func(node redlock.NodeStats) bool { return node.Memory == "active" })
	require.NoError(tb, l.Close())
}

// URLs returns the endpoints of the masters.
func (c *Cluster) URLs() (urls []string) {
	for _, m := range c.Masters {
		urls = append(urls, m.URL())
	}
	return urls
}

// BehindProxies puts a proxy in front of every master.
func (c *Cluster) BehindProxies(tb testing.TB) (proxies []*redistest.Proxy, urls []string) {
	tb.Helper()
	for _, m := range c.Masters {
		proxy := redistest.NewProxy(tb, m.Addr())
		proxies, urls = append(proxies, proxy), append(urls, proxy.URL())
	}
	return proxies, urls
}

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
		require.NoError(tb, m.Continue())
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

// Continue brings the master back with its keys. A child process that this one starts at the moment
// has its listeners, too, until it runs its program: so the port may be in use for that long.
func (e Embedded) Continue() error {
	for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := e.StartAddr(e.address); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return err
		}
	}
}

// Kill closes its port and connections.
func (e Embedded) Kill() error {
	e.Close()
	return nil
}

// Restart brings the master back empty.
func (e Embedded) Restart() error {
	e.FlushAll()
	return e.Continue()
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
	return slices.DeleteFunc(e.Miniredis.Keys(), func(key string) bool { return key == pipeline.MemoryKey || key == pipeline.RegisterKey }), nil
}
