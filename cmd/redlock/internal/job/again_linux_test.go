package job

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
	process "github.com/redquorum/redquorum/internal/proof/servers/child"
)

func TestMain(m *testing.M) {
	process.Play(map[string]process.Role{"again": runAgain})
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
			Clock: clock.System(), Messages: Messages{W: os.Stderr}, Grace: NewGrace(time.Hour, time.Second),
		}
		result, err := j.Run(keptLock{})
		require.NoError(self, err)
		require.Equal(self, want, result.Status)
		pgroup.AdoptOrphans(true) // a command that is continued ends it
	}
	self.Tell("all")
}

func TestCommandsFollowOneAnotherThoughOrphansOfEarlierOnesLive(t *testing.T) {
	t.Parallel()
	p := process.Start(t, process.Command("again"))
	assert.Equal(t, "all", p.Next(t))
	assert.Zero(t, p.Wait(t))
}
