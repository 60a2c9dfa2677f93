package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
)

// Errors of servers that cannot run scripts, or not for this user.
const (
	noPermission = "NOPERM this user has no permissions to run the command"
	noLua        = "ERR Could not find scripting engine 'lua'"
	noCommand    = "ERR unknown command"
	noMemory     = "OOM command not allowed when used memory > 'maxmemory'."
)

func TestServerThatCannotRunScriptsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		load, short, full string // errors of SCRIPT, EVALSHA and EVAL; "" for none
		says              string // the error; "" if the server can be used
	}{
		"everything":            {"", "", "", ""},
		"no SCRIPT LOAD":        {noPermission, "", "", ""},
		"no EVAL":               {"", "", noPermission, ""},
		"no EVALSHA":            {"", noPermission, "", "EVALSHA: NOPERM"},
		"EVALSHA alone":         {noPermission, "", noPermission, "EVAL: NOPERM"},
		"none of them":          {noPermission, noPermission, noPermission, "EVALSHA: NOPERM"},
		"no Lua, Valkey":        {noLua, "NOSCRIPT No matching script.", noLua, "EVAL: ERR Could not find scripting engine"},
		"no Lua, Garnet":        {noLua, noLua, noLua, "EVALSHA: ERR Could not find scripting engine"},
		"no such commands":      {noCommand, noCommand, noCommand, "EVALSHA: ERR unknown command"},
		"forgotten in between":  {"", "NOSCRIPT No matching script.", "", ""},
		"forgotten and no EVAL": {"", "NOSCRIPT No matching script.", noPermission, "EVAL: NOPERM"},
		"for now":               {"", noMemory, "", "EVALSHA: OOM"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				if name == "EVALSHA alone" { // the script is known because of another client
					h.up()
				}
				h.server.RefuseWith(c.load, "SCRIPT")
				h.server.RefuseWith(c.short, "EVALSHA")
				h.server.RefuseWith(c.full, "EVAL")
				stats, _ := h.meet()
				if c.says == "" {
					assert.Equal(t, Up, stats.State, "%v", stats.Err)
					return
				}
				require.Equal(t, Down, stats.State)
				assert.Equal(t, name != "for now", errors.Is(stats.Err, ErrNoScripts))
				assert.ErrorContains(t, stats.Err, c.says)
			})
		})
	}
}

// forbidLoading makes the node find out by NOSCRIPT that the server does not know a script.
func forbidLoading(s *fakeredis.Node) { s.RefuseWith(noPermission, "SCRIPT") }

func TestUnknownScriptIsSentInFull(t *testing.T) {
	inBubble(t, func(h *harness) {
		deleteIt := func() {
			h.command("SET", "k", "v").reply()
			assert.Equal(t, int64(1), h.script(false, deleteScript, "k", "v").reply())
		}
		deleteIt()
		h.command("SCRIPT", "FLUSH").reply()
		deleteIt()
		deleteIt()
		assert.Equal(t, []string{
			"SET", "SCRIPT", "EVALSHA", "SCRIPT",
			"SET", "EVALSHA", "EVAL",
			"SET", "SCRIPT", "EVALSHA",
		}, h.executed())
	})
	inBubbleOn(t, forbidLoading, func(h *harness) {
		for range 3 {
			h.script(false, deleteScript, "k", "v").reply()
		}
		assert.Equal(t, []string{"EVAL", "EVALSHA", "EVALSHA"}, h.executed(), "the first run loads it")
	})
}

func TestUnknownScriptsKeepTheirOrderAmongThemselvesAndBeforeWhatIsQueued(t *testing.T) {
	inBubble(t, func(h *harness) {
		appendScript := NewLateScript(`return redis.call('SET', KEYS[1], (redis.call('GET', KEYS[1]) or '') .. ARGV[1])`)
		h.up()
		forbidLoading(h.server)
		var calls []*waiter
		for i := range 9 {
			calls = append(calls, h.script(false, appendScript, "k", fmt.Sprint(i)))
		}
		for _, w := range calls {
			w.reply()
		}
		value, _, _ := h.server.Get("k")
		assert.Equal(t, "012345678", value)
	})
}

// The server does not know an extension, and the release of the same lock is already on its way.
// Run now, the extension would bring the key back after its release.
func TestUnknownScriptIsNotRunBehindALaterCallOfItsKey(t *testing.T) {
	inBubble(t, func(h *harness) {
		write := NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
		h.script(false, deleteScript, "x", "v").reply() // now it is loaded
		forbidLoading(h.server)
		h.server.Stop() // until all are sent
		extend := h.script(false, write, "k", "v")
		release := h.script(false, deleteScript, "k", "v")
		other := h.script(false, write, "k2", "v")
		synctest.Wait()
		h.server.Continue()
		assert.ErrorContains(t, extend.fails(Refused, nil).err, "NOSCRIPT")
		release.reply()
		other.reply()
		assert.Equal(t, []string{"k2"}, h.server.Keys())
	})
}

