package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// background is a script that leaves a process running, says its number, and ends.
const background = `sleep 60 & echo $!; exit 3`

// It ignores SIGINT, so redlock ends it with SIGTERM.
func TestLockStaysWhileABackgroundJobOfTheCommandRuns(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := clitest.Start(t, c.URLs(), line("x", patient+"--ttl "+lossTTL.String(), "sh", "-c", background)...)
	job := number(t, r)
	t.Cleanup(func() { _ = syscall.Kill(job, syscall.SIGKILL) }) //nolint:errcheck // it has ended, if all went well
	clitest.WaitFor(t, "the command itself ends", adopted(r.Pid(), job))
	left := func() time.Duration { return inspect(t, c.URLs(), "x").Nodes[0].TTL }
	before := left()
	clitest.WaitFor(t, "the lock is renewed", func() bool {
		now := left()
		renewed := now > before
		before = now
		return renewed
	})
	l := cluster.NewConnected(t, c.URLs())
	clitest.WaitFor(t, "the history tells that a helper has the lock", func() bool {
		now := history(t, l, "x", admin.KindBegan)
		at := now[len(now)-1]
		return len(now) == 1 && at.Status != nil && *at.Status == 3 &&
			at.Why == fmt.Sprintf("the command has ended, and what it left running has the lock: process %d (sleep)", job)
	})
	status, _, stderr := run(t, c.URLs(), line("x", "--no-wait", "true")...)
	assert.Equal(t, cli.ExitTaken, status)
	assert.Contains(t, stderr, fmt.Sprintf("; the command has ended, and what it left running has the lock: process %d (sleep)\n", job))
	require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGINT))
	status, stderr = r.End(t)
	assert.Equal(t, 3, status, "the status is the command's own")
	assert.Contains(t, stderr, `the command has ended; lock "x" is held until what it left running has ended too`)
	assert.True(t, dead(job)())
	release(t, hold(t, c.URLs(), "x", "--no-wait"))
}

func TestAReplacedRunEndsWhatItsCommandLeftRunning(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := clitest.Start(t, c.URLs(), line("x", patient+"--ttl 3s", "sh", "-c", background)...)
	left := number(t, r)
	status, stdout, stderr := run(t, c.URLs(), line("x", patient+"--replace", "kill", "-0", strconv.Itoa(left))...)
	assert.Equal(t, 1, status, "%s%s", stdout, stderr)
	status, stderr = r.End(t)
	assert.Equal(t, 3, status, stderr)
}

// adopted reports whether a process has lost its parent, and has this one instead.
func adopted(parent, pid int) func() bool {
	return func() bool {
		_, fields, ok := pgroup.ReadStat(strconv.Itoa(pid))
		return ok && string(fields[1]) == strconv.Itoa(parent)
	}
}

// What has left the group is not waited for with --detach, nor is a zombie that nobody reaps.
func TestZombieDoesNotHoldTheLock(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	hoard := strings.Join(clitest.As("hoard"), " ")
	r := clitest.Start(t, c.URLs(), line("x", "--detach", "sh", "-c", hoard+" 2>/dev/null &")...)
	pid := number(t, r)
	status, stderr := r.End(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "what has left the group is not ended: %s", stderr)
	assert.Equal(t, 0, status)
}

// They were there before.
func TestJobsOfAShellThatBecameRedlockAreNoneOfTheCommand(t *testing.T) {
	t.Parallel()
	cmd := clitest.Command(cluster.Start(t, 1).URLs(), line("x", "--kill-rest", "sh", "-c", "setsid sleep 60 & exit 4")...)
	cmd.Args = append([]string{"sh", "-c", `sleep 60 >/dev/null 2>&1 & echo $!; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	var err error
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	r := clitest.StartCommand(t, cmd)
	pid := number(t, r)
	status, stderr := r.End(t)
	assert.Equal(t, 4, status, stderr)
	assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it runs")
}

// The first process of a container gets the orphans and must reap them.
func TestFirstProcessOfAContainerReapsTheRest(t *testing.T) {
	t.Parallel()
	cmd := clitest.Command(cluster.Start(t, 1).URLs(),
		line("x", patient, "sh", "-c", `(sleep 0.2 & sleep 0.1 & sleep 0.3) & exit 4`)...)
	cmd = clitest.Unshare(t, cmd, "--pid", "--fork", "--kill-child")
	status, stderr := clitest.StartCommand(t, cmd).End(t)
	assert.Equal(t, 4, status, stderr)
}

// What leaves the group may then be missed, which nobody expects on Linux.
func TestAMissingProcIsNeverQuiet(t *testing.T) {
	t.Parallel()
	urls := cluster.Start(t, 1).URLs()
	for flags, says := range map[string]string{"--quiet": "redlock: /proc is missing, or that of another PID namespace", "--detach": ""} {
		cmd := clitest.Command(urls, line("x", patient+flags, "sh", "-c", "exit 4")...)
		status, stderr := clitest.StartCommand(t, clitest.WithoutProc(t, cmd)).End(t)
		assert.Equal(t, 4, status, stderr)
		assert.Contains(t, stderr, says)
		assert.Equal(t, says != "", strings.Contains(stderr, "/proc"), stderr)
	}
}

// No test lets the machine sleep. A kernel timer on the clock that counts sleep wakes redlock in
// time.
func TestRunningCommandIsWatchedByAnAlarm(t *testing.T) {
	t.Parallel()
	r := hold(t, cluster.Start(t, 1).URLs(), "x", "")
	dir := fmt.Sprintf("/proc/%d/", r.Pid())
	clitest.WaitFor(t, "an alarm of more than a nap", func() bool {
		fds, err := filepath.Glob(dir + "fd/*")
		for _, fd := range fds {
			target, _ := os.Readlink(fd) //nolint:errcheck // it may be closed
			if !strings.Contains(target, "timerfd") {
				continue
			}
			text, _ := os.ReadFile(dir + "fdinfo/" + filepath.Base(fd)) //nolint:errcheck // it may be closed
			_, value, found := strings.Cut(string(text), "it_value: (")
			var seconds int
			if _, err := fmt.Sscanf(value, "%d,", &seconds); found && err == nil && strings.Contains(string(text), "clockid: 7\n") && seconds > 10 {
				return true
			}
		}
		return err != nil
	})
	release(t, r)
}
