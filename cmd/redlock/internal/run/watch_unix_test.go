//go:build unix

package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// A permanent error must not look like a lock that is taken for ever.
func TestWaitEndsWhenMastersAnswerOnlyWithErrors(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for i, s := range servers {
		_, err := s.Do("ACL", "SETUSER", "narrow", "on", ">sesame", "~redquorum:*", "&*", "+@all")
		require.NoError(t, err)
		urls[i] = strings.Replace(urls[i], "redis://", "redis://narrow:sesame@", 1)
	}
	for _, flags := range [][]string{{}, {"--quiet"}, {"--permits", "2"}} {
		status, stdout, stderr := clitest.Run(t, urls, append(append([]string{"run", "--name", "x"}, flags...), "echo", "no")...)
		assert.Equal(t, cli.ExitNoQuorum, status, flags)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "NOPERM", flags)
		assert.Contains(t, stderr, servers[2].Addr(), flags)
		assert.NotContains(t, stderr, "sesame")
	}
}

func TestWaitSaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	holder := clitest.Process(t, urls, "run", "--name", "x", "--owner", "the holder", "--", "cat")
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	clitest.WaitFor(t, "the lock is held", func() bool { return inspect(t, urls, "x").Owner == "the holder" })
	_, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--wait", "2s", "echo", "no")
	assert.Contains(t, stderr, `redlock: waiting for lock "x", held by "the holder"`)
	_, _, stderr = clitest.Run(t, urls, "run", "--name", "x", "--wait", "2s", "--quiet", "echo", "no")
	assert.Empty(t, stderr)
	require.NoError(t, stdin.Close())
	assert.Equal(t, 0, clitest.Await(t, holder))
}

func TestFailureIsNeverQuiet(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for _, s := range servers[1:] {
		require.NoError(t, s.Kill())
	}
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "--conflict-exit-code", "0", "--quiet", "true")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, stderr, "no quorum")
	status, _, stderr = clitest.Run(t, urls, "run", "--name", "x", "--quiet", "redlock-test-no-such-command")
	assert.Equal(t, cli.ExitNotFound, status)
	assert.Contains(t, stderr, "not found")
}

// The lock can be had, but the next master that fails is one too many.
func TestMasterWithoutAVoteIsNamedOnce(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	clitest.Admit(t, urls...)
	require.NoError(t, servers[1].Kill())
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "sleep", "1")
	assert.Equal(t, 0, status)
	assert.Equal(t, 1, strings.Count(stderr, "no vote from 1 of 3 masters (a quorum takes 2): "+urls[1]), stderr)
	assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
}