// With its refusals of two scripts, the server sends what breaks the connection. They were not run,
// and the one to keep is, later.
func TestUnknownScriptThatCannotBeSentAgainIsUnsent(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		scripts := 0
		h.server.ReplyRaw(func(cmd []string) []byte {
			switch {
			case cmd[0] == "ECHO":
				return []byte("")
			case !batchOf("1")(cmd):
				return nil
			}
			scripts++
			return []byte([]string{"", noScript + noScript + "+OK\r\n"}[scripts-1])
		})
		dropped, kept := h.script(false, deleteScript, "k", "v"), h.release("k")
		wrong := h.do(false, Request{Words: Command("ECHO", "x"), Accept: isText})
		connect()
		wrong.fails(Unknown, ErrProtocol)
		dropped.fails(Unsent, ErrProtocol)
		kept.fails(Unsent, ErrProtocol)
		assert.Equal(t, 1, h.node.Stats().Kept)
		pass(time.Second)
		assert.Zero(t, h.node.Stats().Kept)
		assert.Equal(t, "EVAL", h.executed()[len(h.executed())-1])
	})
}

func TestErrorsOfScriptsBeginWithTheCodeOfTheCommand(t *testing.T) {
	const call = "ERR Error running script (call to f_d3c21d0c2b9ca22f82737626a27bcaf5d288f99f): @user_script:1: "
	for words, want := range map[string]string{
		call + "WRONGTYPE Operation against a key holding the wrong kind of value":         "WRONGTYPE Operation against a key holding the wrong kind of value",
		call + "@user_script: 1: -READONLY You can't write against a read only replica.":   "READONLY You can't write against a read only replica.",
		call + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.": "OOM command not allowed when used memory > 'maxmemory'.",
		call + "@user_script: 1: Unknown Redis command called from Lua script":             "",
		call + "user_script:1: boom":                        "",
		"ERR Error running script (call to f_d3): no place": "",
		"ERR Error running script ":                         "",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: x, on @user_script:1.": "",
		"ERR unknown command": "",
	} {
		if want == "" {
			want = words
		}
		assert.EqualError(t, unwrapped(redis.Error(words)), want)
	}
	other := errors.New("ERR Error running script (call to f_d3): @user_script:1: WRONGTYPE not of a server")
	assert.Same(t, other, unwrapped(other))
	assert.NoError(t, unwrapped(nil))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = unwrapped(nil) }), "for a reply that is no error") //nolint:errcheck // it is nil
}

// timedWaiter is the Sink of a call of a timed script.
type timedWaiter struct {
	*waiter

	until clock.Instant
}

func (w timedWaiter) Until() clock.Instant { return w.until }

var lastArgument = NewLateScript(`return ARGV[#ARGV]`).Timed()

// timed calls lastArgument, whose answer is the number that it was given.
func (h *harness) timed(until clock.Instant) timedWaiter {
	w := timedWaiter{newWaiter(h.t), until}
	h.call(true, Request{Script: lastArgument, Key: "k", Words: On([]string{"k"}, "argument")}, w)
	return w
}

// timedRuns returns the commands that ran lastArgument, in order.
func (h *harness) timedRuns() (runs []fakeredis.Command) {
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
			assert.Equal(t, want, string(h.timed(h.clock.Now().Add(left)).reply().([]byte)), left)
		}
		until := h.clock.Now().Add(time.Second)
		h.server.Do(t, "SCRIPT", "FLUSH") // so that its text is sent
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, "700", string(h.timed(until).reply().([]byte)))
	})
}

func TestTimedScriptThatIsSentAgainGetsTheTimeThatIsLeftThen(t *testing.T) {
	restart := func(n *fakeredis.Node) { n.Restart(true) }
	for name, away := range map[string]struct {
		leave, back func(*fakeredis.Node)
		suspended   bool // the machine sleeps meanwhile
	}{
		"killed, before it was sent": {(*fakeredis.Node).Kill, restart, false},
		"killed, and suspended":      {(*fakeredis.Node).Kill, restart, true},
		"its reply was lost":         {func(n *fakeredis.Node) { n.MuteReplies(true) }, func(n *fakeredis.Node) { n.MuteReplies(false) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.up()
				away.leave(h.server)
				until := h.clock.Now().Add(time.Minute)
				h.timed(until)
				h.timed(until.Add(-55 * time.Second))
				if away.suspended {
					h.clock.Suspend(10 * time.Second)
				} else {
					time.Sleep(10 * time.Second)
				}
				back := h.clock.Now()
				away.back(h.server)
				pass(2 * time.Second)
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

// A user with SCRIPT LOAD and without EVAL is let in (TestServerThatCannotRunScriptsIsRefused).
func TestAReleaseSurvivesAFlushOfTheScriptsWithoutEVAL(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith(noPermission, "EVAL")
		h.up()
		h.command("SET", "other", "v").reply()
		assert.Equal(t, int64(1), h.script(false, deleteScript, "other", "v").reply())
		h.command("SET", "k", "v").reply()
		h.command("SCRIPT", "FLUSH").reply() // by somebody else
		h.release("k")
		pass(5 * time.Second)
		assert.Empty(t, h.server.Keys(), "a kept call arrives")
	})
}
