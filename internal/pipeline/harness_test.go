package pipeline

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
)

// harness is a node over a fake server, in virtual time.
type harness struct {
	t      *testing.T
	clock  *clocktest.Clock
	server *fakeredis.Node
	node   *Node
	dials  atomic.Int64
}

// inBubble runs a test in virtual time (see [fakeredis.InBubble]).
func inBubble(t *testing.T, test func(h *harness), opts ...Option) {
	t.Helper()
	inBubbleOn(t, func(*fakeredis.Node) {}, test, opts...)
}

// inBubbleOn is inBubble with a server that is prepared before the node dials it.
func inBubbleOn(t *testing.T, prepare func(*fakeredis.Node), test func(h *harness), opts ...Option) {
	t.Helper()
	fakeredis.InBubble(t, 1, func(t *testing.T, clk *clocktest.Clock, nodes fakeredis.Cluster) {
		h := &harness{t: t, clock: clk, server: nodes[0]}
		prepare(h.server)
		h.node = h.newNode("fake:6379", opts...)
		defer func() { assert.NoError(t, h.node.Close()) }()
		test(h)
	})
}

// queued runs a test whose calls are queued until it connects the node, so that they are sent at
// once. With hold it disconnects the node again.
func queued(t *testing.T, test func(h *harness, hold, connect func())) {
	t.Helper()
	inBubble(t, func(h *harness) {
		var gate atomic.Pointer[chan struct{}] // a dial waits until it is closed
		shut := func() {
			open := make(chan struct{})
			gate.Store(&open)
		}
		shut()
		require.NoError(t, h.node.Close())
		h.node = h.newNode("fake:6379", WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			select {
			case <-*gate.Load():
				return h.dial(ctx, network, address)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		hold := func() {
			shut()
			h.server.CutAfterWrite(1)
			require.Error(t, h.command("ECHO", "lost").wait().err)
		}
		test(h, hold, func() { close(*gate.Load()) })
	})
}

func (h *harness) newNode(endpoint string, opts ...Option) *Node {
	opts = append([]Option{WithClock(h.clock), WithDialer(h.dial)}, opts...)
	node, err := NewNode(endpoint, opts...)
	require.NoError(h.t, err)
	return node
}

func (h *harness) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.dials.Add(1)
	return h.server.Dial(ctx)
}

// beforeWrite is a connection that does something before each write, which fails if that does.
type beforeWrite struct {
	net.Conn
	do func() error
}

func (c beforeWrite) Write(p []byte) (int, error) {
	if err := c.do(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// pass lets time go by, and everything happen that happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// result says how a call ended, and when.
type result struct {
	reply any
	err   error
	after time.Duration // since the call was made
	times int           // that Complete was called
}

// waiter is a Sink that keeps its result.
type waiter struct {
	t     *testing.T
	began time.Time
	done  chan struct{}

	mu     sync.Mutex
	result result
}

func newWaiter(t *testing.T) *waiter {
	return &waiter{t: t, began: time.Now(), done: make(chan struct{})}
}

func (w *waiter) Complete(_ int, reply any, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.times++
	w.result.reply, w.result.err, w.result.after = reply, err, time.Since(w.began)
	if w.result.times == 1 {
		close(w.done)
	}
}

// Decided implements [Decider].
func (w *waiter) Decided() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *waiter) wait() result {
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, 1, w.result.times, "a call must end exactly once")
	return w.result
}

// reply waits for the answer to a call that must succeed.
func (w *waiter) reply() any {
	w.t.Helper()
	r := w.wait()
	require.NoError(w.t, r.err)
	return r.reply
}

// fails waits for the end of a call that must fail with this fate, for this reason (nil: any).
func (w *waiter) fails(fate Fate, reason error) result {
	w.t.Helper()
	r := w.wait()
	var call *CallError
	require.ErrorAs(w.t, r.err, &call)
	require.Equal(w.t, fate, call.Fate, "%v", r.err)
	if reason != nil {
		require.ErrorIs(w.t, r.err, reason)
	}
	return r
}

// ctx of a caller that does not give up.
var ctx = context.Background()

const testDeadline = 100 * time.Millisecond

// do makes a call. Its deadline is testDeadline unless the request has one.
func (h *harness) do(keep bool, request Request) *waiter {
	w := newWaiter(h.t)
	h.call(keep, request, w)
	return w
}

// call is do for another Sink.
func (h *harness) call(keep bool, request Request, sink Sink) {
	request.Sink = sink
	if request.Deadline == 0 {
		request.Deadline = h.clock.Now().Add(testDeadline)
	}
	h.node.Do(Call{Request: &request, Keep: keep})
}

func (h *harness) command(name string, args ...any) *waiter {
	return h.do(false, Request{Words: Command(append([]any{name}, args...)...)})
}

func (h *harness) script(keep bool, s *Script, key string, args ...any) *waiter {
	return h.do(keep, Request{Script: s, Key: key, Words: On([]string{key}, args...)})
}

var deleteScript = NewLateScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// release makes a kept call that deletes a key if it has the value "v".
func (h *harness) release(key string) *waiter { return h.script(true, deleteScript, key, "v") }

func isNumber(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

// up makes one call, so that the node is connected.
func (h *harness) up() {
	h.t.Helper()
	h.command("PING").reply()
}

// kind is a kind of commands.
type kind func(cmd []string) bool

func named(name string) kind { return func(cmd []string) bool { return cmd[0] == name } }

// batchOf is the kind of commands that run a script with this many keys.
func batchOf(keys string) kind {
	return func(cmd []string) bool { return cmd[0] == "EVALSHA" && cmd[2] == keys }
}

// replyTo makes a server send raw (if it is empty, nothing) as the reply to each command of a kind.
func replyTo(server *fakeredis.Node, of kind, raw string) {
	server.ReplyRaw(func(cmd []string) []byte {
		if of(cmd) {
			return []byte(raw)
		}
		return nil
	})
}

// acceptPassword makes a server take any password.
func acceptPassword(server *fakeredis.Node) { replyTo(server, named("AUTH"), "+OK\r\n") }

// executed returns the names of the commands that the server executed after the handshake.
func (h *harness) executed() (names []string) {
	for _, c := range h.server.Commands() {
		switch c.Args[0] {
		case "ACL", "CLIENT", "INFO", "AUTH", "SELECT", "CONFIG":
			if c.Args[1] != "KILL" {
				continue
			}
		case "PING":
			if len(c.Args) == 1 {
				continue
			}
		case "GET":
			if c.Args[1] == MemoryKey {
				continue
			}
		}
		if !isTrial(c.Args) {
			names = append(names, c.Args[0])
		}
	}
	return names
}

// isTrial reports whether a command tries scripts, as the handshake does.
func isTrial(args []string) bool {
	return slices.Contains(args, trialSource) || slices.Contains(args, trialScript.Digest())
}

// commandsOf returns the commands with that name that the server saw.
func (h *harness) commandsOf(name string) (found []fakeredis.Command) {
	for _, c := range h.server.Commands() {
		if c.Args[0] == name {
			found = append(found, c)
		}
	}
	return found
}
