package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
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

// change makes a change that must be done within two minutes.
func (c *cluster) change(l *redlock.Locker, by operation) {
	c.T.Helper()
	require.NoError(c.T, by(admin.Of(l).Cluster(), c.Within(2*time.Minute)))
}

// operation is a change of the members.
type operation = func(*admin.Cluster, context.Context) error

// add is the addition of a master.
func add(i int) operation {
	return func(cluster *admin.Cluster, ctx context.Context) error { return cluster.Add(ctx, virtual.Endpoint(i)) }
}

// remove is the removal of one.
func remove(i int) operation {
	return func(cluster *admin.Cluster, ctx context.Context) error {
		m, err := cluster.Members(ctx)
		if err != nil {
			return err
		}
		for _, member := range m.Members {
			if member.Endpoint == virtual.Endpoint(i) {
				return cluster.Remove(ctx, member.ID)
			}
		}
		return redlock.ErrNotMember
	}
}

// inspect tells what the masters know of a lock.
func (c *cluster) inspect(l *redlock.Locker, name string) admin.Status {
	c.T.Helper()
	status, err := admin.Of(l).Inspect(ctx, name)
	require.NoError(c.T, err)
	return status
}
