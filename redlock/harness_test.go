package redlock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// cluster is a set of fake masters in virtual time.
type cluster struct {
	t       *testing.T
	clock   *clocktest.Clock
	servers fake.Cluster
}

// inBubble runs a test in virtual time, on masters that vote (see [fake.InBubble]).
func inBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	inYoungBubble(t, nodes, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.admit(i, time.Minute)
		}
		test(t, c)
	})
}

// transit is how long a message takes where a test does not say otherwise. If it took no time, one
// that answers another could overtake those that were sent together with that, because goroutines
// run in any order. It is short enough that few tests need to know of it.
func transit() time.Duration { return 10 * time.Nanosecond }

// instantly makes messages take no time, for tests that measure time exactly.
func (c *cluster) instantly() {
	for _, server := range c.servers {
		server.Delay(nil, nil)
	}
}

// inYoungBubble is inBubble with masters that no client has seen yet.
func inYoungBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	fake.InBubble(t, nodes, func(t *testing.T, clk *clocktest.Clock, servers fake.Cluster) {
		for _, server := range servers {
			server.Delay(transit, transit)
		}
		test(t, &cluster{t: t, clock: clk, servers: servers})
	})
}

// admit gives a server a vote, as "redlock init" does.
func (c *cluster) admit(i int, maxTTL time.Duration) {
	c.t.Helper()
	info, _ := c.do(i, "INFO", "replication").([]byte)
	_, after, _ := strings.Cut(string(info), "master_replid:")
	replID, _, _ := strings.Cut(after, "\r")
	marker := fmt.Sprintf("active %s %s 0 %d %s",
		rand.Text(), c.servers[i].RunID(), maxTTL.Milliseconds(), replID)
	require.Equal(c.t, "OK", c.do(i, "SET", pipeline.MemoryKey, marker))
}

// locker returns a Locker that does not renew its locks. It has connected to every node that it can
// reach.
func (c *cluster) locker(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	return c.renewing(append([]redlock.Option{redlock.WithoutRenewal()}, opts...)...)
}

// renewing is like locker, with renewal.
func (c *cluster) renewing(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	l := c.connecting(opts...)
	settle()
	return l
}

// connecting returns a Locker that has not connected yet.
func (c *cluster) connecting(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	dialer := pool.WithDialer(c.dialer())
	opts = append([]redlock.Option{redlock.WithClock(c.clock), redlock.WithPool(dialer)}, opts...)
	l, err := redlock.New(c.servers.Endpoints(), opts...)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // nodes may be away
			assert.NoError(c.t, err)
		}
	})
	return l
}

// dialer connects to the servers that the cluster has at the time of the dial.
func (c *cluster) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.servers.Dial(ctx, network, address)
	}
}

// do sends a command to a server on a separate connection.
func (c *cluster) do(i int, name string, args ...any) any {
	c.t.Helper()
	return c.servers[i].Do(c.t, name, args...)
}

// holders returns the value of a key on each node, "" if there is none.
func (c *cluster) holders(key string) (values []string) {
	for _, server := range c.servers {
		value, _, _ := server.Get(key)
		values = append(values, value)
	}
	return values
}

// keys counts the keys on all nodes, except for the memory markers.
func (c *cluster) keys() (n int) {
	for _, server := range c.servers {
		for _, key := range server.Keys() {
			if key != pipeline.MemoryKey {
				n++
			}
		}
	}
	return n
}

// isMarker reports whether a command concerns a memory marker.
func isMarker(command fake.Command) bool {
	return slices.Contains(command.Args, pipeline.MemoryKey)
}

var settle = fake.Settle

var ctx = context.Background()

// ofHandshake reports whether a command belongs to a connection's handshake or concerns the memory
// marker. Unlike all others, scripts of the handshake have no keys.
func ofHandshake(args []string) bool {
	if slices.Contains(args, pipeline.MemoryKey) {
		return true
	}
	switch args[0] {
	case "CLIENT", "INFO", "PING", "SCRIPT", "CONFIG":
		return true
	case "EVAL", "EVALSHA":
		return args[2] == "0"
	}
	return false
}

// elapsed returns how long f takes, in virtual time.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func uniq(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// endsOnly accepts any error: the call only has to return.
func endsOnly(error) {}
