package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// No test lets the machine sleep. A kernel timer on the clock that counts sleep wakes redlock in
// time.
func TestRunningCommandIsWatchedByAnAlarm(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := clitest.Process(t, urls, "run", "--name", "x", "--", "sh", "-c", `: > "$0"; read x`, ready)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	clitest.WaitFor(t, "the command runs", exists(ready))
	dir := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	clitest.WaitFor(t, "an alarm of more than a nap", func() bool {
		fds, err := filepath.Glob(dir + "fd/*")
		for _, fd := range fds {
			target, _ := os.Readlink(fd) //nolint:errcheck // it may be closed
			if !strings.Contains(target, "timerfd") {
				continue
			}
			text, _ := os.ReadFile(dir + "fdinfo/" + filepath.Base(fd)) //nolint:errcheck // it may be closed
			_, value, found := strings.Cut(string(text), "it_value: (")
			var seconds int
			if _, err := fmt.Sscanf(value, "%d,", &seconds); found && err == nil && strings.Contains(string(text), "clockid: 7\n") && seconds > 10 {
				return true
			}
		}
		return err != nil
	})
	require.NoError(t, stdin.Close())
	assert.Equal(t, 1, clitest.Await(t, cmd), "read found the end")
}
