package redlocktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/internal/fakeredis"
)

// Node is one master of a [Cluster]. Its methods cause faults and end them. They may be called from
// any goroutine. Faults can be combined.
type Node struct {
	cluster  *Cluster
	index    int
	server   *fakeredis.Node
	endpoint string
	port     *port // nil in a bubble

	mu      sync.Mutex // guards the fields below; held to connect in memory, which does not wait
	stopped bool
	paused  bool
	delay   time.Duration
}

func newNode(c *Cluster, i int) *Node {
	return &Node{
		cluster: c, index: i,
		server:   fakeredis.New(c.clock, fakeredis.WithoutCommandLog()),
		endpoint: fmt.Sprintf("node%d.redlocktest.invalid:6379", i), // no resolver knows .invalid
	}
}

// Stop puts the node out of reach, as a broken network does: its connections are reset, and new
// ones fail. Commands that were not executed yet are lost. Its keys stay, and expire when their
// time ends. Stop returns when the Lockers of [Cluster.Locker] have noticed.
func (n *Node) Stop() {
	n.cluster.form()
	n.mu.Lock()
	n.stopped = true
	n.server.Disconnect() // under mu: no connection is made between the two
	n.mu.Unlock()
	n.cluster.awaitAll(n.index, notUp)
}

// Start ends [Node.Stop]. It returns when the Lockers of [Cluster.Locker] are connected again,
// unless the node is paused or slow.
func (n *Node) Start() {
	n.mu.Lock()
	n.stopped = false
	n.mu.Unlock()
	if n.answers() {
		n.cluster.awaitAll(n.index, decided)
	}
}

// Restart kills the process of the node and starts a new one, which is empty. It also ends
// [Node.Stop] and [Node.Pause].
//
// As in production, a master that may have forgotten locks does not vote until they have expired:
// for the time of [redlock.WithMaxTTL] (1 min) after a client noticed: that of the first Locker,
// which makes the masters a cluster. Wait for that in virtual time, or give that Locker a short
// maximum.
func (n *Node) Restart() {
	n.Stop()
	n.mu.Lock()
	n.paused = false
	n.server.Restart(false)
	n.mu.Unlock()
	n.Start()
}

// Pause halts the node as SIGSTOP halts a process: connections stay and new ones are accepted, but
// nothing is answered until [Node.Resume]. Keys expire meanwhile.
func (n *Node) Pause() { n.pause(true) }

// Resume ends [Node.Pause]. Commands that have arrived meanwhile are executed now, unless their
// client has closed the connection.
func (n *Node) Resume() { n.pause(false) }

func (n *Node) pause(on bool) {
	n.cluster.form()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = on
	if on {
		n.server.Stop()
	} else {
		n.server.Continue()
	}
}

// Delay makes the round trip to the node take d longer, half of it each way; 0 ends it. What is on
// its way keeps its delay. A node that takes longer than the node timeout
// ([redlock.WithNodeTimeout]) counts as one that does not answer.
func (n *Node) Delay(d time.Duration) {
	n.cluster.form()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = max(d, 0)
	if n.delay == 0 {
		n.server.Delay(nil, nil)
		return
	}
	there := n.delay / 2
	back := n.delay - there
	n.server.Delay(func() time.Duration { return there }, func() time.Duration { return back })
}

// prompt is the delay up to which a node is waited for: below the node timeout of usual TTLs, and
// far below the dial timeout, so that a handshake succeeds.
const prompt = 50 * time.Millisecond

// answers reports whether a client of the node gets answers in good time.
func (n *Node) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.stopped && !n.paused && n.delay <= prompt
}

// dial returns a new connection to the node, in memory.
func (n *Node) dial(ctx context.Context) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil, fmt.Errorf("redlocktest: dial %s: %w", n.endpoint, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	return n.server.Dial(ctx)
}

// close ends the node and waits for its goroutines.
func (n *Node) close() {
	n.server.Close() // first, so that the port makes no more connections to it
	if n.port != nil {
		n.port.close()
	}
}
