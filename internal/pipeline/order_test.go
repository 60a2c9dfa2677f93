package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that is stopped keeps a SET of the connection that was given up; when it goes on, it runs it. The release must
// come behind it, although it goes out on another connection.
func TestKeptCallComesBehindTheConnectionThatWasGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Stop()
		set := h.command("SET", "k", "v", "NX", "PX", 60_000)
		release := h.script(true, deleteScript, "k", "v")
		h.requireFate(set.wait().err, Unknown, ErrTimeout)
		h.requireFate(release.wait().err, Unknown, ErrTimeout)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, h.node.Stats().Kept)
		assert.NotEqual(t, Up, h.node.Stats().State)
		h.server.Continue()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, h.server.Keys())
		assert.Zero(t, h.node.Stats().Kept)
	}, WithStallTimeout(500*time.Millisecond))
}

func TestKeptCallIsNotLostOnAServerThatServesNobody(t *testing.T) {
	for _, words := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"LOADING Redis is loading the dataset in memory", "NOAUTH Authentication required.",
		"MISCONF Redis is configured to save RDB snapshots", "READONLY You can't write against a read only replica.",
	} {
		inBubble(t, func(h *harness) {
			h.up()
			require.NoError(t, h.command("SET", "k", "v").wait().err)
			h.server.RefuseWith(words, "EVALSHA", "EVAL")
			before := h.dials.Load()
			err := h.script(true, deleteScript, "k", "v").wait().err
			assert.ErrorContains(t, err, words)
			time.Sleep(5 * time.Second)
			assert.Less(t, h.dials.Load()-before, int64(30), "with a pause between two attempts")
			h.server.RefuseWith("", "EVALSHA", "EVAL")
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Empty(t, h.server.Keys(), words)
		})
	}
}

func TestKeptCallThatBreaksEveryConnectionIsNotSentInALoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Delay(func() time.Duration { return time.Millisecond }, nil)
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" {
				return []byte("+OK\r\n")
			}
			return nil
		})
		isInteger := func(reply any) bool { _, ok := reply.(int64); return ok }
		w := h.do(true, Request{Script: deleteScript, Key: "k", Args: deleteScript.Args(nil, []any{"k"}, "v"), Accept: isInteger})
		require.ErrorIs(t, w.wait().err, ErrProtocol)
		before := h.dials.Load()
		time.Sleep(10 * time.Second)
		assert.Less(t, h.dials.Load()-before, int64(60))
	})
}

// A SET is lost in a proxy that delays it, while the connection breaks on our side: the new connection kills the old one at the server
// before the release goes out, so the SET can never come behind it.
func TestOldConnectionIsKilledBeforeKeptCallsGoOut(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Delay(func() time.Duration { return 5 * time.Second }, nil)
		set := h.command("SET", "k", "v")
		release := h.script(true, deleteScript, "k", "v")
		synctest.Wait()
		h.server.Delay(nil, nil)
		set.wait()
		release.wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, h.server.Keys())
		names := h.executed()
		assert.Contains(t, names, "CLIENT", "CLIENT KILL")
		assert.Less(t, slices.Index(names, "CLIENT"), slices.Index(names, "EVALSHA"))
	}, WithStallTimeout(500*time.Millisecond))
}

func TestRestartedServersClientsAreNotKilled(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Restart(true) // its client numbers begin anew
		h.up()
		assert.NotContains(t, h.executed(), "CLIENT")
		assert.EqualValues(t, 2, h.dials.Load())
	})
}

func TestKeptCallIsDeliveredToANodeThatWasDown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		require.NoError(t, h.command("SET", "k", "v").wait().err)
		h.server.Kill()
		synctest.Wait()
		time.Sleep(time.Second)
		r := h.script(true, deleteScript, "k", "v").wait()
		h.requireFate(r.err, Unsent, r.err)
		assert.Zero(t, r.after, "the caller does not wait for it")
		assert.Equal(t, 1, h.node.Stats().Kept)
		time.Sleep(time.Hour)
		h.server.Restart(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, h.server.Keys())
		assert.Zero(t, h.node.Stats().Kept)
	})
}

func TestKeptCallsAreBoundedTheOldestGoFirst(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.Kill()
		require.Error(t, h.command("PING").wait().err)
		for i := range maxKept + 5 {
			h.script(true, deleteScript, fmt.Sprint(i), "v").wait()
		}
		stats := h.node.Stats()
		assert.Equal(t, maxKept, stats.Kept)
		assert.EqualValues(t, 5, stats.Dropped)
		h.server.Restart(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, h.node.Stats().Kept)
	})
}

// Calls that were made while a node is away, and have not run out of time, come in their order too.
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

func TestScriptIsLoadedOncePerConnection(t *testing.T) {
	inBubble(t, func(h *harness) {
		for range 3 {
			require.NoError(t, h.script(false, deleteScript, "k", "v").wait().err)
		}
		h.server.CutAfterWrite(1)
		require.Error(t, h.command("PING").wait().err)
		require.NoError(t, h.script(false, deleteScript, "k", "v").wait().err)
		assert.Equal(t, []string{"SCRIPT", "EVALSHA", "EVALSHA", "EVALSHA", "CLIENT", "SCRIPT", "EVALSHA"}, h.executed())
	})
}

