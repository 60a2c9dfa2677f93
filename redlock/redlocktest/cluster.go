package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// patience bounds every wait for the connections of a Locker. They are in memory and take
// milliseconds, unless the machine is overloaded.
const patience = 10 * time.Second

// The kit's Lockers redial more often than others, so that [Node.Start] takes less time. The
// longest pause keeps minutes of virtual time with a stopped node cheap.
const (
	redialMin = time.Millisecond
	redialMax = 50 * time.Millisecond
)

// Cluster is the masters of a test. Its methods may be called from any goroutine, except for
// [Cluster.Locker], which belongs to the goroutine of its test.
type Cluster struct {
	tb    testing.TB
	clock clock.Clock // of package time, which is virtual in a bubble
	nodes []*Node

	// forming has room for who makes the masters a cluster. Others wait for it, and virtual time
	// goes on, as it would not while they wait for a mutex.
	forming chan struct{}

	mu      sync.Mutex // guards the fields below
	lockers []*redlock.Locker
	formed  bool // the masters are a cluster
}

// Start starts n embedded masters, 1 to 64. They vote at once, know no lock, and end with the test.
// In a testing/synctest bubble, call it inside the bubble with the bubble's t.
func Start(tb testing.TB, n int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, clock: clocktest.New(), forming: make(chan struct{}, 1)}
	tb.Cleanup(c.close)
	virtual := inBubble()
	for i := range n {
		node := newNode(c, i)
		c.nodes = append(c.nodes, node)
		if virtual {
			continue
		}
		if err := node.listen(); err != nil {
			tb.Fatalf("redlocktest: start node %d: %v", i, err)
		}
	}
	if err := c.vote(); err != nil {
		tb.Fatalf("redlocktest: start %d nodes: %v", n, err)
	}
	return c
}

// vote makes the new masters ready to vote: they will form a cluster with the first Locker, which
// says how long locks and a quarantine may last.
func (c *Cluster) vote() error {
	l, err := redlock.New(c.Endpoints(), c.options(redlock.WithTTL(shortest), redlock.WithMaxTTL(shortest), redlock.WithCluster("none"))...)
	if err != nil {
		return err
	}
	remembers := func(node redlock.NodeStats) bool { return node.Memory == "active" }
	for i := range c.nodes {
		if !c.await(l, i, remembers) {
			err = errors.Join(err, fmt.Errorf("node %d: %+v", i, l.Stats().Nodes[i]))
		}
	}
	return errors.Join(err, l.Close())
}

// shortest is a maximum TTL that no test's Locker goes below.
const shortest = 10 * time.Millisecond

// form makes the masters a cluster, unless a Locker has: all of them must be there for that, so it
// is called before the first fault.
func (c *Cluster) form() {
	done, formed := c.beginForming()
	defer done()
	if formed {
		return
	}
	c.mu.Lock()
	c.formed = true
	c.mu.Unlock()
	l, err := redlock.New(c.Endpoints(), c.options()...)
	if err != nil {
		c.tb.Fatalf("redlocktest: %v", err)
	}
	for i := range c.nodes {
		c.await(l, i, decided)
	}
	_ = l.Close() //nolint:errcheck // it held nothing
}

// beginForming waits until nobody makes the masters a cluster, and reports whether they are one. If
// they are not, others wait until the caller calls done.
func (c *Cluster) beginForming() (done func(), formed bool) {
	c.forming <- struct{}{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.formed {
		<-c.forming
		return func() {}, true
	}
	return func() { <-c.forming }, false
}

// Endpoints returns the masters as host:port, for [redlock.New] in the code under test, for other
// processes and for other clients. They listen on 127.0.0.1, and all faults apply there as well.
//
// In a testing/synctest bubble there are no sockets, because its time does not pass while a
// goroutine waits for one. There only [Cluster.Locker] reaches the masters, and the endpoints are
// just their names in errors and statistics.
func (c *Cluster) Endpoints() []string {
	all := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		all[i] = node.endpoint
	}
	return all
}

// Locker returns a Locker on the masters. It is closed when tb ends. Locker waits until it is
// connected to every node that can answer, so the first TryLock already has all votes.
//
// It reaches the masters in memory, at the addresses of [Cluster.Endpoints]. Its clock is package
// time, so in a testing/synctest bubble its time is virtual. Options come after those of the kit,
// and override them.
func (c *Cluster) Locker(tb testing.TB, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	done, _ := c.beginForming()
	defer done()
	l, err := redlock.New(c.Endpoints(), c.options(opts...)...)
	if err != nil {
		tb.Fatalf("redlocktest: %v", err)
	}
	c.mu.Lock()
	c.lockers = append(c.lockers, l)
	c.formed = true
	c.mu.Unlock()
	tb.Cleanup(func() {
		if tb == c.tb {
			c.heal() // so that Close need not wait for nodes that owe it an answer
		}
		c.mu.Lock()
		c.lockers = slices.DeleteFunc(c.lockers, func(other *redlock.Locker) bool { return other == l })
		c.mu.Unlock()
		// Nodes may be away.
		if err := l.Close(); err != nil && !errors.Is(err, redlock.ErrUndelivered) {
			tb.Errorf("redlocktest: close the locker: %v", err)
		}
	})
	like := decided
	if c.answering() <= len(c.nodes)/2 { // nobody tells who the members are
		like = up
	}
	for i, node := range c.nodes {
		// A fault may come while it is waited for.
		if !c.await(l, i, func(s redlock.NodeStats) bool { return !node.answers() || like(s) }) {
			tb.Fatalf("redlocktest: node %d is not ready within %v: %+v", i, patience, l.Stats().Nodes[i])
		}
	}
	return l
}

