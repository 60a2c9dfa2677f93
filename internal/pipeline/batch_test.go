package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deletes is deleteScript, run for many keys at once.
var deletes = NewLateScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`).
	Batch(NewLateScript(`
	local votes = {}
	for i, key in ipairs(KEYS) do
		local holder = redis.pcall('GET', key)
		votes[i] = type(holder) == 'table' and holder or holder == ARGV[i] and redis.pcall('DEL', key) or 0
	end
	return votes`), 1, 8)

// puts writes a key if it is absent, in order.
var puts = NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0`).
	Batch(NewScript(`
	local votes = {}
	for i, key in ipairs(KEYS) do
		local set = redis.pcall('SET', key, ARGV[i], 'NX')
		votes[i] = set and (set.err and set or 1) or 0
	end
	return votes`), 1, 8)

// runs returns the scripts that the server ran, by how many keys each had.
func (h *harness) runs() (keys []string) {
	for _, c := range h.server.Commands() {
		if (c.Args[0] == "EVALSHA" || c.Args[0] == "EVAL") && c.Args[2] != "0" {
			keys = append(keys, c.Args[2])
		}
	}
	return keys
}

// at calls a function when the server is about to execute the first command of a kind.
func (h *harness) at(kind func(cmd []string) bool, f func()) {
	var once sync.Once
	h.server.ReplyRaw(func(cmd []string) []byte {
		if kind(cmd) {
			once.Do(f)
		}
		return nil
	})
}

// batchOf is the kind of commands that run a script with this many keys.
func batchOf(keys string) func(cmd []string) bool {
	return func(cmd []string) bool { return cmd[0] == "EVALSHA" && cmd[2] == keys }
}

// loading is the kind of commands that load the batch of a script. It is run next.
func loading(s *Script) func(cmd []string) bool {
	return func(cmd []string) bool {
		return cmd[0] == "SCRIPT" && strings.Contains(s.batch.script.full, cmd[2])
	}
}

func TestCallsThatWaitAreRunTogetherAndAnsweredEach(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		var sets, releases []*waiter
		for i := range 10 {
			key := fmt.Sprint("k", i)
			sets = append(sets, h.do(false, Request{Words: Command("SET", key, "v", "NX"), Key: key}))
			releases = append(releases, h.script(i%2 == 0, deletes, key, []string{"v", "other"}[i%5/4]))
		}
		connect()
		for i := range 10 {
			assert.Equal(t, "OK", sets[i].wait().reply)
			r := releases[i].wait()
			require.NoError(t, r.err)
			assert.Equal(t, []int64{1, 0}[i%5/4], r.reply, "k%d", i)
		}
		assert.Equal(t, []string{"k4", "k9"}, slices.Sorted(slices.Values(h.server.Keys())))
		assert.Equal(t, []string{"8", "2"}, h.runs(), "behind the SETs, at most eight at once")
	})
}

func TestCallsForOneKeyKeepTheirOrderAroundABatch(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		var calls []*waiter
		for i := range 3 { // lock and unlock a, b and c, three times
			for _, key := range []string{"a", "b", "c"} {
				calls = append(calls, h.script(false, puts, key, fmt.Sprint(i)), h.script(false, deletes, key, fmt.Sprint(i)))
			}
		}
		connect()
		for i, w := range calls {
			r := w.wait()
			require.NoError(t, r.err)
			assert.Equal(t, int64(1), r.reply, "call %d", i)
		}
		assert.Empty(t, h.server.Keys())
	})
}

// One integer is the answer to each.
func TestABatchIsAnsweredByOneInteger(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		script := NewScript("return 7").Batch(NewScript("return 7"), 0, 8).OneForAll()
		a, b := h.script(false, script, "a"), h.script(true, script, "b")
		connect()
		assert.Equal(t, int64(7), a.wait().reply)
		assert.Equal(t, int64(7), b.wait().reply)
		assert.Equal(t, []string{"2"}, h.runs())
	})
}

func TestAFailingKeyInABatchFailsItsCallAlone(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.command("ZADD", "wrong", "1", "x")
		h.command("SET", "a", "v")
		h.command("SET", "b", "v")
		a, wrong, b := h.script(true, deletes, "a", "v"), h.script(true, deletes, "wrong", "v"), h.script(true, deletes, "b", "v")
		connect()
		assert.Equal(t, int64(1), a.wait().reply)
		assert.Equal(t, int64(1), b.wait().reply)
		err := wrong.wait().err
		h.requireFate(err, Refused, err)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, []string{"3"}, h.runs())
		assert.Zero(t, h.node.Stats().Kept)
	})
}

// The server forgets its scripts: every call of the batch is run again, and in full, in one batch.
func TestAnUnknownBatchIsSentInFull(t *testing.T) {
	for _, script := range []*Script{deletes, puts} {
		queued(t, func(h *harness, hold, connect func()) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "EVALSHA" && cmd[2] == "3" {
					return []byte("-NOSCRIPT No matching script. Please use EVAL.\r\n")
				}
				return nil
			})
			a, b, c := h.script(false, script, "a", "v"), h.script(true, script, "b", "v"), h.script(false, script, "c", "v")
			connect()
			for _, w := range []*waiter{a, b, c} {
				require.NoError(t, w.wait().err)
			}
			assert.Equal(t, []string{"3", "3"}, h.runs())
			assert.Equal(t, []string{"SCRIPT", "EVALSHA", "EVAL"}, h.executed())
		})
	}
}

