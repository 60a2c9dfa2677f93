package redlock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TestMain gives the tests one processor. In virtual time, hardly two goroutines run at once, and
// to hand over to one on another processor costs half as much again. With the race detector, they
// have all.
func TestMain(m *testing.M) {
	if !raced {
		runtime.GOMAXPROCS(1)
	}
	m.Run()
}

// cluster is a set of fake masters in virtual time.
type cluster struct {
	t       *testing.T
	clock   *clocktest.Clock
	servers fakeredis.Cluster
	calls   sync.WaitGroup // in the background
}

// inBubble runs a test in virtual time, on masters that vote (see [fakeredis.InBubble]).
func inBubble(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	inYoungBubble(t, nodes, func(t *testing.T, c *cluster) {
		for i := range c.servers {
			c.admit(i, time.Minute)
		}
		test(t, c)
	})
}

// runBubble is inBubble as a subtest.
func runBubble(t *testing.T, name string, nodes int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, nodes, test) })
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
	fakeredis.InBubble(t, nodes, func(t *testing.T, clk *clocktest.Clock, servers fakeredis.Cluster) {
		for _, server := range servers {
			server.Delay(transit, transit)
		}
		c := &cluster{t: t, clock: clk, servers: servers}
		t.Cleanup(c.calls.Wait) // the last: contexts have ended and Lockers are closed by then
		test(t, c)
	})
}

// admit gives a server a vote, as "redlock init" does: as a member of the cluster of all.
func (c *cluster) admit(i int, maxTTL time.Duration) {
	c.t.Helper()
	info, _ := c.do(i, "INFO", "replication").([]byte)
	_, after, _ := strings.Cut(string(info), "master_replid:")
	replID, _, _ := strings.Cut(after, "\r")
	marker := fmt.Sprintf("active %s %s 0 %d %s cluster=C member=%s version=1.first",
		rand.Text(), c.servers[i].RunID(), maxTTL.Milliseconds(), replID, memberID(c.servers.Endpoints()[i]))
	require.Equal(c.t, "OK", c.do(i, "SET", pipeline.MemoryKey, marker))
	var members []string
	for _, endpoint := range c.servers.Endpoints() {
		members = append(members, memberID(endpoint)+"=redis://"+endpoint)
	}
	register := fmt.Sprintf("%d\n1.first - C %d %d %s\n- 0\n-\nlearned",
		c.clock.Wall().UnixMilli(), maxTTL.Milliseconds(), maxTTL.Milliseconds(), strings.Join(members, " "))
	require.Equal(c.t, "OK", c.do(i, "SET", membersKey, register))
}

// limit makes all servers members of a cluster with another MaxTTL.
func (c *cluster) limit(maxTTL time.Duration) {
	for i := range c.servers {
		c.admit(i, maxTTL)
	}
}

// memberID returns the ID of the member at an endpoint.
func memberID(endpoint string) string { return "redis://" + endpoint }

const membersKey = pipeline.RegisterKey

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
	return c.made(c.servers.Endpoints(), opts...)
}

// listing is like renewing, for a list of some of the masters.
func (c *cluster) listing(list []int, opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	var endpoints []string
	for _, i := range list {
		endpoints = append(endpoints, c.servers.Endpoints()[i])
	}
	l := c.made(endpoints, opts...)
	settle()
	return l
}

