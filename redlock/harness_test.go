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
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakenode"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// cluster is a number of fake masters in virtual time.
type cluster struct {
	t       *testing.T
	clock   *clocktest.Clock
	servers []*fakenode.Node
}

// inBubble runs a test in virtual time, on masters that vote. What it leaves running fails it:
// synctest waits for every goroutine.
func inBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	inYoungBubble(t, nodes, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.admit(i, time.Minute)
		}
		test(t, c)
	})
}

// inYoungBubble is inBubble with masters that nobody has met yet.
func inYoungBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, clock: clocktest.New()}
		for range nodes {
			server := fakenode.New(c.clock)
			t.Cleanup(server.Close) // after the lockers, which are made later
			c.servers = append(c.servers, server)
		}
		test(t, c)
	})
}

// admit makes a server one that votes, as "redlock init" does.
func (c *cluster) admit(i int, maxTTL time.Duration) {
	c.t.Helper()
	info, _ := c.do(i, "INFO", "replication").([]byte)
	_, after, _ := strings.Cut(string(info), "master_replid:")
	replID, _, _ := strings.Cut(after, "\r")
	marker := fmt.Sprintf("active %s %s 0 %d %s", rand.Text(), c.servers[i].RunID(), maxTTL.Milliseconds(), replID)
	require.Equal(c.t, "OK", c.do(i, "SET", pipeline.MemoryKey, marker))
}

// locker returns a Locker over all nodes, connected as far as they are reachable. Its locks are not renewed.
func (c *cluster) locker(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	return c.renewing(append([]redlock.Option{redlock.WithoutRenewal()}, opts...)...)
}

// renewing is locker with renewal.
func (c *cluster) renewing(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	l := c.connecting(opts...)
	synctest.Wait()
	return l
}

// connecting returns a Locker that has not connected yet.
func (c *cluster) connecting(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	var endpoints []string
	for i := range c.servers {
		endpoints = append(endpoints, fmt.Sprintf("node%d:6379", i))
	}
	opts = append([]redlock.Option{redlock.WithClock(c.clock), redlock.WithPool(pool.WithDialer(c.dialer()))}, opts...)
	l, err := redlock.New(endpoints, opts...)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // nodes may be away
			assert.NoError(c.t, err)
		}
	})
	return l
}

// dialer leads node0:6379 and so on to the servers.
func (c *cluster) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		var i int
		if _, err := fmt.Sscanf(address, "node%d:6379", &i); err != nil {
			return nil, err
		}
		return c.servers[i].Dial(ctx)
	}
}

// do sends a command to a server by a connection of its own.
func (c *cluster) do(i int, name string, args ...any) any {
	c.t.Helper()
	network, err := c.servers[i].Dial(ctx)
	require.NoError(c.t, err)
	conn := redis.NewConn(network, 0, 0)
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	require.NoError(c.t, err)
	return reply
}

// holders returns what each node holds under a key, "" for nothing.
func (c *cluster) holders(key string) (values []string) {
	for _, server := range c.servers {
		value, _, _ := server.Get(key)
		values = append(values, value)
	}
	return values
}

// keys returns how many keys there are on all nodes, but for their memory markers.
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

// isMarker reports whether a command is about a memory marker.
func isMarker(command fakenode.Command) bool {
	return slices.Contains(command.Args, pipeline.MemoryKey)
}

// settle lets the background come to rest, in a moment of virtual time.
func settle() {
	time.Sleep(time.Microsecond)
	synctest.Wait()
}

var ctx = context.Background()

// ofHandshake reports whether a command is one that a new connection begins with, or is
// about the memory marker. Scripts of the handshake have no keys, unlike all others.
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
