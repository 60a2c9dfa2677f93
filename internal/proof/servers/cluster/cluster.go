// Package cluster starts the masters of a test or benchmark, and the Lockers on them. Each ends
// with its test.
package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// Master is one Redis master of a test.
type Master = *redistest.Server

// Cluster is the masters of a test.
type Cluster struct {
	Masters []Master
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
	return &Cluster{Masters: redistest.Start(tb, n, opts...)}
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
