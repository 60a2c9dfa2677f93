// Package virtual has fake masters in virtual time, with Lockers on them, for the tests of package
// redlock and of what stands on it.
package virtual

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock"
)

// OneProcessor runs the tests of a package on one processor. In virtual time, hardly two goroutines
// run at once, and to hand over to one on another processor costs half as much again. With the race
// detector, they have all. What a test leaves is little and soon garbage: to collect it four times
// less often saves a tenth of the CPU.
func OneProcessor(m *testing.M) {
	debug.SetGCPercent(400)
	if !Raced {
		runtime.GOMAXPROCS(1)
	}
	m.Run()
}

// Cluster is a set of fake masters.
type Cluster struct {
	T       *testing.T
	Clock   *clocktest.Clock
	Servers fakeredis.Cluster
	Calls   sync.WaitGroup // in the background
}

// InBubble runs a test in virtual time, on masters that vote (see [fakeredis.InBubble]).
func InBubble(t *testing.T, nodes int, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	InYoungBubble(t, nodes, func(t *testing.T, c *Cluster) {
		c.Limit(time.Minute)
		test(t, c)
	})
}

// InYoungBubble is [InBubble] with masters that no client has seen yet.
func InYoungBubble(t *testing.T, nodes int, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	fakeredis.InBubble(t, nodes, func(t *testing.T, clk *clocktest.Clock, servers fakeredis.Cluster) {
		for _, server := range servers {
			server.Delay(Transit, Transit)
		}
		c := &Cluster{T: t, Clock: clk, Servers: servers}
		t.Cleanup(c.Calls.Wait) // the last: contexts have ended and Lockers are closed by then
		test(t, c)
	})
}

// Transit is how long a message takes where a test does not say otherwise. If it took no time, one
// that answers another could overtake those that were sent together with that, because goroutines
// run in any order. It is short enough that few tests need to know of it.
func Transit() time.Duration { return 10 * time.Nanosecond }

// Instantly makes messages take no time, for tests that measure time exactly.
func (c *Cluster) Instantly() {
	for _, server := range c.Servers {
		server.Delay(nil, nil)
	}
}

// Admit gives a server a vote, as "redlock init" does: as a member of the cluster of all.
func (c *Cluster) Admit(i int, maxTTL time.Duration) {
	c.T.Helper()
	info, _ := c.Do(i, "INFO", "replication").([]byte)
	_, after, _ := strings.Cut(string(info), "master_replid:")
	replID, _, _ := strings.Cut(after, "\r")
	marker := fmt.Sprintf("active %s %s 0 %d %s cluster=C member=%s version=1.first",
		rand.Text(), c.Servers[i].RunID(), maxTTL.Milliseconds(), replID, MemberID(c.Servers.Endpoints()[i]))
	require.Equal(c.T, "OK", c.Do(i, "SET", pipeline.MemoryKey, marker))
	var members []string
	for _, endpoint := range c.Servers.Endpoints() {
		members = append(members, MemberID(endpoint)+"=redis://"+endpoint)
	}
	register := fmt.Sprintf("%d\n1.first - C %d %d %s\n- 0\n-\nlearned",
		c.Clock.Wall().UnixMilli(), maxTTL.Milliseconds(), maxTTL.Milliseconds(), strings.Join(members, " "))
	require.Equal(c.T, "OK", c.Do(i, "SET", pipeline.RegisterKey, register))
}

// Limit makes all servers members of a cluster with another MaxTTL.
func (c *Cluster) Limit(maxTTL time.Duration) {
	for i := range c.Servers {
		c.Admit(i, maxTTL)
	}
}

// MemberID returns the ID of the member at an endpoint.
func MemberID(endpoint string) string { return "redis://" + endpoint }

// Locker returns a Locker that does not renew its locks. It has connected to every node that it can
// reach.
func (c *Cluster) Locker(opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	return c.Renewing(append([]redlock.Option{redlock.WithoutRenewal()}, opts...)...)
}

// Renewing is like locker, with renewal.
func (c *Cluster) Renewing(opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	l := c.Connecting(opts...)
	Settle()
	return l
}

// Connecting returns a Locker that has not connected yet.
func (c *Cluster) Connecting(opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	return c.LockerOf(c.Servers.Endpoints(), opts...)
}

// Listing is like renewing, for a list of some of the masters.
func (c *Cluster) Listing(list []int, opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	var endpoints []string
	for _, i := range list {
		endpoints = append(endpoints, c.Servers.Endpoints()[i])
	}
	l := c.LockerOf(endpoints, opts...)
	Settle()
	return l
}

