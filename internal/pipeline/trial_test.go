package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Errors of servers that cannot run scripts, or not for this user.
const (
	noPermission = "NOPERM this user has no permissions to run the command"
	noLua        = "ERR Could not find scripting engine 'lua'"
	noCommand    = "ERR unknown command"
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
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.server.RefuseWith(c.load, "SCRIPT")
				h.server.RefuseWith(c.short, "EVALSHA")
				h.server.RefuseWith(c.full, "EVAL")
				stats, _ := h.meet()
				if c.says == "" {
					assert.Equal(t, Up, stats.State, "%v", stats.Err)
					return
				}
				require.Equal(t, Down, stats.State)
				require.ErrorIs(t, stats.Err, ErrNoScripts)
				assert.ErrorContains(t, stats.Err, c.says)
			})
		})
	}
}

// The script is known because of another client, but this one could load no other script.
func TestScriptLoadedByAnotherClientDoesNotCount(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.RefuseWith(noPermission, "SCRIPT", "EVAL")
		stats, _ := h.meet()
		require.ErrorIs(t, stats.Err, ErrNoScripts)
	})
}

func TestTemporaryErrorIsNotTakenForAServerWithoutScripts(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("OOM command not allowed when used memory > 'maxmemory'.", "EVALSHA")
		stats, _ := h.meet()
		require.Equal(t, Down, stats.State)
		require.ErrorContains(t, stats.Err, "OOM")
		require.NotErrorIs(t, stats.Err, ErrNoScripts)
		h.server.RefuseWith("", "EVALSHA")
		stats, _ = h.meet()
		assert.Equal(t, Up, stats.State)
	})
}

func TestConnectionKnowsWhetherItMayLoadScripts(t *testing.T) {
	for _, words := range []string{"", noPermission} {
		inBubble(t, func(h *harness) {
			require.NoError(t, h.node.Close()) // it may have connected already
			h.server.RefuseWith(words, "SCRIPT")
			h.node = h.newNode("fake:6379")
			h.up()
			h.node.mu.Lock()
			defer h.node.mu.Unlock()
			assert.Equal(t, words == "", h.node.conn.mayLoad)
		})
	}
}

// A replica and a Sentinel are refused for what they are, whatever they answer to scripts.
func TestBeingNoMasterIsReportedBeforeMissingScripts(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.SetInfo("redis_mode", "sentinel")
		h.server.RefuseWith(noCommand, "SCRIPT", "EVALSHA", "EVAL")
		stats, _ := h.meet()
		require.ErrorIs(t, stats.Err, ErrSentinelMode)
		require.NotErrorIs(t, stats.Err, ErrNoScripts)
	})
}
