package redistest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoppedServerAnswersWhenItContinues(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	conn := answers(t, server.Addr())
	require.NoError(t, server.Stop())
	conn.tell("INCR counter")
	conn.isSilent()
	require.NoError(t, server.Continue())
	conn.hears(":1\r\n") // the kernel kept the command
	require.NoError(t, server.Kill())
	require.ErrorIs(t, server.Stop(), os.ErrProcessDone)
	require.ErrorIs(t, server.Continue(), os.ErrProcessDone)
}

func TestKilledWhileStoppedExecutesNothingMoreAndKnowsWhatItIsLeft(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	conn := answers(t, server.Addr())
	conn.ask("SET before 1", "+OK")
	require.NoError(t, server.Stop())
	conn.tell("SET after 1")
	require.NoError(t, server.Restart())
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Equal(t, []string{"before"}, keys)

	require.NoError(t, server.Kill())
	require.NoError(t, server.Forget())
	require.NoError(t, server.Restart())
	keys, err = server.Keys()
	require.NoError(t, err)
	assert.Empty(t, keys)
}
