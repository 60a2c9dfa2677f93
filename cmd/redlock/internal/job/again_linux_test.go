package job

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

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
	process "github.com/redquorum/redquorum/internal/proof/servers/child"
)

func TestMain(m *testing.M) {
	process.Play(map[string]process.Role{"again": runAgain, "leave": runLeave, "crowd": runCrowd})
	os.Exit(m.Run())
}

// keptLock is held for ever.
type keptLock struct{}

func (keptLock) Remaining() time.Duration { return time.Hour }
func (keptLock) Err() error               { return nil }
func (keptLock) Done() <-chan struct{}    { return nil }

// runAgain runs commands one after the other, as the first process of a container does: orphans
// that left the group of a command become its children.
func runAgain(self *process.Self) {
	pgroup.AdoptOrphans(true)
	for want := range 20 {
		j := Job{
			Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("setsid sleep 2 2>/dev/null & exit %d", want)}, Env: os.Environ(),
			Clock: clock.System(), Messages: Messages{W: os.Stderr}, Grace: NewGrace(time.Hour, time.Second), Detach: true,
		}
		result, err := j.Run(keptLock{})
		require.NoError(self, err)
		require.Equal(self, want, result.Status)
		pgroup.AdoptOrphans(true) // a command that is continued ends it
	}
	self.Tell("all")
}

// runLeave runs a command that leaves a process in another session, which ignores SIGTERM, and ends
// what it left.
func runLeave(self *process.Self) {
	const script = `setsid sh -c 'trap "" TERM; echo $$ >"$0"; sleep 6; echo survived >>"$0"' "$0" & until [ -s "$0" ]; do sleep 0.01; done; exit 3`
	j := Job{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script, self.Args[0]}, Env: os.Environ(), Clock: clock.System(),
		Messages: Messages{W: os.Stderr}, Grace: NewGrace(time.Hour, time.Millisecond), KillRest: true,
	}
	result, err := j.Run(keptLock{})
	require.NoError(self, err)
	self.Tell(result.Status)
}

func TestWhatHasLeftTheGroupEndsBeforeTheCommandIsOver(t *testing.T) {
	t.Parallel()
	leavesNothing(t, process.Command("leave", filepath.Join(t.TempDir(), "pid")))
}

// What is left has become a child, and the kernel knows the numbers of children.
func TestWhatHasLeftTheGroupEndsWithoutProc(t *testing.T) {
	t.Parallel()
	leavesNothing(t, clitest.WithoutProc(t, process.Command("leave", filepath.Join(t.TempDir(), "pid"))))
}

// leavesNothing starts a command that plays runLeave, and looks whether what it leaves has ended.
func leavesNothing(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	file := cmd.Args[len(cmd.Args)-1]
	p := process.Start(t, cmd)
	assert.Equal(t, "3", p.Next(t))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	left, alive := pgroup.Look(pid)
	assert.False(t, alive, "%v", left)
	_ = left.Signal(syscall.SIGKILL) //nolint:errcheck // it has ended, if all went well
}

func TestCommandsFollowOneAnotherThoughOrphansOfEarlierOnesLive(t *testing.T) {
	t.Parallel()
	p := process.Start(t, process.Command("again"))
	assert.Equal(t, "all", p.Next(t))
	assert.Zero(t, p.Wait(t))
}
