package pipeline

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
)

// A stopped server still holds a SET of the connection that was given up, and runs it when it
// continues. The release must run after it, although it takes another connection.
func TestKeptCallComesBehindTheConnectionThatWasGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		set, release := h.command("SET", "k", "v", "NX", "PX", 60_000), h.release("k")
		set.fails(Unknown, ErrTimeout)
		release.fails(Unknown, ErrTimeout)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, h.node.Stats().Kept)
		assert.NotEqual(t, Up, h.node.Stats().State)
		h.server.Continue()
		pass(time.Second)
		assert.Empty(t, h.server.Keys())
		assert.Zero(t, h.node.Stats().Kept)
	}, WithStallTimeout(500*time.Millisecond))
}

// A proxy delays a SET while the connection breaks on our side. The new connection kills the old
// one at the server before the release goes out, so the SET can never run after it.
func TestOldConnectionIsKilledBeforeKeptCallsGoOut(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Delay(func() time.Duration { return 5 * time.Second }, nil)
		set, release := h.command("SET", "k", "v"), h.release("k")
		synctest.Wait()
		h.server.Delay(nil, nil)
		set.wait()
		release.wait()
		pass(10 * time.Second)
		assert.Empty(t, h.server.Keys())
		names := h.executed()
		assert.Contains(t, names, "CLIENT", "CLIENT KILL")
		assert.Less(t, slices.Index(names, "CLIENT"), slices.Index(names, "EVALSHA"))
	}, WithStallTimeout(500*time.Millisecond))
}

// A release has been sent, and a SET of the same value waits behind large commands when the
// connection breaks. If the release came behind the SET now, it would end a lock that is held.
func TestKeptCallGoesOutBeforeWhatWasQueuedBehindIt(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop() // a writer blocks when the buffer is full, and a dial waits
		release := h.release("k")
		for range 2 { // the server reads the first of them
			h.command("ECHO", strings.Repeat("x", 2*fakeredis.DefaultBuffer))
		}
		release.wait()
		time.Sleep(testDeadline)
		set := h.command("SET", "k", "v")
		synctest.Wait()
		require.Equal(t, Up, h.node.Stats().State, "the connection has not been given up yet")
		time.Sleep(testDeadline / 2)
		require.Equal(t, Connecting, h.node.Stats().State)
		h.server.Continue()
		set.reply()
		pass(time.Second)
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, []string{"k"}, h.server.Keys())
	}, WithStallTimeout(testDeadline*5/4))
}

func TestKeptCallSurvivesAServerThatServesNobody(t *testing.T) {
	const older = "ERR Error running script (call to f_d3): @user_script:1: @user_script: 1: -" // before Redis 7
	for _, words := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"LOADING Redis is loading the dataset in memory", "NOAUTH Authentication required.",
		"MISCONF Redis is configured to save RDB snapshots", "READONLY You can't write against a read only replica.",
		older + "READONLY You can't write against a read only replica.",
		"NOREPLICAS Not enough good replicas to write.",
	} {
		inBubble(t, func(h *harness) {
			h.command("SET", "k", "v").reply()
			h.server.RefuseWith(words, "EVALSHA", "EVAL")
			before := h.dials.Load()
			err := h.release("k").fails(Unknown, ErrRefused).err
			assert.ErrorContains(t, err, strings.TrimPrefix(words, older))
			time.Sleep(5 * time.Second)
			assert.Less(t, h.dials.Load()-before, int64(30), "with a pause between two attempts")
			h.server.RefuseWith("", "EVALSHA", "EVAL")
			pass(time.Second)
			assert.Empty(t, h.server.Keys(), words)
		})
	}
}

func TestKeptCallThatBreaksEveryConnectionIsNotSentInALoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Delay(func() time.Duration { return time.Millisecond }, nil)
		replyTo(h.server, named("EVALSHA"), "+OK\r\n")
		w := h.do(true, Request{Script: deleteScript, Key: "k", Words: On([]string{"k"}, "v"), Accept: isNumber})
		assert.ErrorContains(t, w.fails(Unknown, ErrProtocol).err, "a script was answered with string")
		before := h.dials.Load()
		time.Sleep(10 * time.Second)
		assert.Less(t, h.dials.Load()-before, int64(60))
	})
}

func TestKeptCallIsDeliveredToANodeThatWasDown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.command("SET", "k", "v").reply()
		h.server.Kill()
		pass(time.Second)
		assert.Zero(t, h.release("k").fails(Unsent, nil).after, "the caller does not wait for it")
		assert.Equal(t, 1, h.node.Stats().Kept)
		for range 3 { // several may wait for it
			go h.node.Drain(h.t.Context())
		}
		time.AfterFunc(time.Hour, func() { h.server.Restart(true) })
		assert.Zero(t, h.node.Drain(h.t.Context()))
		assert.Empty(t, h.server.Keys())
		assert.Zero(t, h.node.Stats().Kept)
	})
}

func TestKeptCallsAreBoundedTheOldestGoFirst(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Kill()
		require.Error(t, h.command("PING").wait().err)
		for i := range maxKept + 5 {
			h.release(fmt.Sprint(i)).wait()
		}
		stats := h.node.Stats()
		assert.Equal(t, maxKept, stats.Kept)
		assert.EqualValues(t, 5, stats.Dropped)
		h.server.Restart(true)
		pass(time.Second)
		assert.Zero(t, h.node.Stats().Kept)
	})
}

// The server has closed the connection, which the node learns when it writes.
func TestACallOfWhichNothingWasWrittenGoesOutOnTheNextConnection(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.node.Close())
		var closed atomic.Bool
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := h.dial(ctx, network, address)
			return beforeWrite{conn, func() error {
				if closed.CompareAndSwap(true, false) {
					return syscall.EPIPE
				}
				return nil
			}}, err
		}
		h.node = h.newNode("fake:6379", WithDialer(dial))
		h.up()
		closed.Store(true)
		assert.Equal(t, "OK", h.command("SET", "k", "v", "NX").reply())
		assert.EqualValues(t, 2, h.node.Stats().Connects)
	})
}

// What the reply announces would be allocated, or waited for.
func TestReplyBeyondTheLimitsIsNotWaitedFor(t *testing.T) {
	for _, announced := range []string{"$1048577\r\n", "*4097\r\n"} {
		inBubble(t, func(h *harness) {
			h.up()
			replyTo(h.server, named("ECHO"), announced)
			assert.Zero(t, h.command("ECHO", "x").fails(Unknown, ErrProtocol).after)
		})
	}
}

func TestSurplusReplyIsNotTakenForAnAnswer(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Inject([]byte("+OK\r\n"))
		time.Sleep(20 * time.Millisecond)
		assert.Equal(t, []byte("mine"), h.command("ECHO", "mine").reply())
		assert.EqualValues(t, 2, h.dials.Load(), "a server out of step loses its connection")
	})
}