// options returns the options of a Locker on these masters.
func (c *Cluster) options(opts ...redlock.Option) []redlock.Option {
	return append([]redlock.Option{
		redlock.WithClock(c.clock),
		redlock.WithPool(pool.WithDialer(c.dial), pool.WithBackoff(redialMin, redialMax)),
	}, opts...)
}

// dial connects to a node in memory.
func (c *Cluster) dial(ctx context.Context, _, address string) (net.Conn, error) {
	i := slices.Index(c.Endpoints(), address)
	if i < 0 {
		return nil, fmt.Errorf("redlocktest: no node at %s", address)
	}
	return c.nodes[i].dial(ctx)
}

// decided reports whether a Locker is connected to a node and knows whether it votes.
func decided(node redlock.NodeStats) bool {
	return node.State == pool.Up && (node.Barred == nil || node.QuarantinedFor > 0)
}

// up reports whether a Locker is connected to a node.
func up(node redlock.NodeStats) bool { return node.State == pool.Up }

// answering counts the nodes that answer.
func (c *Cluster) answering() (n int) {
	for _, node := range c.nodes {
		if node.answers() {
			n++
		}
	}
	return n
}

// notUp reports whether a Locker has noticed that it lost a node.
func notUp(node redlock.NodeStats) bool { return node.State != pool.Up }

// await waits until a Locker sees node i like that. It reports false if that takes too long.
func (c *Cluster) await(l *redlock.Locker, i int, like func(redlock.NodeStats) bool) bool {
	until := c.clock.Now().Add(patience)
	pause := clock.Backoff{Shortest: 50 * time.Microsecond, Longest: 5 * time.Millisecond}
	for !like(l.Stats().Nodes[i]) {
		if c.clock.Now() > until {
			return false
		}
		clock.Sleep(context.Background(), c.clock, pause.Next())
	}
	return true
}

// awaitAll waits until all open Lockers see node i like that. It waits for none that was closed.
func (c *Cluster) awaitAll(i int, like func(redlock.NodeStats) bool) {
	c.mu.Lock()
	lockers := slices.Clone(c.lockers)
	c.mu.Unlock()
	for _, l := range lockers {
		c.await(l, i, func(node redlock.NodeStats) bool { return node.State == pool.Closed || like(node) })
	}
}

// Node returns master i, counted from 0, in the order of [Cluster.Endpoints]. It panics if there is
// none.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Expire makes the time of a lock end on all nodes at once, including stopped and paused ones.
// Nobody is told, as when a key expires: the holder learns of it at its next renewal (after a third
// of the TTL), by Extend or Verify, or when its validity ends; a waiter polls within a second.
//
// The name is that of the lock, with the prefix of [redlock.WithKeyPrefix] in front of it. For
// permits, and for locks of LockAny, [redlock.Lock.Name] tells it. The locks of readers end all at
// once.
func (c *Cluster) Expire(name string) {
	for _, node := range c.nodes {
		node.server.Expire(name)
		node.server.Expire("redquorum:readers:" + name)
	}
}

// Holder returns the value that a majority of the nodes has for a lock, which is the
// [redlock.Lock.Value] of its holder; "" if there is none. All readers have one value in common,
// which is none of theirs. It looks into the nodes, so stopped and paused ones count too. The name
// is as in [Cluster.Expire].
func (c *Cluster) Holder(name string) string {
	votes := make(map[string]int)
	for _, node := range c.nodes {
		value, _, _ := node.server.Get(name)
		if votes[value]++; votes[value] > len(c.nodes)/2 {
			return value
		}
	}
	return ""
}

// heal ends all faults. Nodes are started last: then Lockers ask all others about them, and what
// they ask a node that is slow stays under way for that long.
func (c *Cluster) heal() {
	for _, node := range c.nodes {
		node.Delay(0)
		node.Resume()
	}
	for _, node := range c.nodes {
		node.Start()
	}
}

// close ends the nodes and waits for their goroutines.
func (c *Cluster) close() {
	for _, node := range c.nodes {
		node.close()
	}
}
