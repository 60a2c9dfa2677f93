package clitest

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Unshare makes a command run in namespaces of its own, as root there. Where that is not allowed,
// it skips the test.
func Unshare(t *testing.T, cmd *exec.Cmd, flags ...string) *exec.Cmd {
	t.Helper()
	unshare := append([]string{"unshare", "--user", "--map-root-user"}, flags...)
	if err := exec.Command(unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
		t.Skip("no namespaces here: ", err)
	}
	cmd.Args = append(append(unshare, cmd.Path), cmd.Args[1:]...)
	var err error
	cmd.Path, err = exec.LookPath(unshare[0])
	require.NoError(t, err)
	return cmd
}

// WithoutProc makes a command run where /proc is empty.
func WithoutProc(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Args = append([]string{"sh", "-c", `mount -t tmpfs none /proc && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return Unshare(t, cmd, "--mount")
}