func (c *cluster) made(endpoints []string, opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	dialer := pool.WithDialer(c.dialer())
	opts = append([]redlock.Option{redlock.WithClock(c.clock), redlock.WithPool(dialer)}, opts...)
	l, err := redlock.New(endpoints, opts...)
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

// each does something to some nodes, to all where none are named.
func (c *cluster) each(act func(*fakeredis.Node), which ...int) {
	for i, server := range c.servers {
		if len(which) == 0 || slices.Contains(which, i) {
			act(server)
		}
	}
}

// What each does to a node.
var (
	kill    = (*fakeredis.Node).Kill
	stop    = (*fakeredis.Node).Stop
	resume  = (*fakeredis.Node).Continue
	restart = func(n *fakeredis.Node) { n.Restart(true) } // with its keys
	mute    = func(n *fakeredis.Node) { n.Mute(true) }
	unmute  = func(n *fakeredis.Node) { n.Mute(false) }
	deafen  = func(n *fakeredis.Node) { n.MuteReplies(true) } // it runs what it is sent, and nobody hears of it
	undeaf  = func(n *fakeredis.Node) { n.MuteReplies(false) }
)

// delaying lets requests and replies of a node take that long.
func delaying(request, reply time.Duration) func(*fakeredis.Node) {
	return func(n *fakeredis.Node) {
		n.Delay(func() time.Duration { return request }, func() time.Duration { return reply })
	}
}

// slow makes every command and every reply of all nodes take half a round trip.
func (c *cluster) slow(roundTrip time.Duration) { c.each(delaying(roundTrip/2, roundTrip/2)) }

// set writes a key on some nodes, on all where none are named.
func (c *cluster) set(key, value string, life time.Duration, which ...int) {
	c.t.Helper()
	c.each(func(n *fakeredis.Node) { n.Do(c.t, "SET", key, value, "PX", life.Milliseconds()) }, which...)
}

// del deletes a key on some nodes, on all where none are named.
func (c *cluster) del(key string, which ...int) {
	c.t.Helper()
	c.each(func(n *fakeredis.Node) { n.Do(c.t, "DEL", key) }, which...)
}

// lock acquires a lock that must be free.
func (c *cluster) lock(l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	c.t.Helper()
	lock, err := l.TryLock(ctx, name, opts...)
	require.NoError(c.t, err)
	return lock
}

// taken requires that a lock is refused because somebody has it.
func (c *cluster) taken(l *redlock.Locker, name string) {
	c.t.Helper()
	_, err := l.TryLock(ctx, name)
	require.ErrorIs(c.t, err, redlock.ErrTaken)
}

// noQuorum requires that a lock cannot be had, also for these reasons.
func (c *cluster) noQuorum(l *redlock.Locker, reasons ...error) {
	c.t.Helper()
	_, err := l.TryLock(ctx, "a")
	require.ErrorIs(c.t, err, redlock.ErrNoQuorum)
	for _, reason := range reasons {
		require.ErrorIs(c.t, err, reason)
	}
}

// unlock releases locks that are held.
func (c *cluster) unlock(locks ...*redlock.Lock) {
	c.t.Helper()
	for _, lock := range locks {
		require.NotNil(c.t, lock)
		require.NoError(c.t, lock.Unlock(ctx))
	}
}

// within returns a context that ends after d, or with the test.
func (c *cluster) within(d time.Duration) context.Context {
	limited, cancel := context.WithTimeout(ctx, d)
	c.t.Cleanup(cancel)
	return limited
}

// background makes a call that waits, and sends the lock on the channel, nil after an error.
func (c *cluster) background(acquire func() (*redlock.Lock, error)) <-chan *redlock.Lock {
	got := make(chan *redlock.Lock, 1)
	c.calls.Go(func() {
		lock, err := acquire()
		assert.NoError(c.t, err)
		got <- lock
	})
	return got
}

// patience bounds waits in the background: longer than any that a test sees.
const patience = 10 * time.Minute

// waiting is like background for a lock that somebody has. The call is queued when it returns.
func (c *cluster) waiting(l *redlock.Locker, name string, opts ...redlock.LockOption) <-chan *redlock.Lock {
	c.t.Helper()
	return c.queued(func() (*redlock.Lock, error) { return l.Lock(c.within(patience), name, opts...) })
}

// queued is like waiting, for a call of any kind.
func (c *cluster) queued(acquire func() (*redlock.Lock, error)) <-chan *redlock.Lock {
	c.t.Helper()
	got := c.background(acquire)
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
	require.Empty(c.t, got, "it waits")
	return got
}

// ending makes a call in the background, and sends how it ends on the channel.
func (c *cluster) ending(call func() error) <-chan error {
	done := make(chan error, 1)
	c.calls.Go(func() { done <- call() })
	return done
}

// leavesNothing requires that no node has a key after d, except for its memory marker, its log and
// the number of a semaphore's permits, which stays for a while.
func (c *cluster) leavesNothing(d time.Duration) {
	c.t.Helper()
	time.Sleep(d)
	settle()
	for i, server := range c.servers {
		for _, key := range server.Keys() {
			if key != pipeline.MemoryKey && key != membersKey && key != wire.LogKey && !strings.HasPrefix(key, "redquorum:permits:") {
				assert.Fail(c.t, "a key is left", "%q on node %d", key, i)
			}
		}
	}
}

// keys counts the keys on all nodes, except for the memory markers.
func (c *cluster) keys() (n int) {
	for _, server := range c.servers {
		for _, key := range server.Keys() {
			if key != pipeline.MemoryKey && key != membersKey {
				n++
			}
		}
	}
	return n
}

// count counts some of the commands that all nodes have executed so far.
func (c *cluster) count(counts func(args []string) bool) (n int) {
	for _, server := range c.servers {
		for _, command := range server.Commands() {
			if counts(command.Args) {
				n++
			}
		}
	}
	return n
}

// commands is count without SUBSCRIBE, PING and those of a new connection's handshake.
func (c *cluster) commands() int {
	return c.count(func(args []string) bool { return !ofHandshake(args) && args[0] != "SUBSCRIBE" })
}

// proofs is count of the commands about memory markers.
func (c *cluster) proofs() int {
	return c.count(func(args []string) bool { return slices.Contains(args, pipeline.MemoryKey) })
}

var settle = fakeredis.Settle

var ctx = context.Background()

// ofHandshake reports whether a command belongs to a connection's handshake or concerns the memory
// marker. Unlike all others, scripts of the handshake have no keys.
func ofHandshake(args []string) bool {
	if slices.Contains(args, pipeline.MemoryKey) || slices.Contains(args, membersKey) {
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

// thorough reports whether to try all, where an ordinary run tries some: `make prove` does.
func thorough() bool {
	return os.Getenv("REDQUORUM_PROVE") == "1" || os.Getenv("REDQUORUM_SOAK") == "1"
}

// endsOnly accepts any error: the call only has to return.
func endsOnly(error) {}

// endsOfAll release all locks of a Locker.
func endsOfAll() map[string]func(*redlock.Locker) error {
	return map[string]func(*redlock.Locker) error{
		"UnlockAll": func(l *redlock.Locker) error { return l.UnlockAll(ctx) },
		"Close":     (*redlock.Locker).Close,
	}
}
