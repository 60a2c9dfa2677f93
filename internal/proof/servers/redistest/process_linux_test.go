package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
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
	stopped, err := server.process.Load().stopped()
	require.NoError(t, err)
	require.True(t, stopped)

	require.NoError(t, conn.Send("INCR", "counter"))
	require.NoError(t, conn.Flush())
	_, err = redis.DoWithTimeout(dial(t, server.Addr(), replyTimeout), 30*time.Millisecond, "PING")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	require.NoError(t, server.Continue())
	count, err := redis.Int(conn.Receive())
	require.NoError(t, err)
	assert.Equal(t, 1, count, "the kernel kept the command")
}

func TestStopReturnsWhenABusyServerStandsStill(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	conn := dial(t, server.Addr(), replyTimeout)
	send(t, conn, "EVAL", "while true do end", 0)
	for range 50 {
		require.NoError(t, server.Stop())
		stopped, err := server.process.Load().stopped()
		require.NoError(t, err)
		require.True(t, stopped)
		require.NoError(t, server.Continue())
	}
}

func TestKilledWhileStoppedExecutesNothingMore(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	conn := dial(t, server.Addr(), replyTimeout)
	_, err := conn.Do("SET", "before", 1)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	require.NoError(t, conn.Send("SET", "after", 1))
	require.NoError(t, conn.Flush())
	require.NoError(t, server.Restart())
	keys, err := server.Keys()
	require.NoError(t, err)
	assert.Equal(t, []string{"before"}, keys)
}

func TestEnvironmentReachesTheServer(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithEnv("LD_PRELOAD=redistest-mark.so")) // glibc complains and goes on
	assert.Contains(t, server.process.Load().lastLines(), "redistest-mark.so")
}

// The kernel ties Pdeathsig to the thread that forked: the server must not end with the thread that
// asked for it, nor with any other thread that the runtime ends.
func TestServerOutlivesTheThreadsOfItsProcess(t *testing.T) {
	t.Parallel()
	Require(t)
	type result struct {
		server *Server
		err    error
		thread int
	}
	started := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		server, err := newServer(newConfig(nil))
		started <- result{server, err, syscall.Gettid()}
	}()
	got := <-started
	require.NoError(t, got.err)
	defer got.server.close()
	if got.thread != os.Getpid() { // the runtime keeps the main thread
		soon(t, func() bool { return !hasThread(got.thread) }, "the thread ends")
	}
	for range 64 {
		ended := make(chan int)
		go func() {
			runtime.LockOSThread()
			ended <- syscall.Gettid()
		}()
		<-ended
	}
	time.Sleep(20 * time.Millisecond) // long enough for a signal to arrive
	_, err := got.server.Do("PING")
	assert.NoError(t, err)
}

func hasThread(id int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id))
	return err == nil
}

const ownerVariable = "REDISTEST_OWNER"

// TestServerEndsWithItsKilledOwner kills a process that started a server.
func TestServerEndsWithItsKilledOwner(t *testing.T) {
	t.Parallel()
	Require(t)
	owner := exec.Command(os.Args[0], "-test.run=^TestOwnerProcess$")
	owner.Env = append(os.Environ(), ownerVariable+"=1")
	output, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, readErr := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait(), "killed")
	require.NoError(t, readErr)
	addr, dir, found := strings.Cut(strings.TrimSpace(line), " ")
	require.True(t, found, line)
	host, _, _ := strings.Cut(addr, ":")
	assert.NotEqual(t, Host(), host, "each process has an address of its own")
	assert.False(t, claim(Host()), "and nobody else gets it")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	soon(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			closeQuietly(conn)
		}
		return err != nil
	}, "the server ends")
}

// TestOwnerProcess is not a test but the process that TestServerEndsWithItsKilledOwner kills.
func TestOwnerProcess(t *testing.T) {
	if os.Getenv(ownerVariable) == "" {
		t.Skip("runs in a process of its own")
	}
	server := StartOne(t)
	fmt.Println(server.Addr(), server.dir)
	select {} // until killed
}
