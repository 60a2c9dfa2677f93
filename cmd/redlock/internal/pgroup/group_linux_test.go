package pgroup

import (
	"os/exec"
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
func TestGroupOfZombiesIsDeadWhateverElseIsCreated(t *testing.T) {
	t.Parallel()
	before, ok := newest()
	require.True(t, ok)
	group := startGroup(t)
	assert.False(t, Dead(group))
	assert.False(t, newcomersDead(group, before), "a member that is created during the check is seen")
	clitest.WaitFor(t, "a check during which only others are created", func() bool {
		before, ok := newest()
		startGroup(t)
		return ok && newcomersDead(group, before) // not if too much happens meanwhile
	})
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL))
	clitest.WaitFor(t, "the end of the group", func() bool { return Dead(group) })
}
