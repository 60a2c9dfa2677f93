package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only a batch of releases may be answered by one number. To a batch that grants, one number is the
// reply of another command: the server is out of step (S10).
func TestOneSurplusNumberIsNotAGrantOfManyLocks(t *testing.T) {
	queued(t, func(h *harness, _, connect func()) {
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && cmd[2] == "3" {
				return []byte(":1\r\n") // of whatever was asked before
			}
			return nil
		})
		var calls []*waiter
		for _, key := range []string{"a", "b", "c"} {
			calls = append(calls, h.do(false, Request{Script: puts, Key: key, Words: On([]string{key}, "v"), Accept: isNumber}))
		}
		connect()
		for _, w := range calls {
			assert.ErrorIs(t, w.wait().err, ErrProtocol)
		}
	})
}

// The key of a call that is not run again may be one of several of a later call.
func TestAnUnknownScriptIsNotRunBehindALaterCallOfSeveralKeys(t *testing.T) {
	for _, refusal := range []string{"-NOSCRIPT No matching script.\r\n", "-NOPERM no permissions to access a key\r\n"} {
		queued(t, func(h *harness, _, connect func()) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "EVALSHA" && cmd[2] == "3" {
					return []byte(refusal)
				}
				return nil
			})
			h.script(false, puts, "a", "v")
			b := h.script(false, puts, "b", "v")
			h.script(false, puts, "c", "v")
			set := NewLateScript(`local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('DEL', key) end return n`)
			release := h.do(false, Request{Script: set, Key: "z", Words: On([]string{"z", "b"})})
			connect()
			require.NoError(t, release.wait().err)
			require.Error(t, b.wait().err, refusal)
			assert.NotContains(t, h.server.Keys(), "b")
		})
	}
}
