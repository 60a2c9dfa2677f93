package pgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// startGroup starts a process in a group of its own. Nobody reaps it until the test ends.
func startGroup(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() //nolint:errcheck // it may have ended
		_ = cmd.Wait()         //nolint:errcheck // killed
	})
	return cmd.Process.Pid
}

// Other processes come and go. They must not hold a lock.
func TestGroupOfZombiesIsDeadOnABusyMachine(t *testing.T) {
	t.Parallel()
	group := startGroup(t)
	for range 4 {
		load := exec.Command("sh", "-c", "while :; do (:); done")
		require.NoError(t, load.Start())
		t.Cleanup(func() {
			assert.NoError(t, load.Process.Kill())
			_ = load.Wait() //nolint:errcheck // killed
		})
	}
	assert.False(t, Dead(group))
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL))
	clitest.WaitFor(t, "the end of the process", dead(group))
	said := 0
	for range 20 {
		if Dead(group) {
			said++
		}
	}
	assert.Greater(t, said, 10, "of 20 checks find nobody alive")
}

func TestMemberCreatedDuringTheCheckIsSeen(t *testing.T) {
	t.Parallel()
	group := startGroup(t)
	if last, ok := newest(); !ok || last < group || last-group > newcomerBound/2 {
		t.Skip("too many new processes here")
	}
	assert.False(t, newcomersDead(group, group-1))
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL))
	clitest.WaitFor(t, "the end of the process", dead(group))
	assert.True(t, newcomersDead(group, group-1))
}

// dead reports whether a process has ended, reaped or not.
func dead(pid int) func() bool {
	return func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, found := strings.Cut(string(stat), ") ")
		return err != nil || found && strings.HasPrefix(state, "Z")
	}
}
