package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// connectTimeout bounds the wait for connections to servers that have just started, which takes a
// few milliseconds.
const connectTimeout = 10 * time.Second

// cluster is the servers of one benchmark.
type cluster struct {
	backend   string // "redis" or "miniredis"
	endpoints []string
	servers   []*redistest.Server    // of backend "redis"
	inProcess []*miniredis.Miniredis // of backend "miniredis"
}

// newCluster starts n servers, which stop with the test.
func newCluster(tb testing.TB, n int) *cluster {
	tb.Helper()
	if !redistest.Available() {
		return newInProcess(tb, n)
	}
	c := &cluster{backend: "redis", servers: redistest.Start(tb, n)}
	for _, server := range c.servers {
		c.endpoints = append(c.endpoints, server.URL())
	}
	return c
}

func newInProcess(tb testing.TB, n int) *cluster {
	tb.Helper()
	c := &cluster{backend: "miniredis"}
	for range n {
		inProcess := miniredis.RunT(tb)
		c.inProcess = append(c.inProcess, inProcess)
		c.endpoints = append(c.endpoints, "redis://"+inProcess.Addr())
	}
	return c
}

// locker returns a Locker that is connected to every node, and every node votes, so no benchmark
// measures a dial. It is closed with the test.
func (c *cluster) locker(tb testing.TB, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	locker, err := redlock.New(c.endpoints, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Masters may be down.
		if err := locker.Close(); err != nil && !errors.Is(err, redlock.ErrUndelivered) {
			tb.Error(err)
		}
	})
	for deadline := time.Now().Add(connectTimeout); !connected(locker); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not connected to all nodes after %v: %+v", connectTimeout, locker.Stats().Nodes)
		}
	}
	return locker
}

func connected(locker *redlock.Locker) bool {
	for _, node := range locker.Stats().Nodes {
		if node.State != pool.Up || node.Barred != nil {
			return false
		}
	}
	return true
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
	for i := range n {
		switch err := c.inflictOne(f, i); {
		case errors.Is(err, errors.ErrUnsupported):
			tb.Skipf("%s: a server cannot be %s here", c.backend, f)
		case err != nil:
			tb.Fatal(err)
		}
	}
}

func (c *cluster) inflictOne(f fault, i int) error {
	processes := c.backend == "redis"
	switch {
	case f == healthy:
		return nil
	case f == stopped && processes:
		return c.servers[i].Stop()
	case f == killed && processes:
		return c.servers[i].Kill()
	case f == killed:
		c.inProcess[i].Close()
		return nil
	default:
		return errors.ErrUnsupported
	}
}
