//go:build unix

package run

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/redlock"
)

// library is masters, and commands that say that they run and wait until they may end.
type library struct {
	t    *testing.T
	dir  string
	urls []string
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	_, urls := clitest.StartServers(t, 3)
	return &library{t, t.TempDir(), urls}
}

// start starts a command under the lock.
func (l *library) start(name string, flags ...string) *exec.Cmd {
	l.t.Helper()
	script := `echo $REDLOCK_FENCE > "$0.runs.new"; mv "$0.runs.new" "$0.runs"; until [ -e "$0.over" ]; do sleep 0.01; done`
	args := append([]string{"run", "--name", "x", "--owner", name}, flags...)
	cmd := clitest.Process(l.t, l.urls, append(args, "--", "sh", "-c", script, filepath.Join(l.dir, name))...)
	require.NoError(l.t, cmd.Start())
	return cmd
}

func (l *library) runs(name string) bool {
	_, err := os.Stat(filepath.Join(l.dir, name+".runs"))
	return err == nil
}

func (l *library) awaitRuns(names ...string) {
	l.t.Helper()
	for _, name := range names {
		clitest.WaitFor(l.t, name+" runs", func() bool { return l.runs(name) })
	}
}

// end lets a command end, and waits for that.
func (l *library) end(name string, cmd *exec.Cmd) {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.dir, name+".over"), nil, 0o600))
	assert.Zero(l.t, clitest.Await(l.t, cmd), name)
}

// refused runs a command that does not wait, and returns what it says.
func (l *library) refused(flags ...string) string {
	l.t.Helper()
	args := append([]string{"run", "--name", "x", "--no-wait"}, flags...)
	status, _, stderr := clitest.Run(l.t, l.urls, append(args, "--", "true")...)
	assert.Equal(l.t, cli.ExitTaken, status, stderr)
	return stderr
}

// waiting returns how many processes wait for the lock.
func (l *library) waiting(locker *redlock.Locker) (n int) {
	status, err := locker.Inspect(l.t.Context(), "x")
	require.NoError(l.t, err)
	for _, node := range status.Nodes {
		n += node.Waiting
	}
	return n
}

func TestCommandsThatShareALockRunAtOnceAndNoneBesideAWriter(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	one := l.start("one", "--shared", "--fence")
	two := l.start("two", "--shared", "--no-wait")
	l.awaitRuns("one", "two")
	fence, err := os.ReadFile(filepath.Join(l.dir, "one.runs"))
	require.NoError(t, err)
	assert.Regexp(t, "^[0-9]{16}\n$", string(fence))
	assert.Contains(t, l.refused(), `lock "x" is taken by readers`)
	l.end("one", one)
	assert.Contains(t, l.refused(), `lock "x" is taken by readers`)
	l.end("two", two)

	writer := l.start("writer")
	l.awaitRuns("writer")
	assert.Contains(t, l.refused("--shared"), `lock "x" is taken by "writer"`)
	assert.Contains(t, l.refused(), `lock "x" is taken by "writer"`)
	l.end("writer", writer)
	last := l.start("last", "--shared", "--no-wait")
	l.awaitRuns("last")
	l.end("last", last)
}

// Readers and writers wait as run does, and whoever came first runs first.
func TestAReaderWaitsBehindAWriterThatWaits(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	reader := l.start("reader", "--shared")
	l.awaitRuns("reader")
	locker := open(t, l.urls)
	writer := l.start("writer")
	clitest.WaitFor(t, "a writer waits", func() bool { return l.waiting(locker) == 1 })
	clitest.WaitFor(t, "new readers are kept out", func() bool {
		lock, err := locker.TryRLock(t.Context(), "x")
		if err == nil {
			assert.NoError(t, lock.Unlock(t.Context()))
		}
		return err != nil
	})
	assert.Contains(t, l.refused("--shared"), `lock "x" is shared, and a writer waits for it`)
	begun := time.Now()
	status, _, stderr := clitest.Run(t, l.urls, "run", "--name", "x", "--shared", "--wait", "2s", "--", "true")
	assert.Equal(t, cli.ExitTaken, status, stderr)
	assert.Contains(t, stderr, "and was for the last 2s")
	assert.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
	later := l.start("later", "--shared")
	clitest.WaitFor(t, "a reader waits, too", func() bool { return l.waiting(locker) == 2 })
	assert.False(t, l.runs("writer"))
	assert.False(t, l.runs("later"))
	l.end("reader", reader)
	l.awaitRuns("writer")
	assert.False(t, l.runs("later"))
	l.end("writer", writer)
	l.awaitRuns("later")
	l.end("later", later)
}

func TestSharedIsNeitherForPermitsNorForAMinimumTime(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--permits", "3"}, {"--at-least", "1s"}} {
		args := append([]string{"run", "--name", "x", "--shared"}, flags...)
		cmd := clitest.Process(t, []string{"redis://127.0.0.1:1"}, append(args, "--", "true")...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		assert.Equal(t, cli.ExitUsage, clitest.Await(t, cmd))
		assert.Contains(t, stderr.String(), "--shared and "+flags[0]+": give only one of them")
	}
}
