//go:build unix

package run

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestAsManyCommandsRunAtOnceAsThereArePermits(t *testing.T) {
	t.Parallel()
	const permits, contenders = 3, 8
	_, urls := clitest.StartServers(t, 3)
	over := filepath.Join(t.TempDir(), "over")
	script := `echo $REDLOCK_NAME; until [ -e "$0" ]; do sleep 0.01; done`
	statuses := make(chan int, contenders)
	outputs := make([]bytes.Buffer, contenders)
	var all sync.WaitGroup
	for i := range contenders {
		cmd := clitest.Process(t, urls, "run", "--name", "s", "--permits", "3", "--no-wait", "--", "sh", "-c", script, over)
		cmd.Stdout = &outputs[i]
		require.NoError(t, cmd.Start())
		all.Go(func() { statuses <- statusOf(cmd) })
	}
	for range contenders - permits {
		assert.Equal(t, cli.ExitTaken, <-statuses)
	}
	other := clitest.Process(t, urls, "run", "--name", "s", "--permits", "2", "--", "true")
	var stderr bytes.Buffer
	other.Stderr = &stderr
	require.NoError(t, other.Start())
	assert.Equal(t, cli.ExitUsage, statusOf(other))
	assert.Contains(t, stderr.String(), `semaphore "s" has 3 permits at a quorum of nodes, not 2`)
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	all.Wait()
	var names []string
	for i := range outputs {
		names = append(names, strings.Fields(outputs[i].String())...)
	}
	slices.Sort(names)
	assert.Equal(t, []string{"s#1", "s#2", "s#3"}, names)
}

func TestABadNumberOfPermitsIsAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for _, permits := range []string{"0", "-1", "1025", "x"} {
		status, _, stderr := clitest.Run(t, []string{"redis://127.0.0.1:1"}, "run", "--name", "s", "--permits", permits, "--", "true")
		assert.Equal(t, cli.ExitUsage, status, permits)
		assert.Contains(t, stderr, "permits", permits)
	}
	status, _, stderr := clitest.Run(t, []string{"redis://127.0.0.1:1"}, "run", "--name", "s", "--permits", "3", "--at-least", "1s", "--", "true")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "--permits and --at-least")
}
