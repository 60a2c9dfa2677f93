package redistest

import (
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoppedServerAnswersWhenItContinues(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	conn := dial(t, server.Addr(), replyTimeout)
	require.NoError(t, server.Stop())
	send(t, conn, "INCR", "counter")
	_, err := redis.DoWithTimeout(dial(t, server.Addr(), replyTimeout), 30*time.Millisecond, "PING")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, server.Continue())
	count, err := redis.Int(conn.Receive())
	require.NoError(t, err)
	assert.Equal(t, 1, count, "the kernel kept the command")
	require.NoError(t, server.Kill())
	require.ErrorIs(t, server.Stop(), os.ErrProcessDone)
	require.ErrorIs(t, server.Continue(), os.ErrProcessDone)
}

func TestKilledWhileStoppedExecutesNothingMore(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	conn := dial(t, server.Addr(), replyTimeout)
	_, err := conn.Do("SET", "before", 1)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	send(t, conn, "SET", "after", 1)
	require.NoError(t, server.Restart())
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Equal(t, []string{"before"}, keys)
}
