// Package fakeredis is an in-process Redis server for tests and simulations in virtual time.
//
// A [Node] speaks RESP2 over connections that are buffers in memory ([Node.Dial]), so everything
// that waits for it is durably blocked in a testing/synctest bubble. It answers the commands that
// this module uses as Redis 7.0 does, runs scripts as Lua, expires keys by a clock of its own, and
// has the faults that a lock must survive. Each fault can be set at any time. [InBubble] starts
// nodes in a bubble; a node made by hand in a bubble must be closed before the bubble ends.
//
// It is not a full Redis. It has strings and sorted sets only, persistence and replication only as
// far as they make a server forget, no transactions, and of channel patterns only "*". A command or
// option that it does not know gets an error reply. A script that does not end hangs its
// node. Lua is gopher-lua's: tostring, table.concat, the .. operator and string.format (which knows
// only s and f) turn numbers into text as Lua 5.1 does, but other string functions do not when
// given a number of 15 digits or more; it accepts some things that 5.1 refuses (";;", goto); and
// the interpreter's own errors have other texts.
package fakeredis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Node is a fake Redis master. Make it with [New] and end it with [Node.Close]. Its methods may be
// called from any goroutine and, except for Close, from its callbacks.
type Node struct {
	clk      clock.Clock
	settings settings
	running  sync.WaitGroup // one per session; Close waits
	replicas atomic.Int64   // how many follow this node

	mu       sync.Mutex // guards the fields below; never held over a callback or a wait
	process  process
	network  network
	rules    rules
	disk     disk
	saved    disk // the last snapshot
	wall     wall
	now      int64 // microseconds of wall, at the start of the command that runs
	engine   *engine
	log      []Command
	hook     func(Command)
	onChange func(Change)
	changes  []Change   // that the running command made, for onChange
	sessions []*session // that have a goroutine, oldest first
	closed   bool
}

// process is the state that a restart loses.
type process struct {
	runID      string
	started    int64 // microseconds of wall
	lastClient int64
	killed     bool
	stopped    bool
	channels   map[string][]*session // subscribers, oldest first
	monitors   []*session            // subscribers of all channels, oldest first
	scripts    map[string]string     // source by digest, for EVALSHA

	replication replication
}

// rules are set by a test and survive restarts.
type rules struct {
	refuseAll string            // the error that answers every command; "" for none
	refuse    map[string]string // the error that answers a command, by its name
	info      map[string]string // fields of INFO
	config    map[string]string // parameters of CONFIG GET
	limited   bool              // the user default has no rights
	scripts   failing           // scripts
	calls     failing           // commands that scripts call
}

// failing counts what runs, and lets one of it fail.
type failing struct {
	ran  int
	left int // until the one that fails; 0: none does
	text string
}

// next counts one more, and returns the error of one that fails.
func (f *failing) next() (text string) {
	if f.ran++; f.left > 0 {
		if f.left--; f.left == 0 {
			return f.text
		}
	}
	return ""
}

func newRules() rules {
	return rules{
		refuse: make(map[string]string),
		info:   make(map[string]string),
		config: make(map[string]string),
	}
}

// New returns a running node whose time passes as clk's does.
func New(clk clock.Clock, opts ...Option) *Node {
	n := &Node{clk: clk}
	for _, opt := range opts {
		opt(&n.settings)
	}
	n.wall = newWall(clk, 0, 1)
	n.network.changed = make(chan struct{})
	n.rules = newRules()
	n.process = n.newProcess()
	n.process.started -= n.settings.uptime.Microseconds()
	return n
}

func (n *Node) newProcess() process {
	return process{
		runID:    newRunID(),
		started:  n.wall.micros(),
		channels: make(map[string][]*session),
		scripts:  make(map[string]string),

		replication: newReplication(),
	}
}

// newRunID returns 40 random hexadecimal digits.
func newRunID() string {
	var random [20]byte
	_, _ = rand.Read(random[:]) // which never fails
	return hex.EncodeToString(random[:])
}

// Dial returns a new connection. On a killed or closed node it fails with ECONNREFUSED; on a muted
// one it waits until the node heals or ctx ends; on a stopped one it succeeds, because the kernel
// accepts connections for a process that does not run.
func (n *Node) Dial(ctx context.Context) (net.Conn, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, dialError(err)
		}
		client, heal, err := n.connect()
		if err != nil {
			return nil, dialError(err)
		}
		if client != nil {
			return client, nil
		}
		select {
		case <-ctx.Done():
		case <-heal:
		}
	}
}

// connect makes a session. For a muted node it returns a channel that closes when the node may be
// tried again.
func (n *Node) connect() (client *Conn, heal <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.network.mute && !n.closed {
		return nil, n.network.changed, nil
	}
	if n.closed || n.process.killed {
		return nil, nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	client, server := Pipe()
	n.process.lastClient++
	s := newSession(n, n.process.lastClient, server)
	n.sessions = append(n.sessions, s)
	n.running.Go(s.run)
	return client, nil, nil
}

func dialError(err error) error {
	remote := address("server")
	return &net.OpError{Op: "dial", Net: remote.Network(), Addr: remote, Err: err}
}

// Stop halts the process as SIGSTOP does: connections are accepted and take bytes until their
// buffers are full, and nothing is executed until [Node.Continue]. Replies that have left still
// arrive.
func (n *Node) Stop() { n.change(func() { n.process.stopped = true }) }

// Continue ends [Node.Stop]. Everything that has queued up runs now, with expiry counted from now.
func (n *Node) Continue() { n.change(func() { n.process.stopped = false }) }

// Kill ends the process as SIGKILL does: connections are reset, everything in transit is lost, and
// dials are refused until [Node.Restart].
func (n *Node) Kill() {
	n.change(func() {
		n.process.killed = true
		n.unfollowLocked()
		n.resetAllLocked()
	})
}

// Close ends the node and waits until all its goroutines have ended. Do not call it from a callback
// of the node.
func (n *Node) Close() {
	n.change(func() {
		n.closed = true
		n.healLocked()
		n.resetAllLocked()
	})
	n.running.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engine.release()
	n.engine = nil
}

// change alters the node and wakes every session.
func (n *Node) change(alter func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alter()
	for _, s := range n.sessions {
		s.signal()
	}
}

func (n *Node) resetAllLocked() {
	for _, s := range n.sessions {
		n.resetLocked(s)
	}
}

// resetLocked ends a session for good. A muted network does not carry the reset: the client gets it
// when the network heals.
func (n *Node) resetLocked(s *session) {
	s.dead = true
	if n.network.carriesReplies() {
		s.conn.Reset()
	}
	s.signal()
}

// Option is a setting of a new [Node].
type Option func(*settings)

type settings struct {
	uptime   time.Duration
	unlogged bool
}

// WithUptime makes the first process appear to have started that long ago.
func WithUptime(uptime time.Duration) Option { return func(s *settings) { s.uptime = uptime } }

// WithoutCommandLog leaves [Node.Commands] empty: for nodes that serve for long.
func WithoutCommandLog() Option { return func(s *settings) { s.unlogged = true } }
