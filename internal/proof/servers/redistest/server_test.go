package redistest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mustDo sends a command that must succeed.
func mustDo(t *testing.T, server *Server, cmd string, args ...any) any {
	t.Helper()
	reply, err := server.Do(cmd, args...)
	require.NoError(t, err)
	return reply
}

// dial connects to an address. Every reply must come within the timeout.
func dial(t *testing.T, addr string, timeout time.Duration) redis.Conn {
	t.Helper()
	conn, err := redis.Dial("tcp", addr, redis.DialReadTimeout(timeout), redis.DialConnectTimeout(replyTimeout))
	require.NoError(t, err)
	t.Cleanup(func() { closeQuietly(conn) })
	return conn
}

// soon fails the test unless the condition becomes true soon.
func soon(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Second, 2*time.Millisecond, what)
}

func TestRestartedServerIsEmptyAndKeepsItsAddress(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	mustDo(t, server, "SET", "key", "value")
	addr, pid := server.Addr(), server.Pid()

	require.NoError(t, server.Kill())
	require.NoError(t, server.Kill(), "a dead server is dead")
	assert.Zero(t, server.Pid())
	_, err := server.Do("PING")
	require.Error(t, err)
	require.ErrorIs(t, server.Stop(), errNotRunning)
	require.ErrorIs(t, server.Continue(), errNotRunning)

	require.NoError(t, server.Restart())
	assert.Equal(t, addr, server.Addr())
	assert.NotContains(t, []int{0, pid}, server.Pid())
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestRestartOfARunningServerKeepsWhatWasMadePersistent(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	mustDo(t, server, "SET", "key", "value")
	pid := server.Pid()
	require.NoError(t, server.Restart())
	assert.NotEqual(t, pid, server.Pid())
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Equal(t, []string{"key"}, keys)
}

func TestKeysAreSortedAndFlushAllRemovesThem(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	mustDo(t, server, "MSET", "b", 1, "a", 2, "c", 3)
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, keys)
	require.NoError(t, server.FlushAll())
	keys, err = server.Keys()
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestDoDialsAgainAfterItsConnectionWasClosed(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	id := mustDo(t, server, "CLIENT", "ID")
	killer := dial(t, server.Addr(), replyTimeout)
	_, err := killer.Do("CLIENT", "KILL", "ID", id)
	require.NoError(t, err)
	count, err := redis.Int(server.Do("INCR", "counter"))
	require.NoError(t, err)
	assert.Equal(t, 1, count)
}

func TestDoReturnsTheServersRefusal(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	mustDo(t, server, "SET", "key", "value")
	id := mustDo(t, server, "CLIENT", "ID")
	_, err := server.Do("LPUSH", "key", "value")
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.Equal(t, id, mustDo(t, server, "CLIENT", "ID"), "the same connection goes on")
}

func TestServerThatEndsByItselfIsReported(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	_, err := server.Do("SHUTDOWN", "NOSAVE")
	require.Error(t, err)
	soon(t, func() bool { return server.Pid() == 0 }, "ended")
	log := new(logged)
	logCrashes(log, []*Server{server})
	assert.Equal(t, 1, log.lines)

	require.NoError(t, server.Restart())
	require.NoError(t, server.Kill())
	logCrashes(log, []*Server{server})
	assert.Equal(t, 1, log.lines, "a kill is no crash")
}

// logged is a testing.TB that counts what is logged.
type logged struct {
	testing.TB // for the methods that are not called; always nil

	lines int
}

func (l *logged) Helper() {}

func (l *logged) Logf(string, ...any) { l.lines++ }
