package redistest

import (
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that records how its test ended.
type verdict struct {
	testing.TB // for the methods that are not called; always nil

	skipped, failed bool
}

func (v *verdict) Helper() {}

func (v *verdict) Skip(...any) { v.skipped = true; runtime.Goexit() }

func (v *verdict) Fatal(...any) { v.failed = true; runtime.Goexit() }

func (v *verdict) Fatalf(string, ...any) { v.failed = true; runtime.Goexit() }

// judge returns how a test that runs f ends.
func judge(f func(tb testing.TB)) *verdict {
	v, done := new(verdict), make(chan struct{})
	go func() {
		defer close(done)
		f(v)
	}()
	<-done
	return v
}

func TestRequireSkipsWithoutRedisAndFailsInCI(t *testing.T) {
	t.Setenv("CI", "true")
	if Available() {
		assert.Equal(t, &verdict{}, judge(Require))
	}
	t.Setenv(programVariable, "")
	t.Setenv("PATH", t.TempDir())
	assert.False(t, Available())
	assert.Equal(t, &verdict{failed: true}, judge(Require))
	t.Setenv("CI", "")
	assert.Equal(t, &verdict{skipped: true}, judge(Require))
	_, stop, err := Launch(1)
	require.ErrorContains(t, err, "redis-server: not in PATH")
	stop()
}

func TestChosenServerThatIsNotThereFailsTheTest(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv(programVariable, t.TempDir()+"/valkey-server")
	assert.False(t, Available(), "whatever is in PATH")
	assert.Equal(t, &verdict{failed: true}, judge(Require))
}

func TestStartedServersAreApartAndEmpty(t *testing.T) {
	t.Parallel()
	servers := Start(t, 3)
	require.Len(t, servers, 3)
	addrs, pids := map[string]bool{}, map[int]bool{}
	for _, server := range servers {
		addrs[server.Addr()], pids[server.Pid()] = true, true
		info, err := redis.String(server.Do("INFO", "server"))
		require.NoError(t, err)
		assert.Contains(t, info, "process_id:"+strconv.Itoa(server.Pid())+"\r\n")
		keys, err := server.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys)
		assert.Equal(t, "redis://"+server.Addr(), server.URL())
		assert.Empty(t, server.Socket())
	}
	assert.Len(t, addrs, 3)
	assert.Len(t, pids, 3)
}

func TestStartOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithArgs("--maxclients", "77"), WithPassword("p@ss/word"), WithUnixSocket())
	conn, err := redis.Dial("unix", server.Socket())
	require.NoError(t, err)
	defer closeQuietly(conn)
	_, err = conn.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")

	conn, err = redis.DialURL(server.URL())
	require.NoError(t, err)
	defer closeQuietly(conn)
	limit, err := redis.Strings(conn.Do("CONFIG", "GET", "maxclients"))
	require.NoError(t, err)
	assert.Equal(t, []string{"maxclients", "77"}, limit)
	_, err = server.Do("PING")
	assert.NoError(t, err)
}

func TestStartTakesAnotherPortWhereOneIsTaken(t *testing.T) {
	t.Parallel()
	Require(t)
	rival := StartOne(t)
	mutePort, err := ports.pick()
	require.NoError(t, err)
	defer ports.release(mutePort)
	mute, err := net.Listen("tcp", address(mutePort))
	require.NoError(t, err)
	defer closeQuietly(mute)

	rivalPorts := []int{rival.port, mutePort}
	pick := func() (int, error) {
		if len(rivalPorts) == 0 {
			return ports.pick()
		}
		port := rivalPorts[0]
		rivalPorts = rivalPorts[1:]
		return port, nil
	}
	server := StartOne(t, func(c *config) { c.pickPort = pick })
	assert.Empty(t, rivalPorts, "both were tried")
	assert.NotEqual(t, rival.Addr(), server.Addr())
	assert.NotEqual(t, mute.Addr().String(), server.Addr())
	_, err = server.Do("PING")
	assert.NoError(t, err)
}

func TestStartGivesUpWhereEveryPortIsTaken(t *testing.T) {
	t.Parallel()
	rival := StartOne(t)
	attempts := 0
	_, stop, err := Launch(1, func(c *config) {
		c.pickPort = func() (int, error) { attempts++; return rival.port, nil }
	})
	defer stop()
	require.ErrorIs(t, err, errPortTaken)
	assert.Equal(t, startAttempts, attempts)
}

func TestLaunchErrorShowsTheLastLines(t *testing.T) {
	t.Parallel()
	Require(t)
	servers, stop, err := Launch(2, WithArgs("--no-such-directive", "yes"))
	stop()
	require.ErrorContains(t, err, "no-such-directive")
	require.ErrorContains(t, err, "exit status 1")
	assert.Nil(t, servers)
}

func TestStopOfLaunchLeavesNothing(t *testing.T) {
	t.Parallel()
	Require(t)
	servers, stop, err := Launch(2)
	require.NoError(t, err)
	stop()
	stop()
	for _, server := range servers {
		assert.Zero(t, server.Pid())
		assert.NoDirExists(t, server.dir)
		_, err := net.Dial("tcp", server.Addr())
		require.Error(t, err)
		require.ErrorContains(t, server.Restart(), "its test is over")
	}
}

func TestPortIsHandedOutOnceUntilReleased(t *testing.T) {
	t.Parallel()
	var picker portPicker
	port, err := picker.pick()
	require.NoError(t, err)
	assert.False(t, picker.reserve(port))
	picker.release(port)
	assert.True(t, picker.reserve(port))
}

func TestTemporaryDirectoryOfAFailedStartIsRemoved(t *testing.T) {
	Require(t)
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	_, err := newServer(newConfig([]Option{WithArgs("--no-such-directive", "yes")}))
	require.Error(t, err)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
