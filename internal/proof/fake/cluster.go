package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock/clocktest"
)

// Cluster is nodes at the endpoints node0:6379, node1:6379 and so on.
type Cluster []*Node

// InBubble runs a test in virtual time, on new nodes that share a clock. The test fails if it
// leaves anything running: synctest waits for every goroutine.
func InBubble(t *testing.T, nodes int, test func(*testing.T, *clocktest.Clock, Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk, c := clocktest.New(), make(Cluster, nodes)
		for i := range c {
			c[i] = New(clk)
			t.Cleanup(c[i].Close) // runs after the cleanups that the test adds
		}
		test(t, clk, c)
	})
}

// Settle lets the background come to rest, in a moment of virtual time.
func Settle() {
	time.Sleep(time.Microsecond) //nolint:forbidigo // virtual time is package time
	synctest.Wait()
}

// Endpoints returns the endpoints of all nodes.
func (c Cluster) Endpoints() (all []string) {
	for i := range c {
		all = append(all, fmt.Sprintf("node%d:6379", i))
	}
	return all
}

// Dial connects to the node at an endpoint.
func (c Cluster) Dial(ctx context.Context, _, endpoint string) (net.Conn, error) {
	i := slices.Index(c.Endpoints(), endpoint)
	if i < 0 {
		return nil, fmt.Errorf("fake: no node at %s", endpoint)
	}
	return c[i].Dial(ctx)
}

// Do sends a command on a connection of its own. An error fails the test.
func (n *Node) Do(t testing.TB, name string, args ...any) any {
	t.Helper()
	network, err := n.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	conn := redis.NewConn(network, 0, 0)
	reply, err := conn.Do(name, args...)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	return reply
}
