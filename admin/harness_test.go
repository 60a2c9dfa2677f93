package admin_test

import (
	"context"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/virtual"
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

var ctx = context.Background()

// cluster is a [virtual.Cluster], and what the tests of this package do with one.
type cluster struct{ *virtual.Cluster }

// inBubble runs a test in virtual time, on masters that vote.
func inBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InBubble(t, nodes, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}

// runBubble is inBubble as a subtest.
func runBubble(t *testing.T, name string, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, nodes, test) })
}

// inYoungBubble is inBubble with masters that no client has seen yet.
func inYoungBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InYoungBubble(t, nodes, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}

// inCluster runs a test on the members of a cluster, and behind them spare masters that no client
// has seen.
func inCluster(t *testing.T, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InCluster(t, members, spare, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}
