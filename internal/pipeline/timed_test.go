package pipeline

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
)

// timedWaiter is the Sink of a call of a timed script.
type timedWaiter struct {
	waiter

	until clock.Instant
}

func (w *timedWaiter) Until() clock.Instant { return w.until }

var lastArgument = NewLateScript(`return ARGV[#ARGV]`).Timed()

// timed calls lastArgument, whose answer is the number that it was given.
func (h *harness) timed(until clock.Instant) *timedWaiter {
	w := &timedWaiter{waiter: waiter{h: h, began: time.Now(), done: make(chan struct{})}, until: until}
	request := Request{
		Script: lastArgument, Key: "k", Words: On([]string{"k"}, "argument"),
		Sink: w, Deadline: h.clock.Now().Add(testDeadline),
	}
	h.node.Do(Call{Request: &request, Keep: true})
	return w
}

// timedRuns returns the commands that ran lastArgument, in order.
func (h *harness) timedRuns() (runs []fake.Command) {
	for _, command := range h.server.Commands() {
		if strings.HasPrefix(command.Args[0], "EVAL") && len(command.Args) == 6 {
			runs = append(runs, command)
		}
	}
	return runs
}

func TestTimedScriptGetsTheTimeThatIsLeftRoundedUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		for left, want := range map[time.Duration]string{
			time.Hour: "3600000", time.Millisecond: "1", time.Millisecond + 1: "2", 1: "1", 0: "0", -time.Hour: "0",
		} {
			assert.Equal(t, want, string(h.timed(h.clock.Now().Add(left)).wait().reply.([]byte)), left)
		}
	})
}

func TestTimedScriptThatIsSentAgainGetsTheTimeThatIsLeftThen(t *testing.T) {
	for name, away := range map[string]struct{ leave, back func(*fake.Node) }{
		"killed, before it was sent": {(*fake.Node).Kill, func(n *fake.Node) { n.Restart(true) }},
		"its reply was lost":         {func(n *fake.Node) { n.MuteReplies(true) }, func(n *fake.Node) { n.MuteReplies(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.up()
				away.leave(h.server)
				until := h.clock.Now().Add(time.Minute)
				h.timed(until)
				h.timed(until.Add(-55 * time.Second))
				time.Sleep(10 * time.Second)
				back := h.clock.Now()
				away.back(h.server)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Zero(t, h.node.Stats().Kept)
				runs := h.timedRuns()
				again := runs[len(runs)-2:]
				assert.GreaterOrEqual(t, again[0].At, back)
				left := (until.Sub(again[0].At) + time.Millisecond - 1).Milliseconds()
				assert.Equal(t, strconv.FormatInt(left, 10), again[0].Args[5])
				assert.Equal(t, "0", again[1].Args[5])
			})
		})
	}
}

func TestTimedScriptThatTheServerForgotIsSentWithItsTime(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		until := h.clock.Now().Add(time.Second)
		assert.Equal(t, "1000", string(h.timed(until).wait().reply.([]byte)))
		h.server.Do(t, "SCRIPT", "FLUSH")
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, "700", string(h.timed(until).wait().reply.([]byte)))
	})
}

func TestTimedScriptGoesByTheClockThatCountsSleep(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Kill()
		until := h.clock.Now().Add(time.Minute)
		h.timed(until)
		h.clock.Suspend(20 * time.Second)
		h.server.Restart(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		runs := h.timedRuns()
		left, err := strconv.Atoi(runs[len(runs)-1].Args[5])
		assert.NoError(t, err)
		assert.LessOrEqual(t, left, 40_000)
		assert.Greater(t, left, 38_000-1)
	})
}
