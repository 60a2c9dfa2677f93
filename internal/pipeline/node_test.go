package pipeline

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

func TestCallsAreAnsweredInOrder(t *testing.T) {
	inBubble(t, func(h *harness) {
		var calls []*waiter
		for i := range 1000 { // the first calls wait for the first dial
			calls = append(calls, h.command("ECHO", fmt.Sprint(i)))
		}
		for i, w := range calls {
			r := w.wait()
			require.NoError(t, r.err)
			require.Equal(t, fmt.Append(nil, i), r.reply)
		}
		assert.EqualValues(t, 1, h.dials.Load(), "all on one connection")
		stats := h.node.Stats()
		assert.Equal(t, Up, stats.State)
		assert.EqualValues(t, 1000, stats.Calls)
		assert.Zero(t, stats.Waiting)
	})
}

func TestErrorReplyIsARefusalInTheServersWords(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "SET")
		err := h.command("SET", "k", "v").wait().err
		h.requireFate(err, Refused, err)
		assert.EqualError(t, err, "OOM command not allowed when used memory > 'maxmemory'.")
		require.NoError(t, h.command("GET", "k").wait().err, "the connection goes on")
	})
}

func TestStoppedNodeCostsTheCallerItsDeadlineAndNoMore(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		r := h.command("SET", "k", "v").wait()
		h.requireFate(r.err, Unknown, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		h.server.Continue()
		synctest.Wait()
		value, _, _ := h.server.Get("k")
		assert.Equal(t, "v", value, "which is why its fate was unknown")
		assert.EqualValues(t, 1, h.dials.Load(), "a caller's timeout does not cost the connection")
		r = h.command("ECHO", "x").wait()
		require.NoError(t, r.err)
		assert.Equal(t, []byte("x"), r.reply, "the late answer was not taken for this one")
	})
}

func TestCallsWaitForTheFirstDialUntilTheirDeadline(t *testing.T) {
	inBubbleOn(t, func(s *fake.Node) { s.Mute(true) }, func(h *harness) {
		r := h.command("SET", "k", "v").wait()
		h.requireFate(r.err, Unsent, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		assert.ErrorContains(t, r.err, "not connected yet")
		h.server.Mute(false)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, Up, h.node.Stats().State)
		assert.Empty(t, h.server.Keys(), "an unsent call stays unsent")
	})
}

func TestNodeThatIsDownFailsAtOnce(t *testing.T) {
	inBubbleOn(t, (*fake.Node).Kill, func(h *harness) {
		first := h.command("PING").wait() // waits for the first dial, which fails at once
		h.requireFate(first.err, Unsent, syscall.ECONNREFUSED)
		assert.Zero(t, first.after)
		stats := h.node.Stats()
		assert.Equal(t, Down, stats.State)
		assert.ErrorIs(t, stats.Err, syscall.ECONNREFUSED)

		h.server.Mute(true) // from now on, a dial takes long
		time.Sleep(50 * time.Millisecond)
		r := h.command("PING").wait()
		h.requireFate(r.err, Unsent, syscall.ECONNREFUSED)
		assert.Zero(t, r.after, "nobody waits for a dial once one has failed")

		h.server.Mute(false)
		h.server.Restart(true)
		time.Sleep(2 * time.Second)
		h.up()
	})
}

func TestDialsBackOffAndStayCapped(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, h.dials.Load(), int64(100), "at most 500 ms apart")
		assert.Less(t, h.dials.Load(), int64(260), "at least 250 ms apart once it has backed off")
	})
}

func TestIdleConnectionThatIsClosedCostsOneDialAndNoError(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 10 {
			h.up()
			h.server.CutAfterWrite(1)
			r := h.command("PING").wait()
			h.requireFate(r.err, Unknown, r.err)
		}
		h.up()
		assert.EqualValues(t, 11, h.dials.Load())
		// If a server restarts at once, the redial finds it.
		h.server.Restart(true)
		h.up()
		assert.EqualValues(t, 12, h.dials.Load())
	})
}

