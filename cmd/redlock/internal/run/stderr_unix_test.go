//go:build unix

package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// fullPipe returns the write end of a pipe that is full and that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	require.NoError(t, syscall.Pipe(ends[:]))
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	t.Cleanup(func() { assert.NoError(t, syscall.Close(ends[0])) })
	require.NoError(t, syscall.SetNonblock(ends[1], true))
	for chunk := bytes.Repeat([]byte("."), 4096); ; {
		_, err := syscall.Write(ends[1], chunk)
		if errors.Is(err, syscall.EAGAIN) {
			if len(chunk) == 1 {
				break
			}
			chunk = chunk[:1]
			continue
		}
		require.NoError(t, err)
	}
	require.NoError(t, syscall.SetNonblock(ends[1], false))
	file := os.NewFile(uintptr(ends[1]), "full pipe")
	t.Cleanup(func() { file.Close() })
	return file
}

// The log has to wait, the lock does not.
func TestStderrThatNobodyReadsDelaysNoRelease(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, flags := range [][]string{{"--verbose"}, {"--verbose", "--json"}} {
		cmd := clitest.Process(t, urls, append(append([]string{"run", "--name", "x"}, flags...), "--", "sh", "-c", "exit 5")...)
		cmd.Stderr = fullPipe(t)
		require.NoError(t, cmd.Start())
		assert.Equal(t, 5, clitest.Await(t, cmd))
		status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "true")
		assert.Equal(t, 0, status, stderr)
	}
	for want, args := range map[int][]string{ // messages, not the log
		cli.ExitLost:     {"run", "--name", "x", "--ttl", "1s", "--max-hold", "500ms", "sleep", "60"},
		cli.ExitNoQuorum: {"run", "--name", "x", "--nodes", "127.0.0.1:1", "--wait", "100ms", "true"},
	} {
		cmd := clitest.Process(t, urls, args...)
		cmd.Stderr = fullPipe(t)
		require.NoError(t, cmd.Start())
		assert.Equal(t, want, clitest.Await(t, cmd), args)
	}
}

// brokenPipe returns the write end of a pipe whose reader is gone.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	t.Cleanup(func() { writer.Close() })
	return writer
}

func TestStderrWhoseReaderIsGoneEndsNothing(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	ready := filepath.Join(t.TempDir(), "ready")
	holder := clitest.Process(t, urls, "run", "--name", "x", "--verbose", "--", "sh", "-c", `: > "$0"; cat; exit 5`, ready)
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	holder.Stderr = brokenPipe(t)
	require.NoError(t, holder.Start())
	clitest.WaitFor(t, "the lock is held", func() bool { return exists(ready)() || dead(holder.Process.Pid)() })
	for want, args := range map[int][]string{
		cli.ExitTaken:    {"run", "--name", "x", "--no-wait", "true"},
		cli.ExitNotFound: {"run", "--name", "y", "redlock-test-no-such-command"},
		// The signal ends the command itself, as it would without redlock.
		cli.ExitSignal + int(syscall.SIGPIPE): {"run", "--name", "y", "sh", "-c", "echo >&2; exit 1"},
	} {
		cmd := clitest.Process(t, urls, args...)
		cmd.Stderr = brokenPipe(t)
		require.NoError(t, cmd.Start())
		assert.Equal(t, want, clitest.Await(t, cmd), args)
	}
	require.NoError(t, stdin.Close())
	assert.Equal(t, 5, clitest.Await(t, holder))
}