// forbidLoading makes the node find out by NOSCRIPT that the server does not know a script.
func (h *harness) forbidLoading() {
	h.server.RefuseWith("NOPERM this user has no permissions to run the 'script|load' command", "SCRIPT")
}

func TestUnknownScriptIsSentInFull(t *testing.T) {
	inBubble(t, func(h *harness) {
		deleteIt := func() {
			require.NoError(t, h.command("SET", "k", "v").wait().err)
			r := h.script(false, deleteScript, "k", "v").wait()
			require.NoError(t, r.err)
			assert.Equal(t, int64(1), r.reply)
		}
		deleteIt()
		require.NoError(t, h.command("SCRIPT", "FLUSH").wait().err)
		deleteIt()
		deleteIt()
		assert.Equal(t, []string{
			"SET", "SCRIPT", "EVALSHA", "SCRIPT",
			"SET", "EVALSHA", "EVAL",
			"SET", "SCRIPT", "EVALSHA",
		}, h.executed())
	})
	inBubble(t, func(h *harness) {
		h.forbidLoading()
		for range 3 {
			require.NoError(t, h.script(false, deleteScript, "k", "v").wait().err)
		}
		assert.Equal(t, []string{"EVAL", "EVALSHA", "EVALSHA"}, h.executed(), "the first run loads it")
	})
}

func TestUnknownScriptsKeepTheirOrderAmongThemselvesAndBeforeWhatIsQueued(t *testing.T) {
	inBubble(t, func(h *harness) {
		appendScript := NewLateScript(`return redis.call('SET', KEYS[1], (redis.call('GET', KEYS[1]) or '') .. ARGV[1])`)
		h.up()
		h.forbidLoading()
		var calls []*waiter
		for i := range 9 {
			calls = append(calls, h.script(false, appendScript, "k", fmt.Sprint(i)))
		}
		for _, w := range calls {
			require.NoError(t, w.wait().err)
		}
		value, _, _ := h.server.Get("k")
		assert.Equal(t, "012345678", value)
	})
}

// An extension that the server did not know, with the release of the same lock already on its way: run now, it would bring
// the key back behind its release.
func TestUnknownScriptIsNotRunBehindALaterCallOfItsKey(t *testing.T) {
	inBubble(t, func(h *harness) {
		write := NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
		require.NoError(t, h.script(false, deleteScript, "x", "v").wait().err) // the server knows this one
		h.forbidLoading()
		extend := h.script(false, write, "k", "v")
		release := h.script(false, deleteScript, "k", "v")
		other := h.script(false, write, "k2", "v")
		h.requireFate(extend.wait().err, Refused, extend.wait().err)
		assert.ErrorContains(t, extend.wait().err, "NOSCRIPT")
		require.NoError(t, release.wait().err)
		require.NoError(t, other.wait().err)
		assert.Equal(t, []string{"k2"}, h.server.Keys())
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
		err := h.do(false, Request{Name: "SET", Args: []any{"k", "v"}, Accept: accept}).wait().err
		h.requireFate(err, Unknown, ErrProtocol)
		assert.ErrorContains(t, err, "SET was answered by a int64")
	})
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
		w := h.do(false, Request{Name: "PING", Sink: nil})
		h.clock.Suspend(time.Hour)
		r := w.wait()
		h.requireFate(r.err, Unknown, r.err)
		assert.LessOrEqual(t, r.after, time.Second)
	})
}

// Many callers, a server that is stopped, cut, killed and restarted all the time: every call ends once and in time, and no
// answer is another's. A surplus status that comes while a text is asked for is told by its kind.
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
							w.wait() // fails where a call has ended twice since
						}
					}()
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(random.IntN(2000)) * time.Microsecond):
						}
						text := fmt.Sprintf("%d/%d", i, n)
						w := h.do(false, Request{Name: "ECHO", Args: []any{text}, Accept: isText})
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
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			close(stop)
			callers.Wait()
			time.Sleep(5 * time.Second)
			h.server.CutAfterWrite(0)
			h.command("PING").wait() // for the one cut reply that may be left
			h.up()
			assert.Zero(t, h.node.Stats().Waiting)
		}, WithStallTimeout(300*time.Millisecond))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A server that was away has much to do. As long as it goes on answering, it is not stalled.
func TestAServerThatWorksOffABacklogIsNotGivenUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		var backlog time.Duration
		h.server.Delay(func() time.Duration { // each of them behind those before it
			backlog += 300 * time.Millisecond
			return backlog
		}, nil)
		for range 20 {
			h.script(true, deleteScript, "k", "v")
		}
		time.Sleep(10 * time.Second)
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, uint64(1), h.node.Stats().Connects)
	}, WithStallTimeout(time.Second))
}