func TestServerThatClosesEveryConnectionIsDownAndNotDialedInALoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SET" {
				return []byte("garbage\r\n")
			}
			return nil
		})
		for range 100 {
			err := h.command("SET", "k", "v").wait().err
			require.Error(t, err)
		}
		assert.Less(t, h.dials.Load(), int64(5))
	})
}

func TestStalledConnectionIsGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		first := h.command("SET", "k", "v")
		time.Sleep(testDeadline + time.Second - 1)
		synctest.Wait()
		assert.Equal(t, Up, h.node.Stats().State)
		h.requireFate(first.wait().err, Unknown, ErrTimeout)
		second := h.command("SET", "k2", "v")
		time.Sleep(2 * time.Nanosecond)
		r := second.wait()
		h.requireFate(r.err, Unknown, ErrStalled)
		assert.Less(t, r.after, time.Microsecond, "everything on the connection ends with it")
		assert.Equal(t, Connecting, h.node.Stats().State)
		time.Sleep(500 * time.Millisecond) // the dial succeeds, the handshake gets no answer
		assert.Equal(t, Down, h.node.Stats().State)
		assert.ErrorContains(t, h.node.Stats().Err, "not ready within")
	}, WithStallTimeout(time.Second), WithDialTimeout(400*time.Millisecond))
}

func TestIdleConnectionIsPinged(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		assert.Len(t, h.executed(), 12)
		assert.EqualValues(t, 1, h.dials.Load())
		h.server.MuteReplies(true)
		time.Sleep(5*time.Second + time.Second + 2*time.Second + time.Second)
		synctest.Wait()
		assert.NotEqual(t, Up, h.node.Stats().State, "the mute peer was found before a caller did")
	})
}

func TestBusyConnectionIsNotPinged(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 30 {
			h.up()
			time.Sleep(time.Second)
		}
		for _, c := range h.server.Commands() {
			assert.False(t, c.Args[0] == "PING" && len(c.Args) > 1)
		}
	})
}

func TestFullQueueIsAnErrorAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		var calls []*waiter
		for range maxCalls {
			calls = append(calls, h.command("PING"))
		}
		r := h.command("PING").wait()
		h.requireFate(r.err, Unsent, ErrBusy)
		assert.Zero(t, r.after)
		kept := h.script(true, deleteScript, "k", "v")
		assert.Equal(t, maxCalls+1, h.node.Stats().Waiting, "a kept call has room of its own")
		h.server.Continue()
		for _, w := range calls {
			require.NoError(t, w.wait().err)
		}
		require.NoError(t, kept.wait().err)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		sent := h.command("SET", "k", "v")
		synctest.Wait()
		require.NoError(t, h.node.Close())
		h.requireFate(sent.wait().err, Unknown, ErrClosed)
		h.requireFate(h.command("PING").wait().err, Unsent, ErrClosed)
		h.requireFate(h.script(true, deleteScript, "k", "v").wait().err, Unsent, ErrClosed)
		require.NoError(t, h.node.Close())
		assert.Equal(t, Closed, h.node.Stats().State)
		synctest.Wait()
		h.server.Continue()
		synctest.Wait()
		assert.Zero(t, h.server.Connections())
	})
}

func TestCloseWhileDialing(t *testing.T) {
	inBubbleOn(t, func(s *fake.Node) { s.Mute(true) }, func(h *harness) {
		queued := h.command("PING")
		require.NoError(t, h.node.Close())
		h.requireFate(queued.wait().err, Unsent, ErrClosed)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opt := range map[string]Option{
		"nil":         nil,
		"tls":         WithTLSConfig(nil),
		"dialer":      WithDialer(nil),
		"credentials": WithCredentials(nil),
		"clock":       WithClock(nil),
		"name":        WithClientName("a b"),
		"dial":        WithDialTimeout(0),
		"stall":       WithStallTimeout(time.Hour),
		"ping":        WithIdlePing(-1),
		"backoff":     WithBackoff(time.Second, time.Millisecond),
		"backoff 0":   WithBackoff(0, time.Millisecond),
	} {
		_, err := NewNode("localhost:1", opt)
		assert.ErrorIs(t, err, ErrEndpoint, name)
	}
}
