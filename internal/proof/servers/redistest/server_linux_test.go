package redistest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Stopped, killed, restarted: what it executes and what it knows then.
func TestAServerGoesOnWithWhatItIsLeft(t *testing.T) {
	t.Parallel()
	for _, durable := range []string{"yes", "no"} {
		server := StartOne(t, WithArgs("--appendonly", durable, "--appendfsync", "always"))
		addr, pid := server.Addr(), server.Pid()
		conn := answers(t, addr)
		require.NoError(t, server.Stop())
		conn.tell("INCR counter")
		conn.isSilent()
		require.NoError(t, server.Continue())
		conn.hears(":1\r\n") // the kernel kept the command

		require.NoError(t, server.Stop())
		conn.tell("SET after 1")
		require.NoError(t, server.Kill())
		require.NoError(t, server.Kill(), "a dead server is dead")
		assert.Zero(t, server.Pid())
		require.ErrorIs(t, server.Stop(), os.ErrProcessDone)
		require.ErrorIs(t, server.Continue(), os.ErrProcessDone)
		_, err := server.Do("PING")
		require.Error(t, err)
		require.NoError(t, server.Restart())
		assert.Equal(t, addr, server.Addr())
		assert.NotContains(t, []int{0, pid}, server.Pid())
		keys, err := server.Keys()
		require.NoError(t, err)
		assert.Equal(t, map[string][]string{"yes": {"counter"}, "no": {}}[durable], keys, "nothing more was executed")

		require.NoError(t, server.Kill())
		require.NoError(t, server.Forget())
		require.NoError(t, server.Restart())
		keys, err = server.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys)
	}
}
