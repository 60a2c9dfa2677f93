package job

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// keptLock is held for ever.
type keptLock struct{}

func (keptLock) Remaining() time.Duration { return time.Hour }
func (keptLock) Err() error               { return nil }
func (keptLock) Done() <-chan struct{}    { return nil }

// play runs commands one after the other, as the first process of a container does: orphans that
// left the group of a command become its children.
func play(_ string, _ []string) int {
	pgroup.AdoptOrphans(true)
	for want := range 20 {
		j := Job{
			Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("setsid sleep 2 & exit %d", want)}, Env: os.Environ(),
			Clock: clock.System(), Messages: Messages{W: os.Stderr}, Grace: NewGrace(time.Hour, time.Second),
		}
		result, err := j.Run(keptLock{})
		if err != nil || result.Status != want {
			fmt.Println(result, err)
			return 1
		}
		pgroup.AdoptOrphans(true) // a command that is continued ends it
	}
	fmt.Print("all")
	return 0
}

func TestCommandsFollowOneAnotherThoughOrphansOfEarlierOnesLive(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), clitest.RoleVariable+"=again")
	late := time.AfterFunc(clitest.Patience, func() { _ = cmd.Process.Kill() }) //nolint:errcheck // the test fails below
	defer late.Stop()
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "all", string(out))
}
