package redlock_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
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

func uniq(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// endsOfAll release all locks of a Locker.
func endsOfAll() map[string]func(*redlock.Locker) error {
	return map[string]func(*redlock.Locker) error{
		"UnlockAll": func(l *redlock.Locker) error { return l.UnlockAll(ctx) },
		"Close":     (*redlock.Locker).Close,
	}
}

// inCluster runs a test on the members of a cluster, and behind them spare masters that no client
// has seen.
func inCluster(t *testing.T, members, spare int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual.InCluster(t, members, spare, func(t *testing.T, c *virtual.Cluster) { test(t, &cluster{c}) })
}
