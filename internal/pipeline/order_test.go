package pipeline

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Calls that were made while a node is away, and have not timed out, keep their order, too.
func TestQueuedCallsStayInOrderOverABreak(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.CutAfterWrite(1)
		lost := h.command("SET", "a", "1")
		release := h.script(true, deleteScript, "a", "1")
		again := h.command("SET", "a", "2", "NX")
		h.requireFate(lost.wait().err, Unknown, lost.wait().err)
		release.wait()
		r := again.wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if r.err == nil {
			assert.Equal(t, "OK", r.reply, "the release came first")
		}
	})
}

func TestAnswerOfTheWrongKindBreaksTheConnection(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		accept := func(reply any) bool { return reply == nil || reply == "OK" }
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "SET" {
				return []byte(":1\r\n")
			}
			return nil
		})
		err := h.do(false, Request{Words: Command("SET", "k", "v"), Accept: accept}).wait().err
		h.requireFate(err, Unknown, ErrProtocol)
		assert.ErrorContains(t, err, "SET was answered with int64")
	})
}

// What the reply announces would be allocated, or waited for.
func TestReplyBeyondTheLimitsIsNotWaitedFor(t *testing.T) {
	for _, announced := range []string{"$1048577\r\n", "*4097\r\n"} {
		inBubble(t, func(h *harness) {
			h.up()
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "ECHO" {
					return []byte(announced)
				}
				return nil
			})
			r := h.command("ECHO", "x").wait()
			h.requireFate(r.err, Unknown, ErrProtocol)
			assert.Zero(t, r.after)
		})
	}
}

func TestSurplusReplyIsNotTakenForAnAnswer(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Inject([]byte("+OK\r\n"))
		time.Sleep(20 * time.Millisecond)
		r := h.command("ECHO", "mine").wait()
		require.NoError(t, r.err)
		assert.Equal(t, []byte("mine"), r.reply)
		assert.EqualValues(t, 2, h.dials.Load(), "a server out of step loses its connection")
	})
}

func TestSuspendedMachineFindsItsCallsOverdue(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		w := h.do(false, Request{Words: Command("PING"), Sink: nil})
		h.clock.Suspend(time.Hour)
		r := w.wait()
		h.requireFate(r.err, Unknown, r.err)
		assert.LessOrEqual(t, r.after, time.Second)
	})
}

// disturb makes the server suffer one fault, chosen at random.
func (h *harness) disturb(random *rand.Rand) {
	switch random.IntN(7) {
	case 0:
		h.server.Stop()
		time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
		h.server.Continue()
	case 1:
		h.server.Kill()
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		h.server.Restart(true)
	case 2:
		h.server.CutAfterWrite(1 + random.IntN(5))
	case 3:
		h.server.CutReply(random.IntN(8))
	case 4:
		h.server.Inject([]byte("+OK\r\n"))
	case 5:
		h.server.Delay(func() time.Duration { return 30 * time.Millisecond }, func() time.Duration { return 90 * time.Millisecond })
		time.Sleep(200 * time.Millisecond)
		h.server.Delay(nil, nil)
	case 6:
		h.server.Mute(true)
		time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
		h.server.Mute(false)
	}
}

// Many callers share a server that is stopped, cut, killed and restarted all the time. Every call
// ends once and in time, and no answer is another's. A surplus status that comes while a text is
// due is recognized by its kind.
func TestRandomFaultsLoseNoCallAndMixNoAnswers(t *testing.T) {
	for seed := range uint64(6) {
		inBubble(t, func(h *harness) {
			random := rand.New(rand.NewPCG(seed, 1))
			var callers sync.WaitGroup
			stop := make(chan struct{})
			for i := range 8 {
				random := rand.New(rand.NewPCG(seed, uint64(i+2)))
				callers.Go(func() {
					var told []*waiter
					defer func() {
						for _, w := range told {
							w.wait() // fails if the call has ended a second time
						}
					}()
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(random.IntN(2000)) * time.Microsecond):
						}
						text := fmt.Sprintf("%d/%d", i, n)
						w := h.do(false, Request{Words: Command("ECHO", text), Accept: isText})
						told = append(told, w)
						r := w.wait()
						if r.err == nil {
							assert.Equal(t, []byte(text), r.reply)
						}
						assert.LessOrEqual(t, r.after, testDeadline+minTick, "%v", r.err)
					}
				})
			}
			for range 60 {
				h.disturb(random)
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			close(stop)
			callers.Wait()
			time.Sleep(5 * time.Second)
			h.server.CutAfterWrite(0)
			h.command("PING").wait() // it takes the one cut reply that may be left
			h.up()
			assert.Zero(t, h.node.Stats().Waiting)
		}, WithStallTimeout(300*time.Millisecond))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