// An in-order call of a batch that the server did not know is not run behind a later call of its
// key. The other calls of the batch are.
func TestAnUnknownBatchIsNotRunBehindALaterCallOfAKey(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && cmd[2] == "3" {
				return []byte("-NOSCRIPT No matching script. Please use EVAL.\r\n")
			}
			return nil
		})
		a, b, c := h.script(false, puts, "a", "v"), h.script(false, puts, "b", "v"), h.script(false, puts, "c", "v")
		release := h.do(false, Request{Words: Command("DEL", "b"), Key: "b"})
		connect()
		require.NoError(t, a.wait().err)
		require.NoError(t, c.wait().err)
		require.NoError(t, release.wait().err)
		err := b.wait().err
		h.requireFate(err, Refused, err)
		assert.ErrorContains(t, err, "NOSCRIPT")
		assert.ElementsMatch(t, []string{"a", "c"}, h.server.Keys())
	})
}

// A user may not use one of the keys. Redis then refuses the whole script.
func TestAForbiddenKeyFailsItsCallAlone(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if (cmd[0] == "EVALSHA" || cmd[0] == "EVAL") && slices.Contains(cmd, "theirs") {
				return []byte("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n")
			}
			return nil
		})
		a, theirs, b := h.script(true, puts, "a", "v"), h.script(true, puts, "theirs", "v"), h.script(true, puts, "b", "v")
		connect()
		require.NoError(t, a.wait().err)
		require.NoError(t, b.wait().err)
		err := theirs.wait().err
		h.requireFate(err, Refused, err)
		assert.ErrorContains(t, err, "NOPERM")
		assert.Equal(t, []string{"3", "1", "1", "1"}, h.runs(), "together, then each by itself")
	})
}

// The connection breaks when the server has run a batch, before, or within its answer. Kept calls
// are delivered, and the fate of the others is unknown.
func TestABreakAtABatchLosesNoKeptCall(t *testing.T) {
	for what, cut := range map[string]func(h *harness){
		"behind": func(h *harness) { h.at(batchOf("3"), func() { h.server.CutAfterWrite(1) }) },
		"before": func(h *harness) { h.at(loading(deletes), func() { h.server.LoseRequests(1) }) },
		"within": func(h *harness) { h.at(batchOf("3"), func() { h.server.CutReply(6) }) },
	} {
		queued(t, func(h *harness, hold, connect func()) {
			connect()
			for _, key := range []string{"a", "b", "c"} {
				require.NoError(t, h.command("SET", key, "v").wait().err)
			}
			hold()
			kept, lost, other := h.script(true, deletes, "a", "v"), h.script(false, deletes, "b", "v"), h.script(true, deletes, "c", "v")
			cut(h)
			connect()
			for _, w := range []*waiter{kept, lost, other} {
				err := w.wait().err
				h.requireFate(err, Unknown, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			assert.NotContains(t, h.server.Keys(), "a", what)
			assert.NotContains(t, h.server.Keys(), "c", what)
			assert.Zero(t, h.node.Stats().Kept)
		})
	}
}

// Nobody waits any more for a call: before it is sent, it is dropped, and behind that its batch is
// answered as usual.
func TestACallThatIsOverdueIsOfNoAccountToTheOthers(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		soon := &waiter{h: h, began: time.Now(), done: make(chan struct{})}
		h.node.Do(Call{Request: &Request{
			Script: puts, Key: "a", Words: On([]string{"a"}, "v"), Sink: soon, Deadline: h.clock.Now().Add(time.Millisecond),
		}})
		b, c := h.script(false, puts, "b", "v"), h.script(false, puts, "c", "v")
		h.requireFate(soon.wait().err, Unsent, ErrTimeout)
		connect()
		assert.Equal(t, int64(1), b.wait().reply)
		assert.Equal(t, int64(1), c.wait().reply)
		assert.Equal(t, []string{"2"}, h.runs())
		assert.ElementsMatch(t, []string{"b", "c"}, h.server.Keys())
	})
	queued(t, func(h *harness, _, connect func()) {
		soon := &waiter{h: h, began: time.Now(), done: make(chan struct{})}
		h.at(batchOf("2"), func() { time.Sleep(10 * time.Millisecond) })
		h.node.Do(Call{Request: &Request{
			Script: puts, Key: "a", Words: On([]string{"a"}, "v"), Sink: soon, Deadline: h.clock.Now().Add(5 * time.Millisecond),
		}})
		b := h.script(false, puts, "b", "v")
		connect()
		h.requireFate(soon.wait().err, Unknown, ErrTimeout)
		assert.Equal(t, int64(1), b.wait().reply)
		assert.Equal(t, []string{"2"}, h.runs())
	})
}

func isNumber(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

func TestAnswersThatABatchCannotHaveBreakTheConnection(t *testing.T) {
	for _, reply := range []string{"+1\r\n", "*2\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n+OK\r\n:1\r\n", "$-1\r\n", "*-1\r\n"} {
		queued(t, func(h *harness, _, connect func()) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "EVALSHA" && cmd[2] == "3" {
					return []byte(reply)
				}
				return nil
			})
			var calls []*waiter
			for i := range 3 {
				key := fmt.Sprint(i)
				calls = append(calls, h.do(false, Request{Script: deletes, Key: key, Words: On([]string{key}, "v"), Accept: isNumber}))
			}
			connect()
			failed := 0
			for _, w := range calls {
				if err := w.wait().err; err != nil {
					h.requireFate(err, Unknown, ErrProtocol)
					failed++
				}
			}
			assert.NotZero(t, failed, "%q", reply)
		})
	}
}
