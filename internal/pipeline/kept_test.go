package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

// A stopped server still holds a SET of the connection that was given up, and runs it when it
// continues. The release must run after it, although it takes another connection.
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

// A proxy delays a SET while the connection breaks on our side. The new connection kills the old
// one at the server before the release goes out, so the SET can never run after it.
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

// A release has been sent, and a SET of the same value waits behind large commands when the
// connection breaks. If the release came behind the SET now, it would end a lock that is held.
func TestKeptCallGoesOutBeforeWhatWasQueuedBehindIt(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.up()
		h.server.Stop() // a writer blocks when the buffer is full, and a dial waits
		release := h.script(true, deleteScript, "k", "v")
		for range 2 { // the server reads the first of them
			h.command("ECHO", strings.Repeat("x", 2*fake.DefaultBuffer))
		}
		release.wait()
		time.Sleep(testDeadline)
		set := h.command("SET", "k", "v")
		synctest.Wait()
		require.Equal(t, Up, h.node.Stats().State, "the connection has not been given up yet")
		time.Sleep(testDeadline / 2)
		require.Equal(t, Connecting, h.node.Stats().State)
		h.server.Continue()
		require.NoError(t, set.wait().err)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, []string{"k"}, h.server.Keys())
	}, WithStallTimeout(testDeadline*5/4))
}

func TestRestartedServersClientsAreNotKilled(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Restart(true) // it numbers its clients anew
		h.up()
		assert.NotContains(t, h.executed(), "CLIENT")
		assert.EqualValues(t, 2, h.dials.Load())
	})
}

func TestKeptCallSurvivesAServerThatServesNobody(t *testing.T) {
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
		w := h.do(true, Request{Script: deleteScript, Key: "k", Words: On([]string{"k"}, "v"), Accept: isInteger})
		require.ErrorIs(t, w.wait().err, ErrProtocol)
		before := h.dials.Load()
		time.Sleep(10 * time.Second)
		assert.Less(t, h.dials.Load()-before, int64(60))
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
			h.script(true, deleteScript, "k", "v")
		}
		time.Sleep(10 * time.Second)
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, uint64(1), h.node.Stats().Connects)
	}, WithStallTimeout(time.Second))
}
