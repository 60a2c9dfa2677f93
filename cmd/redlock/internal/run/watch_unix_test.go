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
	for name, flags := range map[string][]string{"plain": {}, "quiet": {"--quiet"}, "permits": {"--permits", "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := clitest.Run(t, urls, append(append([]string{"run", "--name", "x"}, flags...), "echo", "no")...)
			assert.Equal(t, cli.ExitNoQuorum, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "NOPERM")
			assert.Contains(t, stderr, servers[2].Addr())
			assert.NotContains(t, stderr, "sesame")
		})
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

// It may be the key of something else, under a name that was mistyped: no release is to come, and a
// cron job that takes it for a conflict would never run, and never say so.
func TestKeyThatCanBeNoLockIsNoConflict(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for name, command := range map[string][]any{"lasting": {"SET", "p:lasting", "v"}, "list": {"RPUSH", "p:list", "v"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why := map[string]string{
				"lasting": "redlock: the key \"p:lasting\" does not expire: it is no lock; use another name or --key-prefix\n",
				"list":    "redlock: the key \"p:list\" is no string: it is no lock; use another name or --key-prefix\n",
			}[name]
			for _, s := range servers[1:] {
				_, err := s.Do(command[0].(string), command[1:]...)
				require.NoError(t, err)
			}
			for _, flags := range []string{
				"--no-wait --conflict-exit-code 0 --quiet", "--no-wait --shared", "--wait 2s --quiet", "--wait 1m --quiet", "--quiet",
			} {
				args := append([]string{"run", "--key-prefix", "p:", "--name", name}, strings.Fields(flags)...)
				status, stdout, stderr := clitest.Run(t, urls, append(args, "echo", "no")...)
				assert.Equal(t, cli.ExitMisnamed, status, flags)
				assert.Empty(t, stdout)
				assert.Equal(t, why, stderr, flags)
			}
			_, _, stderr := clitest.Run(t, urls, "run", "--key-prefix", "p:", "--name", name, "--wait", "2s", "--json", "true")
			assert.Contains(t, stderr, `"waiting for lock \"`+name+`\", but the key \"p:`+name+`\" `)
			assert.Contains(t, stderr, `{"event":"misnamed","name":"`+name+`","message":"the key \"p:`+name+`\" `)
		})
	}
}

// One master is no quorum: the others will forget the key, or another permit is free.
func TestKeyThatCanBeNoLockOnAMinorityIsAConflict(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for i, s := range servers {
		_, err := s.Do("SET", "x", "v")
		require.NoError(t, err)
		if i > 0 {
			_, err = s.Do("PEXPIRE", "x", 60_000)
			require.NoError(t, err)
		}
		for _, key := range []string{"two#1", "one#1"} {
			_, err = s.Do("SET", key, "v")
			require.NoError(t, err)
		}
	}
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "echo", "no")
	assert.Equal(t, cli.ExitTaken, status)
	assert.Equal(t, "redlock: lock \"x\" is taken\n", stderr)

	status, _, stderr = clitest.Run(t, urls, "run", "--name", "two", "--permits", "2", "--no-wait", "true")
	assert.Zero(t, status, stderr)
	status, _, stderr = clitest.Run(t, urls, "run", "--name", "one", "--permits", "1", "--no-wait", "true")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Contains(t, stderr, `the key "one#1" does not expire`)
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
	assert.NotContains(t, stderr, "sh -c")
	status, _, stderr = clitest.Run(t, urls, "run", "--name", "x", "echo ran")
	assert.Equal(t, cli.ExitNotFound, status)
	assert.Contains(t, stderr, "not found in $PATH; for a shell line: sh -c '…'\n")
}

// The lock can be had, but the next master that fails is one too many.
func TestMasterWithoutAVoteIsNamedOnce(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	require.NoError(t, servers[1].Kill())
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "sleep", "1")
	assert.Equal(t, 0, status)
	assert.Equal(t, 1, strings.Count(stderr, "no vote from 1 of 3 masters (a quorum takes 2): "+urls[1]), stderr)
	assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
}

func TestEveryMasterWithoutAVoteIsNamed(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 5)
	require.NoError(t, servers[1].Restart())
	require.NoError(t, servers[2].Stop())
	defer func() { require.NoError(t, servers[2].Continue()) }()
	for _, seconds := range []string{"0", "2"} {
		status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "sleep", seconds)
		assert.Equal(t, 0, status)
		assert.Regexp(t, `redlock: no vote from 2 of 5 masters \(a quorum takes 3\): `+
			urls[1]+": quarantined for another .*; "+urls[2]+": (no answer yet|connected, but not ready within 1s)", stderr)
	}
}

// A wait that is given ten minutes must not be silent for ten minutes.
func TestWaitWithoutAQuorumSaysWhyFromTheStart(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartNewServers(t, 3)
	for _, s := range servers[1:] {
		require.NoError(t, s.Kill())
	}
	status, _, stderr := clitest.Run(t, urls, "run", "--name", "x", "--wait", "2s", "echo", "no")
	assert.Equal(t, cli.ExitNoQuorum, status)
	first, _, _ := strings.Cut(stderr, "\n")
	// They are new, and not all there.
	assert.Contains(t, first, `redlock: waiting for lock "x": no quorum: 0 of 3 masters vote, 2 are needed; `)
	for _, s := range servers[1:] {
		assert.Contains(t, first, s.Addr())
	}
	_, _, stderr = clitest.Run(t, urls, "run", "--name", "x", "--wait", "2s", "--quiet", "echo", "no")
	assert.NotContains(t, stderr, "waiting for")
}
