package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
}

// Before Redis 7, too, a release that a replica refused is delivered once the server is a master
// again.
func TestKeptScriptThatAnOlderServerRefusedIsDelivered(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.command("SET", "k", "v").wait().err)
		h.server.ReplyRaw(func(cmd []string) []byte {
			if cmd[0] == "EVALSHA" && !isTrial(cmd) {
				return []byte("-ERR Error running script (call to f_d3): @user_script:1: " +
					"@user_script: 1: -READONLY You can't write against a read only replica.\r\n")
			}
			return nil
		})
		h.server.RefuseWith("READONLY You can't write against a read only replica.", "DEL")
		w := h.script(true, deleteScript, "k", "v")
		h.requireFate(w.wait().err, Unknown, ErrRefused)
		h.server.RefuseWith("", "DEL")
		h.server.ReplyRaw(nil)
		time.Sleep(5 * time.Second)
		assert.Empty(t, h.server.Keys())
	})
}
