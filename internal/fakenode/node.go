// Package fakenode has a Redis server inside the process, for tests and simulations in virtual time.
//
// A [Node] speaks RESP2 over connections that are buffers in memory ([Node.Dial]), so that everything that waits
// for it is durably blocked in a testing/synctest bubble. It answers the commands that this module uses as Redis 7.0
// does, runs scripts as Lua, expires keys by a clock of its own, and has the faults that a lock must survive: each
// can be set at any time. Inside a bubble, make the node there and Close it before the bubble ends.
//
// It is no Redis: strings and sorted sets only, persistence and replication as far as they make a
// server forget, no transactions, patterns of channels that end in "*" only. A command or an option
// that it does not know is an error reply. A script that does not end hangs its node. Lua is
// gopher-lua's: numbers become text as in Lua 5.1 by tostring, string.format, table.concat and the
// .. operator, but not where another string function is handed a number of 15 digits or more; some
// things are accepted that 5.1 refuses (";;", goto); and the interpreter's own errors have other
// words.
package fakenode

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redquorum/redquorum/clock"
)

// Node is a fake Redis master. Make it with [New]; end it with [Node.Close]. Its methods may be called from any
// goroutine, callbacks included, but for Close.
type Node struct {
	clk      clock.Clock
	settings settings
	running  sync.WaitGroup // one per session; Close waits
	replicas atomic.Int64   // that follow this node

	mu       sync.Mutex // guards the fields below; never held over a callback or a wait
	process  process
	network  network
	rules    rules
	disk     disk
	saved    disk // the last snapshot
	wall     wall
	now      int64 // microseconds of wall, at the start of the command that runs
	engine   *engine
	log      commandLog
	hook     func(Command)
	onChange func(Change)
	changes  []Change   // that the running command made, for onChange
	sessions []*session // that have a goroutine, oldest first
	closed   bool
}

// process is what a restart loses.
type process struct {
	runID      string
	started    int64 // microseconds of wall
	lastClient int64
	killed     bool
	stopped    bool
	channels   map[string][]*session // subscribers, oldest first
	monitors   []monitor             // subscribers of patterns, oldest first
	scripts    map[string]string     // source by digest, for EVALSHA

	replication replication
}

// rules are what the process was told by a test, and keeps over restarts.
type rules struct {
	refuseAll string            // the error that answers every command; "" for none
	refuse    map[string]string // the error that answers a command, by its name
	info      map[string]string // fields of INFO
	config    map[string]string // parameters of CONFIG GET
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
	n := &Node{clk: clk, settings: defaults()}
	for _, opt := range opts {
		opt(&n.settings)
	}
	n.wall = newWall(clk, n.settings.offset, n.settings.rate)
	n.log.limit = n.settings.logLimit
	n.network.changed = make(chan struct{})
	n.rules = newRules()
	n.process = n.newProcess(n.settings.runID)
	n.process.started -= n.settings.uptime.Microseconds()
	return n
}

func (n *Node) newProcess(runID string) process {
	if runID == "" {
		runID = newRunID()
	}
	return process{
		runID:    runID,
		started:  n.wall.micros(),
		channels: make(map[string][]*session),
		scripts:  make(map[string]string),

		replication: newReplication(),
	}
}

var runs atomic.Uint64 // numbers the processes of all nodes and their replication ids, so that no two are the same

func newRunID() string {
	sum := sha1.Sum([]byte("fakenode " + strconv.FormatUint(runs.Add(1), 10)))
	return hex.EncodeToString(sum[:])
}

// Dial returns a new connection. It fails with ECONNREFUSED on a killed or closed node, waits on a muted one until
// ctx ends, and succeeds on a stopped one, as the kernel accepts for a process that does not run.
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

// connect makes a session, or returns a channel that closes when a muted node may be tried again.
func (n *Node) connect() (client *Conn, heal <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.network.mute && !n.closed {
		return nil, n.network.changed, nil
	}
	if n.closed || n.process.killed {
		return nil, nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	client, server := Pipe(n.settings.buffer)
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

// Stop halts the process as SIGSTOP does: connections are accepted and take bytes, up to their buffers, and nothing
// is executed until [Node.Continue]. Replies that had left still arrive.
func (n *Node) Stop() { n.change(func() { n.process.stopped = true }) }

// Continue ends [Node.Stop]. Everything that queued up runs now, with the expiry times of now.
func (n *Node) Continue() { n.change(func() { n.process.stopped = false }) }

// Kill ends the process as SIGKILL does: connections are reset, with all that was on the way, and dials are refused
// until [Node.Restart].
func (n *Node) Kill() {
	n.change(func() {
		n.process.killed = true
		n.unfollowLocked()
		n.resetAllLocked()
	})
}

// Close ends the node and waits until no goroutine of it is left. Not to be called from a callback of the node.
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

// change alters the node and lets every session look at it.
func (n *Node) change(alter func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alter()
	for _, s := range n.sessions {
		s.look()
	}
}

func (n *Node) resetAllLocked() {
	for _, s := range n.sessions {
		n.resetLocked(s)
	}
}

// resetLocked ends a session for good. A muted network does not carry the reset: the client hears of it when the
// network heals.
func (n *Node) resetLocked(s *session) {
	s.dead = true
	if n.network.carriesReplies() {
		s.conn.Reset()
	}
	s.look()
}
