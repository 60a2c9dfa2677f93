package fakeredis

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

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
)

// Command is a command that reached a node.
type Command struct {
	At   clock.Instant // on the clock that New was given
	Conn int64         // the client id
	Args []string      // the name, as it was sent, and its arguments
}

// NoExpiry is the time to live of a key that never expires, see [Node.Get].
const NoExpiry time.Duration = -1

// Commands returns the commands that the node has executed or refused, oldest first, unless it was
// made [WithoutCommandLog]. It does not include commands inside scripts or those lost in transit.
func (n *Node) Commands() []Command {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.log)
}

// OnCommand calls f after each command is executed and before its reply leaves, in the goroutine of
// its connection, which waits for f. f may call any method of the node except Close. Nil ends it.
func (n *Node) OnCommand(f func(Command)) { n.change(func() { n.hook = f }) }

// Change is what a command did to a live string of database 0: replaced its value or deleted it.
type Change struct{ Key, Old, New string }

// OnChange calls f for each change that a command makes, before the callback of [Node.OnCommand]
// and in the same way. Keys that expire, are flushed or are forgotten in another way do not count.
// Nil ends it.
func (n *Node) OnChange(f func(Change)) { n.change(func() { n.onChange = f }) }

// noteChange notes that a key is about to get another value, or "" if it is deleted.
func (n *Node) noteChange(db int, key, value string) {
	if n.onChange == nil || db != 0 {
		return
	}
	if e := n.lookup(db, key); e != nil && e.kind() == aString && e.text != value {
		n.changes = append(n.changes, Change{key, e.text, value})
	}
}

// Get returns the value of a live key of database 0 ("" for a sorted set) and its time to live, or
// [NoExpiry].
func (n *Node) Get(key string) (value string, pttl time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.wall.micros()
	e := n.lookup(0, key)
	if e == nil {
		return "", 0, false
	}
	if e.expires == 0 {
		return e.text, NoExpiry, true
	}
	return e.text, time.Duration(e.expires-n.nowMillis()) * time.Millisecond, true
}

// Keys returns the live keys of database 0, sorted.
func (n *Node) Keys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.wall.micros()
	return n.liveKeys(0)
}

// Connections returns how many connections are open, with neither end closed.
func (n *Node) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, s := range n.sessions {
		if !s.dead && !s.conn.in.isEnded() && !s.conn.out.isAbandoned() {
			count++
		}
	}
	return count
}

// RunID returns the run_id of the current process.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process.runID
}

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
