package pipeline

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
)

func TestStoppedNodeCostsTheCallerItsDeadlineAndNoMore(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		assert.Equal(t, testDeadline, h.command("SET", "k", "v").fails(Unknown, ErrTimeout).after)
		h.server.Continue()
		synctest.Wait()
		value, _, _ := h.server.Get("k")
		assert.Equal(t, "v", value, "which is why its fate was unknown")
		assert.EqualValues(t, 1, h.dials.Load(), "a caller's timeout does not cost the connection")
		assert.Equal(t, []byte("x"), h.command("ECHO", "x").reply(), "the late answer was not taken for this one")

		h.server.Stop()
		w := h.command("PING")
		h.clock.Suspend(time.Hour) // of the caller's machine
		assert.LessOrEqual(t, w.fails(Unknown, nil).after, time.Second)
	})
}

func TestCallsWaitForTheFirstDialUntilTheirDeadline(t *testing.T) {
	inBubbleOn(t, func(s *fakeredis.Node) { s.Mute(true) }, func(h *harness) {
		r := h.command("SET", "k", "v").fails(Unsent, ErrTimeout)
		assert.Equal(t, testDeadline, r.after)
		assert.ErrorContains(t, r.err, "not connected yet")
		assert.EqualValues(t, 1, h.node.Stats().Timeouts)
		assert.Same(t, h.clock, h.node.Clock(), "by which deadlines go")
		h.server.Mute(false)
		pass(time.Second)
		assert.Equal(t, Up, h.node.Stats().State)
		assert.Empty(t, h.server.Keys(), "an unsent call stays unsent")
	})
}

func TestWithdrawnCallsEndAtOnceAndAreNotSentAnyMore(t *testing.T) {
	of := func(w *waiter) func(Sink) bool { return func(s Sink) bool { return s == w } }
	queued(t, func(h *harness, _, connect func()) {
		gone, other, release := h.command("SET", "gone", "v"), h.command("SET", "other", "v"), h.release("kept")
		for _, w := range []*waiter{gone, release} {
			h.node.Withdraw(of(w))
			assert.Zero(t, w.fails(Unsent, ErrWithdrawn).after)
		}
		connect()
		other.reply()
		pass(time.Second)
		assert.Equal(t, []string{"other"}, h.server.Keys())
		assert.Equal(t, []string{"SET", "SCRIPT", "EVALSHA"}, h.executed(), "a kept call is delivered all the same")

		h.server.Stop()
		gone = h.command("SET", "late", "v")
		synctest.Wait() // it is written
		h.node.Withdraw(of(gone))
		assert.Zero(t, gone.fails(Unknown, ErrWithdrawn).after)
		h.server.Continue()
		assert.Equal(t, []byte("x"), h.command("ECHO", "x").reply(), "its answer is not taken for this one")
	})
}

func TestUnansweredCallsAreThoseThatHaveNotEnded(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		first, kept := h.command("SET", "a", "v"), h.release("kept")
		of := func(w ...*waiter) map[Sink]struct{} {
			sinks := map[Sink]struct{}{}
			for _, w := range w {
				sinks[w] = struct{}{}
			}
			return sinks
		}
		assert.Equal(t, of(first, kept), h.node.Unanswered(), "queued")
		connect()
		first.reply()
		kept.reply()
		assert.Empty(t, h.node.Unanswered())
		h.server.Stop()
		sent := h.command("SET", "late", "v")
		synctest.Wait()
		assert.Equal(t, of(sent), h.node.Unanswered(), "sent")
		pass(testDeadline)
		assert.Empty(t, h.node.Unanswered(), "ended, and not answered")
	})
}

func TestNodeThatIsDownFailsAtOnce(t *testing.T) {
	inBubbleOn(t, (*fakeredis.Node).Kill, func(h *harness) {
		first := h.command("PING") // waits for the first dial, which fails at once
		assert.Zero(t, first.fails(Unsent, syscall.ECONNREFUSED).after)
		stats := h.node.Stats()
		assert.Equal(t, Down, stats.State)
		assert.ErrorIs(t, stats.Err, syscall.ECONNREFUSED)

		h.server.Mute(true) // from now on, a dial takes long
		time.Sleep(50 * time.Millisecond)
		r := h.command("PING").fails(Unsent, syscall.ECONNREFUSED)
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
		pass(time.Minute)
		assert.Greater(t, h.dials.Load(), int64(100), "at most 500 ms apart")
		assert.Less(t, h.dials.Load(), int64(260), "at least 250 ms apart once it has backed off")
	})
}

func TestIdleConnectionThatIsClosedCostsOneDialAndNoError(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 10 {
			h.up()
			h.server.CutAfterWrite(1)
			h.command("PING").fails(Unknown, nil)
		}
		h.up()
		assert.EqualValues(t, 11, h.dials.Load())
		killed := len(h.executed())
		h.server.Restart(true) // at once: the redial finds it
		h.up()
		assert.EqualValues(t, 12, h.dials.Load())
		assert.Len(t, h.executed(), killed, "the restarted server numbers its clients anew, so none is killed")
	})
}

func TestStalledConnectionIsGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		first := h.command("SET", "k", "v")
		pass(testDeadline + time.Second - 1)
		assert.Equal(t, Up, h.node.Stats().State)
		first.fails(Unknown, ErrTimeout)
		second := h.command("SET", "k2", "v")
		time.Sleep(2 * time.Nanosecond)
		r := second.fails(Unknown, ErrStalled)
		assert.EqualValues(t, 1, h.node.Stats().Timeouts, "the second had time left")
		assert.Less(t, r.after, time.Microsecond, "everything on the connection ends with it")
		assert.Equal(t, Connecting, h.node.Stats().State)
		time.Sleep(500 * time.Millisecond) // the dial succeeds, the handshake gets no answer
		assert.Equal(t, Down, h.node.Stats().State)
		err := h.node.Stats().Err
		assert.ErrorContains(t, err, "not ready within 400ms")
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "a caller that asks means its own")
	}, WithStallTimeout(time.Second), WithDialTimeout(400*time.Millisecond))
}

// Requests for a lock are small, and the scripts that release it are not.
func TestAPathThatLosesLargePacketsIsNoConnection(t *testing.T) {
	for _, mtu := range []int{576, 1280, 1500, 9000} {
		t.Run(strconv.Itoa(mtu), func(t *testing.T) {
			inBubble(t, func(h *harness) {
				narrow := h.newNode("fake:6379", WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
					server, err := h.server.Dial(ctx)
					return &narrowPath{Conn: server, mtu: mtu}, err
				}))
				defer func() { assert.NoError(t, narrow.Close()) }()
				time.Sleep(1500 * time.Millisecond) // longer than the handshake may take
				assert.Equal(t, Down, narrow.Stats().State)
				assert.ErrorContains(t, narrow.Stats().Err, "the network loses large packets")
				assert.Empty(t, h.executed())
			})
		})
	}
}

// narrowPath is a connection that delivers nothing from the first full packet on.
type narrowPath struct {
	net.Conn
	mtu  int
	lost bool
}

func (c *narrowPath) Write(p []byte) (int, error) {
	c.lost = c.lost || len(p) >= c.mtu
	if c.lost {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A server that was away has a backlog. As long as it keeps answering, it is not stalled.
func TestAServerThatWorksOffABacklogIsNotGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		var backlog time.Duration
		h.server.Delay(func() time.Duration { // each command after the earlier ones
			backlog += 300 * time.Millisecond
			return backlog
		}, nil)
		for range 20 {
			h.release("k")
		}
		time.Sleep(10 * time.Second)
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, uint64(1), h.node.Stats().Connects)
	}, WithStallTimeout(time.Second))
}

func TestIdleConnectionIsPingedAndABusyOneIsNot(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 30 {
			h.up()
			time.Sleep(time.Second)
		}
		assert.Empty(t, h.executed())
		h.up()
		assert.EqualValues(t, 31, h.node.Stats().Calls)
		pass(time.Minute + time.Second)
		assert.Len(t, h.executed(), 12)
		assert.EqualValues(t, 1, h.dials.Load())
		h.server.MuteReplies(true)
		pass(5*time.Second + time.Second + 2*time.Second + time.Second)
		assert.NotEqual(t, Up, h.node.Stats().State, "the mute peer was found before a caller did")
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
		assert.Zero(t, h.command("PING").fails(Unsent, ErrBusy).after)
		kept := h.release("k")
		assert.Equal(t, maxCalls+1, h.node.Stats().Waiting, "a kept call has room of its own")
		h.server.Continue()
		for _, w := range calls {
			w.reply()
		}
		kept.reply()
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		sent := h.command("SET", "k", "v")
		synctest.Wait()
		require.NoError(t, h.node.Close())
		sent.fails(Unknown, ErrClosed)
		h.command("PING").fails(Unsent, ErrClosed)
		h.release("k").fails(Unsent, ErrClosed)
		require.NoError(t, h.node.Close())
		assert.Equal(t, Closed, h.node.Stats().State)
		synctest.Wait()
		h.server.Continue()
		synctest.Wait()
		assert.Zero(t, h.server.Connections())
	})
	inBubbleOn(t, func(s *fakeredis.Node) { s.Mute(true) }, func(h *harness) {
		queued := h.command("PING") // during the dial
		require.NoError(t, h.node.Close())
		queued.fails(Unsent, ErrClosed)
	})
}

func TestDrainWaitsForTheAnswersToKeptCalls(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		assert.Zero(t, h.node.Drain(h.t.Context()), "there are none")
		h.server.Delay(func() time.Duration { return 300 * time.Millisecond }, nil)
		release := h.release("k")
		began := time.Now()
		assert.Zero(t, h.node.Drain(h.t.Context()))
		assert.Equal(t, 300*time.Millisecond, time.Since(began))
		release.fails(Unknown, ErrTimeout) // its caller had waited for less
	})
}

func TestDrainReturnsWhatIsLeftWhenItsContextOrTheNodeEnds(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Kill()
		h.release("k").wait()
		h.release("l").wait()
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, 2, h.node.Drain(ctx))
		over := make(chan int)
		go func() { over <- h.node.Drain(h.t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, h.node.Close())
		assert.Zero(t, <-over, "nothing is left to wait for")
		assert.EqualValues(t, 2, h.node.Stats().Dropped)
	})
}
