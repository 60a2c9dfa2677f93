//go:build unix

package job

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// Where the kernel does not adopt orphans for us, this tells their end.
func TestALeashIsSlackWhenNoDescendantIsLeft(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	attributes := &os.ProcAttr{Files: []*os.File{nil, nil, nil, r}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	l, given := newLeash()
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "(read x <&3; :) &"}, attributes)
	require.NoError(t, err)
	given()
	_, err = process.Wait()
	require.NoError(t, err)
	assert.False(t, l.slack(), "the job of the shell runs")
	require.NoError(t, w.Close()) // it ends
	clitest.WaitFor(t, "the end of the leash", l.slack)
	require.NoError(t, r.Close())
}

// As without a leash, a script may use those below by number (redlock … 3>log).
// Not beside other tests, whose processes would inherit it, too.
func TestALeashLeavesOtherDescriptorsToTheCommand(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	inherited, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD, 4) // without close-on-exec, as from whoever started us
	require.NoError(t, err)
	// The number of the leash is higher, also where those up to leashFD are taken.
	attributes := &os.ProcAttr{Files: []*os.File{nil, nil, nil}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	l, given := newLeash()
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", fmt.Sprintf("echo heard >/dev/fd/%d", inherited)}, attributes)
	require.NoError(t, err)
	given()
	require.NoError(t, unix.Close(inherited))
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "heard\n", string(text))
	_, err = process.Wait()
	require.NoError(t, err)
	clitest.WaitFor(t, "the end of the leash", l.slack)
	require.NoError(t, r.Close())
}
