package bench

import (
	"testing"

	masters "github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// cluster is the servers of one benchmark.
type cluster struct {
	*masters.Cluster
	backend string // "redis" or "miniredis"
}

// newCluster starts n servers, which stop with the test.
func newCluster(tb testing.TB, n int) *cluster {
	tb.Helper()
	if !redistest.Available() {
		return newInProcess(tb, n)
	}
	return &cluster{masters.Start(tb, n), "redis"}
}

func newInProcess(tb testing.TB, n int) *cluster {
	tb.Helper()
	return &cluster{masters.StartEmbedded(tb, n), "miniredis"}
}

// locker returns a Locker that is connected to every node, and every node votes, so no benchmark
// measures a dial. It is closed with the test.
func (c *cluster) locker(tb testing.TB, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	locker := masters.NewLocker(tb, c.URLs(), opts...)
	masters.RequireUp(tb, locker, func(node redlock.NodeStats) bool { return node.Barred == nil })
	return locker
}

// fault is what is wrong with a server.
type fault string

const (
	healthy fault = ""
	stopped fault = "stopped" // it takes bytes and never answers
	killed  fault = "killed"  // its connections end, and new ones are refused
)

// inflict applies the fault to the first n servers. It skips the test where that is impossible.
func (c *cluster) inflict(tb testing.TB, f fault, n int) {
	tb.Helper()
	if f == stopped && !c.Real {
		tb.Skipf("%s: a server cannot be %s here", c.backend, f)
	}
	for _, m := range c.Masters[:n] {
		var err error
		switch f {
		case stopped:
			err = m.Stop()
		case killed:
			err = m.Kill()
		case healthy:
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}
