//go:build unix

package job

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// Where the kernel does not adopt orphans for us, this tells their end.
func TestALeashIsSlackWhenNoDescendantIsLeft(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	attributes := &os.ProcAttr{Files: []*os.File{nil, nil, nil, r}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	l, given := newLeash(attributes)
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
