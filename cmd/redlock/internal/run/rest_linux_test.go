package run

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// background is a script that leaves a process running, writes its number into a file, and ends.
const background = `sleep 60 & echo $! > "$0"; exit 3`

func TestLockStaysWhileABackgroundJobOfTheCommandRuns(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--ttl", "3s", "--", "sh", "-c", background, pidFile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	pid := pidIn(t, pidFile)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) //nolint:errcheck // it has ended, if all went well
	clitest.WaitFor(t, "the command itself ends", childless(cmd.Process.Pid))
	status, _, text := clitest.Run(t, urls, "run", "--name", "x", "--wait", "4s", "true")
	assert.Equal(t, cli.ExitTaken, status, "longer than the TTL: %s", text)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	assert.Equal(t, 3, clitest.Await(t, cmd), "the status is the command's own")
	assert.Contains(t, stderr.String(), `the command has ended; lock "x" is held until what it left running has ended too`)
	status, _, text = clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "true")
	assert.Equal(t, 0, status, text)
}

// childless reports whether a process has no unreaped children.
func childless(pid int) func() bool {
	return func() bool {
		processes, err := filepath.Glob("/proc/[1-9]*")
		for _, process := range processes {
			if _, fields, ok := pgroup.ReadStat(filepath.Base(process)); ok && string(fields[1]) == strconv.Itoa(pid) {
				return false
			}
		}
		return err == nil
	}
}

func TestBackgroundJobIsKilledOnDemand(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, script := range []string{background, `trap "" TERM; ` + background} {
		pidFile := filepath.Join(t.TempDir(), "pid")
		status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--kill-rest", "--kill-after", "200ms", "--", "sh", "-c", script, pidFile)
		assert.Equal(t, 3, status, stderr)
		stderr = withoutVotes(stderr)
		if !strings.Contains(stderr, "does not end") { // that may take a second when busy
			assert.Empty(t, stderr)
		}
		assert.True(t, dead(pidIn(t, pidFile))(), "before the lock is free")
	}
}

func TestSignalsReachABackgroundJobWhenTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--", "sh", "-c", background, pidFile)
	require.NoError(t, cmd.Start())
	pid := pidIn(t, pidFile)
	clitest.WaitFor(t, "the command itself ends", childless(cmd.Process.Pid))
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT)) // which the job ignores
	assert.Equal(t, 3, clitest.Await(t, cmd))
	assert.True(t, dead(pid)())
}

func TestBackgroundJobEndsWithTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x",
		"--ttl", "6s", "--kill-after", "2s", "--max-hold", "4s", // long, for a busy machine
		"--", "sh", "-c", `trap "" TERM; `+background, pidFile)
	assert.Equal(t, cli.ExitLost, status)
	assert.Contains(t, stderr, "what the command left running gets SIGTERM now")
	assert.True(t, dead(pidIn(t, pidFile))())
}

// A zombie that nobody reaps is not waited for.
func TestZombieDoesNotHoldTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	pidFile := filepath.Join(t.TempDir(), "pid")
	hoard := strings.Join(asPart(t, "hoard", pidFile), " ")
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--", "sh", "-c", hoard+" >/dev/null 2>&1 &")
	pid := pidIn(t, pidFile)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "what has left the group is not waited for: %s", stderr)
	assert.Equal(t, 0, status)
}

// The first process of a container gets the orphans and must reap them.
func TestFirstProcessOfAContainerReapsTheRest(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "true").Run(); err != nil {
		t.Skip("no namespaces here: ", err)
	}
	_, urls := clitest.StartServers(t, 3)
	cmd := clitest.Process(t, urls)
	cmd.Args = []string{
		"unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", cmd.Path,
		"run", "--name", "x", "--", "sh", "-c", `(sleep 0.2 & sleep 0.1 & sleep 0.3) & exit 4`,
	}
	var err error
	cmd.Path, err = exec.LookPath("unshare")
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	assert.Equal(t, 4, clitest.Await(t, cmd))
}
