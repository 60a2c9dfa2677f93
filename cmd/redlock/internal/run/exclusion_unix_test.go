//go:build unix

package run

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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

const contenders = 20

// Votes split among many that ask at once must not leave the lock to nobody.
func TestOneOfTwentyAtOnceRunsTheCommand(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 5)
	dir := t.TempDir()
	over := filepath.Join(dir, "over")
	// The command lasts until the others have ended, and says that it ran.
	script := `echo ran; until [ -e "$0" ]; do sleep 0.01; done`
	statuses := make(chan int, contenders)
	outputs := make([]bytes.Buffer, contenders)
	var all sync.WaitGroup
	for i := range contenders {
		cmd := clitest.Process(t, urls, "run", "--name", "one", "--no-wait", "--", "sh", "-c", script, over)
		cmd.Stdout = &outputs[i]
		require.NoError(t, cmd.Start())
		all.Go(func() { statuses <- statusOf(cmd) })
	}
	for i := range contenders - 1 {
		if status := <-statuses; status != cli.ExitTaken {
			t.Errorf("end %d of %d: got status %d, want %d", i+1, contenders, status, cli.ExitTaken)
		}
	}
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	assert.Equal(t, 0, <-statuses, "the status of the one that ran")
	all.Wait()
	ran := 0
	for i := range outputs {
		ran += strings.Count(outputs[i].String(), "ran")
	}
	assert.Equal(t, 1, ran, "commands that ran")
}

// The same without chance: two clients hold two masters each, as they may for a moment when many
// ask at once.
func TestNoWaitDoesNotTakeSplitVotesForAHolder(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 5)
	for i, value := range []string{"one", "one", "two", "two"} {
		_, err := servers[i].Do("SET", "x", value, "PX", 500)
		require.NoError(t, err)
	}
	status, stdout, stderr := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "echo", "ran")
	assert.Equal(t, 0, status, stderr)
	assert.Equal(t, "ran\n", stdout)
	for _, s := range servers[:3] {
		_, err := s.Do("SET", "x", "one", "PX", 60_000)
		require.NoError(t, err)
	}
	status, _, stderr = clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "echo", "ran")
	assert.Equal(t, cli.ExitTaken, status, stderr)
}

// statusOf is clitest.Await for goroutines other than the test's.
func statusOf(cmd *exec.Cmd) int {
	err := cmd.Wait()
	if cmd.ProcessState == nil {
		panic(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestTwentyThatWaitRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 5)
	record := filepath.Join(t.TempDir(), "record")
	script := `begin=$(date +%s%N); sleep 0.01; echo $begin $(date +%s%N) >> "$0"`
	var all sync.WaitGroup
	for i := range contenders {
		cmd := clitest.Process(t, urls, "run", "--name", "all", "--wait", "30s", "--", "sh", "-c", script, record)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		all.Go(func() {
			if status := statusOf(cmd); status != 0 {
				t.Errorf("contender %d: got status %d, want 0", i, status)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	var times []int64
	for line := range strings.Lines(string(text)) {
		var begin, end int64
		_, err := fmt.Sscanf(line, "%d %d\n", &begin, &end)
		require.NoError(t, err, line)
		times = append(times, begin, end)
	}
	require.Len(t, times, 2*contenders)
	// The lines were written in the order in which the commands ended, so begin and end alternate
	// exactly if no two overlap.
	assert.True(t, slices.IsSorted(times), "two ran at once:\n%s", text)
}