// LockerOf returns a Locker of the endpoints, which is closed with the test.
func (c *Cluster) LockerOf(endpoints []string, opts ...redlock.Option) *redlock.Locker {
	c.T.Helper()
	dialer := pipeline.WithDialer(c.Dialer())
	opts = append([]redlock.Option{redlock.WithClock(c.Clock), redlock.WithPool(dialer)}, opts...)
	l, err := redlock.New(endpoints, opts...)
	require.NoError(c.T, err)
	c.T.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // nodes may be away
			assert.NoError(c.T, err)
		}
	})
	return l
}

// Dialer connects to the servers that the cluster has at the time of the dial.
func (c *Cluster) Dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.Servers.Dial(ctx, network, address)
	}
}

// Do sends a command to a server on a separate connection.
func (c *Cluster) Do(i int, name string, args ...any) any {
	c.T.Helper()
	return c.Servers[i].Do(c.T, name, args...)
}

// Monitor subscribes to all channels of a server until the test ends.
func (c *Cluster) Monitor(i int) {
	network, err := c.Servers[i].Dial(ctx)
	require.NoError(c.T, err)
	conn := redis.NewConn(network, 0, 0)
	_, err = conn.Do("PSUBSCRIBE", "*")
	require.NoError(c.T, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err == nil {
			_, err = conn.Receive()
		}
	}()
	c.T.Cleanup(func() {
		_ = conn.Close() //nolint:errcheck // the test is over
		<-done
	})
}

// Holders returns the value of a key on each node, "" if there is none.
func (c *Cluster) Holders(key string) (values []string) {
	for _, server := range c.Servers {
		value, _, _ := server.Get(key)
		values = append(values, value)
	}
	return values
}

// Free requires that no node has the key.
func (c *Cluster) Free(key string) {
	c.T.Helper()
	Settle()
	for i, value := range c.Holders(key) {
		require.Empty(c.T, value, "on node %d", i)
	}
}

// Each does something to some nodes, to all where none are named.
func (c *Cluster) Each(act func(*fakeredis.Node), which ...int) {
	for i, server := range c.Servers {
		if len(which) == 0 || slices.Contains(which, i) {
			act(server)
		}
	}
}

// What each does to a node.
var (
	Kill    = (*fakeredis.Node).Kill
	Stop    = (*fakeredis.Node).Stop
	Resume  = (*fakeredis.Node).Continue
	Restart = func(n *fakeredis.Node) { n.Restart(true) }  // with its keys
	Empty   = func(n *fakeredis.Node) { n.Restart(false) } // without them
	Mute    = func(n *fakeredis.Node) { n.Mute(true) }
	Unmute  = func(n *fakeredis.Node) { n.Mute(false) }
	Deafen  = func(n *fakeredis.Node) { n.MuteReplies(true) } // it runs what it is sent, and nobody hears of it
	Undeaf  = func(n *fakeredis.Node) { n.MuteReplies(false) }
)

// Deny denies the user commands on a node.
func (c *Cluster) Deny(i int, commands ...string) {
	c.Servers[i].RefuseWith("NOPERM this user has no permissions to run the command", commands...)
}

// Delaying lets requests and replies of a node take that long.
func Delaying(request, reply time.Duration) func(*fakeredis.Node) {
	return func(n *fakeredis.Node) {
		n.Delay(func() time.Duration { return request }, func() time.Duration { return reply })
	}
}

// Slow makes every command and every reply of all nodes take half a round trip.
func (c *Cluster) Slow(roundTrip time.Duration) { c.Each(Delaying(roundTrip/2, roundTrip/2)) }

// Set writes a key on some nodes, on all where none are named.
func (c *Cluster) Set(key, value string, life time.Duration, which ...int) {
	c.T.Helper()
	c.Each(func(n *fakeredis.Node) { n.Do(c.T, "SET", key, value, "PX", life.Milliseconds()) }, which...)
}

// Del deletes a key on some nodes, on all where none are named.
func (c *Cluster) Del(key string, which ...int) {
	c.T.Helper()
	c.Each(func(n *fakeredis.Node) { n.Do(c.T, "DEL", key) }, which...)
}

// Lock acquires a Lock that must be free.
func (c *Cluster) Lock(l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	c.T.Helper()
	lock, err := l.TryLock(ctx, name, opts...)
	require.NoError(c.T, err)
	return lock
}

// Taken requires that a lock is refused because somebody has it.
func (c *Cluster) Taken(l *redlock.Locker, name string) {
	c.T.Helper()
	_, err := l.TryLock(ctx, name)
	require.ErrorIs(c.T, err, redlock.ErrTaken)
}

// NoQuorum requires that a lock cannot be had, also for these reasons.
func (c *Cluster) NoQuorum(l *redlock.Locker, reasons ...error) {
	c.T.Helper()
	_, err := l.TryLock(ctx, "a")
	require.ErrorIs(c.T, err, redlock.ErrNoQuorum)
	for _, reason := range reasons {
		require.ErrorIs(c.T, err, reason)
	}
}

