package pipeline

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/proof/fake"
)

// harness is a node over a fake server, in virtual time.
type harness struct {
	t      *testing.T
	clock  *clocktest.Clock
	server *fake.Node
	node   *Node
	dials  atomic.Int64
}

// inBubble runs a test in virtual time (see [fake.InBubble]).
func inBubble(t *testing.T, test func(h *harness), opts ...Option) {
	t.Helper()
	inBubbleOn(t, func(*fake.Node) {}, test, opts...)
}

// inBubbleOn is inBubble with a server that is prepared before the node dials it.
func inBubbleOn(t *testing.T, prepare func(*fake.Node), test func(h *harness), opts ...Option) {
	t.Helper()
	fake.InBubble(t, 1, func(t *testing.T, clk *clocktest.Clock, nodes fake.Cluster) {
		h := &harness{t: t, clock: clk, server: nodes[0]}
		prepare(h.server)
		h.node = h.newNode("fake:6379", opts...)
		defer func() { assert.NoError(t, h.node.Close()) }()
		test(h)
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

// result says how a call ended, and when.
type result struct {
	reply any
	err   error
	after time.Duration // since the call was made
	times int           // that Complete was called
}

// waiter is a Sink that keeps its result.
type waiter struct {
	h     *harness
	began time.Time
	done  chan struct{}

	mu     sync.Mutex
	result result
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

func (w *waiter) wait() result {
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.h.t, 1, w.result.times, "a call must end exactly once")
	return w.result
}

const testDeadline = 100 * time.Millisecond

// do makes a call with a deadline of testDeadline.
func (h *harness) do(keep bool, request Request) *waiter {
	w := &waiter{h: h, began: time.Now(), done: make(chan struct{})}
	request.Sink, request.Deadline = w, h.clock.Now().Add(testDeadline)
	h.node.Do(Call{Request: &request, Keep: keep})
	return w
}

func (h *harness) command(name string, args ...any) *waiter {
	return h.do(false, Request{Words: Command(append([]any{name}, args...)...)})
}

func (h *harness) script(keep bool, s *Script, key string, args ...any) *waiter {
	return h.do(keep, Request{Script: s, Key: key, Words: On([]string{key}, args...)})
}

var deleteScript = NewLateScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// up makes one call, so that the node is connected.
func (h *harness) up() {
	h.t.Helper()
	require.NoError(h.t, h.command("PING").wait().err)
}

func (h *harness) requireFate(err error, fate Fate, reason error) {
	h.t.Helper()
	var call *CallError
	require.ErrorAs(h.t, err, &call)
	require.Equal(h.t, fate, call.Fate, "%v", err)
	require.ErrorIs(h.t, err, reason)
}

// executed returns the names of the commands that the server executed after the handshake.
func (h *harness) executed() (names []string) {
	for _, c := range h.server.Commands() {
		switch c.Args[0] {
		case "CLIENT", "INFO", "AUTH", "SELECT", "CONFIG":
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
		if isTrial(c.Args) {
			continue
		}
		names = append(names, c.Args[0])
	}
	return names
}

// isTrial reports whether a command tries scripts, as the handshake does.
func isTrial(args []string) bool {
	return slices.Contains(args, trialSource) ||
		slices.Contains(args, trialScript.digest)
}
