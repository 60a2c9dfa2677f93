package virtual

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// MaxTTL is that of the Lockers of [Cluster.Among].
const MaxTTL = 10 * time.Second

// InCluster runs a test on the members of a cluster, and behind them spare masters that no client
// has seen.
func InCluster(t *testing.T, members, spare int, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	InYoungBubble(t, members+spare, func(t *testing.T, c *Cluster) {
		c.Founded(0, members)
		test(t, c)
	})
}

// Founded makes a cluster of the masters from first to before.
func (c *Cluster) Founded(first, before int) {
	c.T.Helper()
	all := c.Servers
	for i := first; i < before; i++ {
		c.Servers = all[:before]
		c.Admit(i, MaxTTL)
		c.Servers = all
		for _, key := range []string{pipeline.MemoryKey, pipeline.RegisterKey} { // of those before first, none is a member
			text, _, _ := c.Servers[i].Get(key)
			for other := range first {
				text = strings.Replace(text, fmt.Sprintf(" redis://node%d:6379=redis://node%[1]d:6379", other), "", 1)
			}
			if first > 0 {
				text = strings.NewReplacer("cluster=C", "cluster=D", "1.first - C", "1.first - D").Replace(text)
			}
			c.Do(i, "SET", key, text)
		}
	}
}

// Among returns a Locker of some of the masters. It does not renew its locks.
func (c *Cluster) Among(list []int, opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	opts = append([]redlock.Option{redlock.WithoutRenewal(), redlock.WithMaxTTL(MaxTTL), redlock.WithTTL(MaxTTL)}, opts...)
	return c.Listing(list, opts...)
}

// Endpoint returns that of a master.
func Endpoint(i int) string { return fmt.Sprintf("redis://node%d:6379", i) }

// Grown lets all servers become older than any lock.
func (c *Cluster) Grown() { time.Sleep(time.Hour) }

// Durable makes all servers durable, and their markers say so.
func (c *Cluster) Durable() {
	for i, server := range c.Servers {
		SetDurable(server)
		marker, _, _ := server.Get(pipeline.MemoryKey)
		c.Do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, " 0 ", " 1 ", 1))
	}
}

// SetDurable makes a master one that loses nothing.
func SetDurable(server *fakeredis.Node) {
	server.SetConfig("appendonly", "yes")
	server.SetConfig("appendfsync", "always")
	server.SetConfig("aof-load-truncated", "no")
}

// Aliased connects to a master by any name that is none of a master. What is sent there is late.
func (c *Cluster) Aliased(at int, late time.Duration) redlock.Option {
	return redlock.WithPool(pipeline.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "alias") {
			return c.Servers.Dial(ctx, network, address)
		}
		conn, err := c.Servers.Dial(ctx, network, c.Servers.Endpoints()[at])
		return lateConn{conn, late}, err
	}))
}

type lateConn struct {
	net.Conn
	late time.Duration
}

func (l lateConn) Write(p []byte) (int, error) {
	if l.late == 0 {
		return l.Conn.Write(p)
	}
	sent := slices.Clone(p)
	time.AfterFunc(l.late, func() { _, _ = l.Conn.Write(sent) }) //nolint:errcheck // the connection may have ended
	return len(p), nil
}

// mortal is a connection of an operator of whom nothing arrives any more.
type mortal struct {
	net.Conn
	dead *atomic.Bool
}

func (m mortal) Write(b []byte) (int, error) {
	if m.dead.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// Sparing makes connections of which nothing arrives at the masters that are dead to the client.
func (c *Cluster) Sparing(dead []atomic.Bool) redlock.Option {
	return redlock.WithPool(pipeline.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.Servers.Dial(ctx, network, address)
		for i, e := range c.Servers.Endpoints() {
			if e == address && err == nil {
				return mortal{conn, &dead[i]}, nil
			}
		}
		return conn, err
	}))
}

// SetAll makes all masters dead to the client of [Cluster.Sparing], or none.
func SetAll(dead []atomic.Bool, to bool) {
	for i := range dead {
		dead[i].Store(to)
	}
}

// Read acquires a shared lock.
func (c *Cluster) Read(l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	lock, err := l.TryRLock(ctx, "a", opts...)
	require.NoError(c.T, err)
	synctest.Wait() // all nodes have it: who comes next meets it at the coordinator
	return lock
}

// Permits returns a semaphore of a Locker that does not renew its locks.
func (c *Cluster) Permits(name string, n int, opts ...redlock.Option) *redlock.Semaphore {
	c.T.Helper()
	s, err := c.Locker(opts...).Semaphore(name, n)
	require.NoError(c.T, err)
	return s
}

// Permit acquires a permit that must be free.
func (c *Cluster) Permit(s *redlock.Semaphore, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	lock, err := s.TryAcquire(ctx, opts...)
	require.NoError(c.T, err)
	return lock
}