// Unlock releases locks that are held.
func (c *Cluster) Unlock(locks ...*redlock.Lock) {
	c.T.Helper()
	for _, lock := range locks {
		require.NotNil(c.T, lock)
		require.NoError(c.T, lock.Unlock(ctx))
	}
}

// Within returns a context that ends after d, or with the test.
func (c *Cluster) Within(d time.Duration) context.Context {
	limited, cancel := context.WithTimeout(ctx, d)
	c.T.Cleanup(cancel)
	return limited
}

// Background makes a call that waits, and sends the lock on the channel, nil after an error.
func (c *Cluster) Background(acquire func() (*redlock.Lock, error)) <-chan *redlock.Lock {
	got := make(chan *redlock.Lock, 1)
	c.Calls.Go(func() {
		lock, err := acquire()
		assert.NoError(c.T, err)
		got <- lock
	})
	return got
}

// LogKey is where masters keep the log, and the beginning of where they keep histories.
const LogKey = "redquorum:log"

// Patience bounds waits in the background: longer than any that a test sees.
const Patience = 10 * time.Minute

// Waiting is like background for a lock that somebody has. The call is queued when it returns.
func (c *Cluster) Waiting(l *redlock.Locker, name string, opts ...redlock.LockOption) <-chan *redlock.Lock {
	c.T.Helper()
	return c.Queued(func() (*redlock.Lock, error) { return l.Lock(c.Within(Patience), name, opts...) })
}

// Queued is like waiting, for a call of any kind.
func (c *Cluster) Queued(acquire func() (*redlock.Lock, error)) <-chan *redlock.Lock {
	c.T.Helper()
	got := c.Background(acquire)
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
	require.Empty(c.T, got, "it waits")
	return got
}

// Ending makes a call in the background, and sends how it ends on the channel.
func (c *Cluster) Ending(call func() error) <-chan error {
	done := make(chan error, 1)
	c.Calls.Go(func() { done <- call() })
	return done
}

// LeavesNothing requires that no node has a key after d, except for its memory marker, its log and
// the number of a semaphore's permits, which stays for a while.
func (c *Cluster) LeavesNothing(d time.Duration) {
	c.T.Helper()
	time.Sleep(d)
	Settle()
	for i, server := range c.Servers {
		for _, key := range server.Keys() {
			if key != pipeline.MemoryKey && key != pipeline.RegisterKey && !strings.HasPrefix(key, LogKey) && !strings.HasPrefix(key, "redquorum:permits:") {
				assert.Fail(c.T, "a key is left", "%q on node %d", key, i)
			}
		}
	}
}

// Keys counts the Keys on all nodes, except for the memory markers.
func (c *Cluster) Keys() (n int) {
	for _, server := range c.Servers {
		for _, key := range server.Keys() {
			if key != pipeline.MemoryKey && key != pipeline.RegisterKey {
				n++
			}
		}
	}
	return n
}

// Count counts some of the commands that all nodes have executed so far.
func (c *Cluster) Count(counts func(args []string) bool) (n int) {
	for _, server := range c.Servers {
		for _, command := range server.Commands() {
			if counts(command.Args) {
				n++
			}
		}
	}
	return n
}

// Commands is count without SUBSCRIBE, PING and those of a new connection's handshake.
func (c *Cluster) Commands() int {
	return c.Count(func(args []string) bool { return !OfHandshake(args) && args[0] != "SUBSCRIBE" })
}

// Proofs is count of the commands about memory markers.
func (c *Cluster) Proofs() int {
	return c.Count(func(args []string) bool { return slices.Contains(args, pipeline.MemoryKey) })
}

// Settle lets the background come to rest, in a moment of virtual time.
var Settle = fakeredis.Settle

var ctx = context.Background()

// OfHandshake reports whether a command belongs to a connection's handshake or concerns the memory
// marker. Unlike all others, scripts of the handshake have no keys.
func OfHandshake(args []string) bool {
	if slices.Contains(args, pipeline.MemoryKey) || slices.Contains(args, pipeline.RegisterKey) {
		return true
	}
	switch args[0] {
	case "ACL", "CLIENT", "INFO", "PING", "SCRIPT", "CONFIG":
		return true
	case "EVAL", "EVALSHA":
		return args[2] == "0"
	}
	return false
}

// Skewed is a clock with a wrong wall time.
type Skewed struct {
	clock.Clock
	By time.Duration
}

// Wall returns the wrong time.
func (s *Skewed) Wall() time.Time { return s.Clock.Wall().Add(s.By) }

// Elapsed returns how long f takes, in virtual time.
func Elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// EndsOnly accepts any error: the call only has to return.
func EndsOnly(error) {}
