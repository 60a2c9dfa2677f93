package pgroup

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// With the kernel's list of children, and without.
func TestDescendantsAreFoundInWhateverGroupOrSession(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "setsid -w sh -c 'sleep 60; :'; :")
	require.NoError(t, cmd.Start())
	others := func(p Process) bool { return p.PID != cmd.Process.Pid }
	var tree []Process
	clitest.WaitFor(t, "four processes", func() bool {
		tree, _ = Descendants(others)
		return len(tree) == 3 // setsid has become the second shell
	})
	list, ok := searched()
	require.True(t, ok)
	for i, p := range tree[1:] {
		assert.Equal(t, tree[i].PID, p.parent, "parents come first")
		same, seen := found(list, tree[i])
		require.Len(t, same, 1)
		assert.True(t, seen)
		assert.Equal(t, p.PID, same[0].PID)
	}
	assert.NotEqual(t, tree[0].Group, tree[2].Group)
	for _, p := range tree {
		require.NoError(t, p.Signal(syscall.SIGKILL))
	}
	require.Error(t, cmd.Wait())
}

func TestAProcessThatHasTheNumberOfAnotherIsNotSignalled(t *testing.T) {
	t.Parallel()
	p, ok := Look(startGroup(t))
	require.True(t, ok)
	earlier := p
	earlier.Start--
	require.NoError(t, earlier.Signal(syscall.SIGKILL))
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	clitest.WaitFor(t, "the process stops, if it is alive", func() bool {
		now, ok := Look(p.PID)
		return ok && now.Stopped() || Dead(p.Group)
	})
	require.False(t, Dead(p.Group))
	require.NoError(t, p.Signal(syscall.SIGKILL))
	clitest.WaitFor(t, "its end", func() bool { return Dead(p.Group) })
}

func TestNumbersOfNoProcessAreNobodys(t *testing.T) {
	t.Parallel()
	for _, pid := range []int{0, -1, 1 << 30, os.Getppid()} {
		p, ok := child(pid)
		assert.False(t, ok, "%v", p)
	}
}
