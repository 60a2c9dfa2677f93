package pipeline

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// each makes one call of a script for each key, whose answer must be a number.
func (h *harness) each(keep bool, script *Script, keys ...string) (calls []*waiter) {
	for _, key := range keys {
		calls = append(calls, h.do(keep, Request{Script: script, Key: key, Words: On([]string{key}, "v"), Accept: isNumber}))
	}
	return calls
}

// Two keys may share a bit of a [keySet], which closes a group earlier. The keys of these tests
// must not, whatever the seed of the process.
func init() {
	keys := strings.Fields("a b c z wrong theirs k0 k1 k2 k3 k4 k5 k6 k7 k8 k9")
	for share := true; share; {
		keySeed, share = maphash.MakeSeed(), false
		var set keySet
		for _, key := range keys {
			hash := maphash.String(keySeed, key)
			share = share || set.has(hash)
			set.add(hash)
		}
	}
}

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
func (h *harness) at(of kind, f func()) {
	var once sync.Once
	h.server.ReplyRaw(func(cmd []string) []byte {
		if of(cmd) {
			once.Do(f)
		}
		return nil
	})
}

// loading is the kind of commands that load the batch of a script. It is run next.
func loading(s *Script) kind {
	return func(cmd []string) bool {
		return cmd[0] == "SCRIPT" && strings.Contains(s.batch.script.encoded().text, cmd[2])
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
			assert.Equal(t, "OK", sets[i].reply())
			assert.Equal(t, []int64{1, 0}[i%5/4], releases[i].reply(), "k%d", i)
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
			assert.Equal(t, int64(1), w.reply(), "call %d", i)
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
		assert.Equal(t, int64(7), a.reply())
		assert.Equal(t, int64(7), b.reply())
		assert.Equal(t, []string{"2"}, h.runs())
	})
}

// To a call by itself such a script answers with an array of one, and so it does to each of
// several.
func TestAScriptThatIsItsOwnBatchAnswersEachCallWithAnArray(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		script := NewScript("local all = {} for i, key in ipairs(KEYS) do all[i] = ARGV[i] .. key end return all")
		script.Batch(script, 1, 8)
		var calls []*waiter
		for _, key := range []string{"a", "b"} {
			calls = append(calls, h.do(false, Request{Script: script, Key: key, Words: On([]string{key}, "v")}))
		}
		connect()
		for i, w := range calls {
			assert.Equal(t, []any{[]byte("v" + string("ab"[i]))}, w.wait().reply)
		}
		assert.Equal(t, []string{"2"}, h.runs())
	})
}

// Only a batch of releases may be answered by one number. To a batch that grants, one number is the
// reply of another command: the server is out of step (S10).
func TestAnAnswerThatABatchCannotHaveIsNoGrantAndBreaksTheConnection(t *testing.T) {
	for reply, granted := range map[string]int{
		":1\r\n": 0, "+1\r\n": 0, "$-1\r\n": 0, "*-1\r\n": 0, "*2\r\n:1\r\n:1\r\n": 0,
		"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n": 0, "*3\r\n:1\r\n+OK\r\n:1\r\n": 1,
	} {
		queued(t, func(h *harness, _, connect func()) {
			replyTo(h.server, batchOf("3"), reply)
			calls := h.each(false, puts, "a", "b", "c")
			connect()
			for i, w := range calls {
				if i < granted {
					w.reply()
				} else {
					w.fails(Unknown, ErrProtocol)
				}
			}
		})
	}
}

func TestAFailingKeyInABatchFailsItsCallAlone(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.command("ZADD", "wrong", "1", "x")
		h.command("SET", "a", "v")
		h.command("SET", "b", "v")
		calls := h.each(true, deletes, "a", "wrong", "b")
		connect()
		assert.Equal(t, int64(1), calls[0].reply())
		assert.Equal(t, int64(1), calls[2].reply())
		assert.ErrorContains(t, calls[1].fails(Refused, nil).err, "WRONGTYPE")
		assert.Equal(t, []string{"3"}, h.runs())
		assert.Zero(t, h.node.Stats().Kept)
	})
}

// A user may not use one of the keys. Redis then refuses the whole script.
func TestAForbiddenKeyFailsItsCallAlone(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		replyTo(h.server, func(cmd []string) bool {
			return (cmd[0] == "EVALSHA" || cmd[0] == "EVAL") && slices.Contains(cmd, "theirs")
		}, "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n")
		calls := h.each(true, puts, "a", "theirs", "b")
		connect()
		calls[0].reply()
		calls[2].reply()
		assert.ErrorContains(t, calls[1].fails(Refused, nil).err, "NOPERM")
		assert.Equal(t, []string{"3", "1", "1", "1"}, h.runs(), "together, then each by itself")
	})
}

// A master that became a replica refuses each key.
func TestABatchFindsOutThatTheServerIsAReplica(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		replyTo(h.server, batchOf("2"), "*2\r\n-READONLY You can't write against a read only replica.\r\n:0\r\n")
		calls := h.each(false, puts, "a", "b")
		connect()
		calls[0].fails(Refused, nil)
		calls[1].reply()
		synctest.Wait()
		assert.ErrorIs(t, h.node.Stats().Err, ErrReplica)
	})
}

