package pipeline

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collector is the Sink of a call that its caller collects.
type collector struct {
	*waiter
	node      *Node
	collected bool // its outcome was handed on by a caller
}

func (c *collector) Complete(index int, reply any, err error) {
	c.node.mu.Lock()
	c.collected = c.node.conn != nil && c.node.conn.collector != nil
	c.node.mu.Unlock()
	c.waiter.Complete(index, reply, err)
}

// promise makes a call that is to be collected.
func (h *harness) promise(args ...any) *collector {
	c := &collector{waiter: newWaiter(h.t), node: h.node}
	h.call(false, Request{Words: Command(args...), Direct: true, Collects: true}, c)
	return c
}

// collect makes a call and collects it.
func (h *harness) collect(args ...any) *collector {
	c := h.promise(args...)
	h.node.Collect(ctx, c)
	return c
}

// parked makes calls until the reader leaves the turn to callers.
func (h *harness) parked() {
	h.t.Helper()
	h.up()
	h.collect("ECHO", "first").reply() // the reader reads yet
	synctest.Wait()
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	require.True(h.t, h.node.conn.parked)
}

func TestACallerReadsItsReplyForItself(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		for _, word := range []string{"a", "b", "c"} {
			c := h.collect("ECHO", word)
			assert.True(t, c.Decided(), "once Collect has returned")
			assert.Equal(t, []byte(word), c.reply())
			assert.True(t, c.collected)
		}
		other := h.command("ECHO", "other")
		assert.Equal(t, []byte("other"), other.reply())
		assert.Less(t, other.wait().after, leftAlone, "the reader is called for a call that nobody collects")
		again := h.collect("ECHO", "again")
		assert.Equal(t, []byte("again"), again.reply())
		assert.EqualValues(t, 1, h.dials.Load())
	})
}

// A caller that has its reply leaves what is pending to the reader.
func TestACallerGivesTheTurnBackToTheReader(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		delay := time.Duration(0)
		h.server.Delay(nil, func() time.Duration { delay += 4 * time.Millisecond; return delay })
		own := h.promise("ECHO", "own")
		last := h.command("ECHO", "last")
		h.node.Collect(ctx, own)
		for i, w := range []*waiter{own.waiter, last} {
			require.NoError(t, w.wait().err)
			assert.Less(t, w.wait().after, time.Duration(i+1)*4*time.Millisecond+leftAlone/2)
		}
	})
}

func TestADeadlineEndsTheReadOfACallerAndNotTheConnection(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		h.server.Stop()
		c := h.collect("ECHO", "late")
		assert.Equal(t, testDeadline, c.fails(Unknown, ErrTimeout).after)
		synctest.Wait()
		h.server.Continue()
		pass(time.Millisecond)
		assert.Equal(t, []byte("next"), h.collect("ECHO", "next").reply(), "behind the late reply, which is nobody's")
		assert.EqualValues(t, 1, h.dials.Load())
	})
}

// The call goes on, and its reply is read at once when it comes, although its caller has gone.
func TestAContextEndsTheReadOfACallerAndNotItsCall(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		h.server.Delay(nil, func() time.Duration { return 3 * time.Millisecond })
		for _, until := range []time.Duration{0, 2 * time.Millisecond} {
			began := time.Now()
			limited, cancel := context.WithTimeout(ctx, until)
			c := h.promise("ECHO", "late")
			h.node.Collect(limited, c)
			assert.Equal(t, until, time.Since(began))
			assert.False(t, c.Decided())
			assert.Equal(t, 3*time.Millisecond, c.wait().after)
			cancel()
			h.parked()
		}
	})
}

// It ends between two calls, or once the next caller reads.
func TestAContextThatEndsLateEndsNoReadOfAnother(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		limited, cancel := context.WithCancel(ctx)
		first := h.promise("ECHO", "first")
		h.node.Collect(limited, first)
		h.node.mu.Lock()
		c := h.node.conn
		h.node.mu.Unlock()
		cancel()
		h.server.Delay(nil, func() time.Duration { return 3 * time.Millisecond })
		time.AfterFunc(time.Millisecond, func() { h.node.interrupt(c, first) })
		next := h.collect("ECHO", "next")
		assert.True(t, next.Decided())
		assert.True(t, next.collected)
	})
}

// The rest of a reply may not come. Then the connection ends, and nobody waits for longer.
func TestADeadlineEndsTheReadOfHalfAReply(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		replyTo(h.server, named("ECHO"), "$4\r\nha")
		c := h.collect("ECHO", "half")
		assert.Equal(t, testDeadline, c.fails(Unknown, ErrTimeout).after)
		h.server.ReplyRaw(nil)
		pass(time.Second)
		assert.Equal(t, []byte("next"), h.collect("ECHO", "next").reply())
		assert.EqualValues(t, 2, h.dials.Load())
	})
}

// While callers read, nobody reads between their calls, where the end of the connection shows.
func TestTheEndOfAConnectionThatCallersReadIsNoticed(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		h.collect("ECHO", "last").reply()
		h.server.Disconnect()
		pass(3 * leftAlone)
		assert.EqualValues(t, 2, h.dials.Load(), "although nobody calls")
	})
}

func TestACallThatIsNotCollectedAsPromisedIsAnsweredYet(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		r := h.promise("ECHO", "forgotten").wait()
		require.NoError(t, r.err)
		assert.LessOrEqual(t, r.after, 2*leftAlone)
	})
}

// However a connection ends while a caller reads, its call ends once, with an unknown fate, and a
// kept call behind it is sent again: by then nobody reads the old connection.
func TestAConnectionEndsWhileACallerReads(t *testing.T) {
	for name, end := range map[string]func(h *harness){
		"reset":     func(h *harness) { h.server.Disconnect() },
		"reconnect": func(h *harness) { h.node.Reconnect(ErrRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.parked()
				h.server.Stop()
				own := h.promise("SET", "k", "v")
				kept := h.release("k")
				go func() {
					time.Sleep(time.Millisecond)
					end(h)
					h.server.Continue()
				}()
				h.node.Collect(ctx, own)
				own.fails(Unknown, nil)
				kept.wait()
				pass(time.Second)
				assert.Zero(t, h.node.Stats().Kept)
				assert.EqualValues(t, 2, h.dials.Load())
			})
		})
	}
}

func TestANodeIsClosedWhileACallerReads(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		h.server.Stop()
		go func() {
			time.Sleep(time.Millisecond)
			assert.NoError(t, h.node.Close())
		}()
		h.collect("ECHO", "cut").fails(Unknown, ErrClosed)
	})
}

// What came behind a reply that nobody asked for is nobody's, whoever reads it: the reader does not
// go on where a caller found the server out of step.
func TestNothingIsMatchedBehindWhatACallerFoundOutOfStep(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.parked()
		h.server.Stop()
		counts := Request{Words: Command("INCR", "k"), Accept: isNumber}
		others := make([]*waiter, maxBatch)
		go func() {
			time.Sleep(time.Millisecond)
			for i := range others {
				request := counts
				others[i] = h.do(false, request)
			}
			time.Sleep(time.Millisecond)
			h.server.Inject([]byte(":1\r\n+X\r\n" + strings.Repeat(":2\r\n", maxBatch-1)))
		}()
		own := h.promise("ECHO", "own")
		h.node.Collect(ctx, own)
		assert.Equal(t, int64(1), own.reply())
		for _, w := range others {
			w.fails(Unknown, nil)
		}
	})
}
