package pipeline

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

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
func forbidLoading(s *fake.Node) {
	s.RefuseWith("NOPERM this user has no permissions to run the 'script|load' command", "SCRIPT")
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
	inBubbleOn(t, forbidLoading, func(h *harness) {
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
		forbidLoading(h.server)
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

// The server does not know an extension, and the release of the same lock is already on its way.
// Run now, the extension would bring the key back after its release.
func TestUnknownScriptIsNotRunBehindALaterCallOfItsKey(t *testing.T) {
	inBubble(t, func(h *harness) {
		write := NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
		require.NoError(t, h.script(false, deleteScript, "x", "v").wait().err) // now it is loaded
		forbidLoading(h.server)
		h.server.Stop() // until all are sent
		extend := h.script(false, write, "k", "v")
		release := h.script(false, deleteScript, "k", "v")
		other := h.script(false, write, "k2", "v")
		synctest.Wait()
		h.server.Continue()
		h.requireFate(extend.wait().err, Refused, extend.wait().err)
		assert.ErrorContains(t, extend.wait().err, "NOSCRIPT")
		require.NoError(t, release.wait().err)
		require.NoError(t, other.wait().err)
		assert.Equal(t, []string{"k2"}, h.server.Keys())
	})
}