// The server forgets its scripts: every call of the batch is run again, and in full, in one batch.
func TestAnUnknownBatchIsSentInFull(t *testing.T) {
	for _, script := range []*Script{deletes, puts} {
		queued(t, func(h *harness, _, connect func()) {
			replyTo(h.server, batchOf("3"), noScript)
			calls := append(h.each(false, script, "a", "b"), h.each(true, script, "c")...)
			connect()
			for _, w := range calls {
				w.reply()
			}
			assert.Equal(t, []string{"3", "3"}, h.runs())
			assert.Equal(t, []string{"SCRIPT", "EVALSHA", "EVAL"}, h.executed())
		})
	}
}

// An in-order call of a batch that the server did not run is not run behind a later call of its
// key, which may be one of several. The other calls of the batch are.
func TestAnUnknownBatchIsNotRunBehindALaterCallOfAKey(t *testing.T) {
	all := NewLateScript(`local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('DEL', key) end return n`)
	several := Request{Script: all, Key: "z", Words: On([]string{"z", "b"})}
	for _, c := range []struct {
		refusal string
		later   Request
	}{
		{noScript, Request{Words: Command("DEL", "b"), Key: "b"}},
		{noScript, several},
		{"-NOPERM no permissions to access a key\r\n", several},
	} {
		queued(t, func(h *harness, _, connect func()) {
			replyTo(h.server, batchOf("3"), c.refusal)
			calls := h.each(false, puts, "a", "b", "c")
			later := h.do(false, c.later)
			connect()
			later.reply()
			code, _, _ := strings.Cut(c.refusal[1:], " ")
			assert.ErrorContains(t, calls[1].fails(Refused, nil).err, code)
			calls[0].reply()
			calls[2].reply()
			assert.ElementsMatch(t, []string{"a", "c"}, h.server.Keys())
		})
	}
}

// A script of several keys is sent again like any other, unless a later call is for one of them.
func TestAnUnknownScriptOfSeveralKeysIsRunUnlessItIsOvertaken(t *testing.T) {
	write := NewScript(`redis.call('SET', KEYS[1], ARGV[1]) return redis.call('SET', KEYS[2], ARGV[1])`)
	all := NewLateScript(`local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('DEL', key) end return n`)
	for name, test := range map[string]struct {
		later Request
		runs  bool
	}{
		"another key":          {Request{Words: Command("DEL", "c"), Key: "c"}, true},
		"other keys":           {Request{Script: all, Words: On([]string{"c", "d"})}, true},
		"what writes no key":   {Request{Words: Command("PING")}, true},
		"one of its keys":      {Request{Words: Command("DEL", "b"), Key: "b"}, false},
		"its keys and another": {Request{Script: all, Words: On([]string{"c", "b", "a"})}, false},
	} {
		inBubble(t, func(h *harness) {
			h.up()
			forbidLoading(h.server)
			h.server.Stop() // until both are sent
			w := h.do(false, Request{Script: write, Words: On([]string{"a", "b"}, "v")})
			later := h.do(false, test.later)
			synctest.Wait()
			h.server.Continue()
			later.reply()
			if test.runs {
				w.reply()
				assert.ElementsMatch(t, []string{"a", "b"}, h.server.Keys(), name)
			} else {
				assert.ErrorContains(t, w.fails(Refused, nil).err, "NOSCRIPT", name)
				assert.Empty(t, h.server.Keys(), name)
			}
		})
	}
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
				h.command("SET", key, "v").reply()
			}
			hold()
			kept, lost, other := h.script(true, deletes, "a", "v"), h.script(false, deletes, "b", "v"), h.script(true, deletes, "c", "v")
			cut(h)
			connect()
			for _, w := range []*waiter{kept, lost, other} {
				w.fails(Unknown, nil)
			}
			pass(time.Second)
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
		overdue := func(in time.Duration) *waiter {
			return h.do(false, Request{Script: puts, Key: "a", Words: On([]string{"a"}, "v"), Deadline: h.clock.Now().Add(in)})
		}
		soon := overdue(time.Millisecond)
		calls := h.each(false, puts, "b", "c")
		soon.fails(Unsent, ErrTimeout)
		connect()
		for _, w := range calls {
			assert.Equal(t, int64(1), w.reply())
		}
		assert.Equal(t, []string{"2"}, h.runs())
		assert.ElementsMatch(t, []string{"b", "c"}, h.server.Keys())
	})
	queued(t, func(h *harness, _, connect func()) {
		h.at(batchOf("2"), func() { time.Sleep(10 * time.Millisecond) })
		soon := h.do(false, Request{Script: puts, Key: "a", Words: On([]string{"a"}, "v"), Deadline: h.clock.Now().Add(5 * time.Millisecond)})
		calls := h.each(false, puts, "b")
		connect()
		soon.fails(Unknown, ErrTimeout)
		assert.Equal(t, int64(1), calls[0].reply())
		assert.Equal(t, []string{"2"}, h.runs())
	})
}
