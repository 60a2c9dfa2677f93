package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// interrupt interrupts a change as soon as it waits, which it need not.
func interrupt(t *testing.T, urls []string, args ...string) {
	t.Helper()
	cmd := clitest.Command(urls, append([]string{"members"}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, all := bufio.NewReader(stderr), ""
	for !strings.Contains(all, "waiting: locks that may have begun before the last change") {
		text, err := said.ReadString('\n')
		all += text
		if err != nil {
			require.NoError(t, cmd.Wait(), all)
			return // nothing to wait for: the machine is slow
		}
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(said)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGINT), cmd.ProcessState.ExitCode(), "%s", rest)
	assert.Regexp(t, `redlock: interrupted( while it waited for: locks|\. Nothing is lost)`, string(rest), "it may go on meanwhile")
}

// printed is a command that a text says.
var printed = regexp.MustCompile("`redlock (run [^`]+)`")

// Whoever meets masters that lost a part of their keys is told what to do, and it helps.
func TestMastersThatLostAPartOfTheirKeysAreCuredAsIsPrinted(t *testing.T) {
	t.Parallel()
	for torn, ask := range map[int][]string{2: {"doctor", "--ttl", "4s", "--max-ttl", "4s"}, 3: {"members", "--max-ttl", "4s"}} {
		t.Run(ask[0], func(t *testing.T) {
			t.Parallel()
			servers := redistest.Start(t, 3)
			redlock := func(words ...string) (out string, err error) {
				text, err := clitest.Command(clitest.URLs(servers), words...).CombinedOutput()
				return string(text), err
			}
			out, err := redlock("run", "--name", "x", "--ttl", "4s", "--max-ttl", "4s", "--wait", "20s", "--", "true")
			require.NoError(t, err, out)
			for _, s := range servers[:torn] {
				_, err := s.Do("DEL", pipeline.RegisterKey)
				require.NoError(t, err)
			}
			out, err = redlock(ask...)
			require.Error(t, err, out)
			cure := printed.FindStringSubmatch(strings.Join(strings.Fields(out), " "))
			require.NotNil(t, cure, out)
			out, err = redlock(strings.Fields(cure[1])...)
			require.NoError(t, err, "%s: %s", cure[0], out)
			cluster.Eventually(t, time.Minute, func() string {
				out, err = redlock("members", "--max-ttl", "4s")
				if err != nil || strings.Count(out, " votes ") != 3 {
					return out
				}
				return ""
			})
		})
	}
}

// An operator replaces masters of a cluster that is in use. This test is the runbook of
// docs/operations.md.
func TestMastersAreReplacedWhileLocksAreHeld(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 5)
	urls := clitest.URLs(servers)
	locker, err := redlock.New(urls[:3], redlock.WithMaxTTL(5*time.Second), redlock.WithTTL(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close() }) // it may owe a release to the dead master
	require.NoError(t, locker.Ready(t.Context()))
	lock, err := locker.Lock(t.Context(), "x")
	require.NoError(t, err)

	members := func(list []string, args ...string) (status int, stdout, stderr string) {
		return line(append([]string{"members", "--nodes", strings.Join(list, ",")}, args...)...)
	}

	// Somebody begins to replace the third one, and is interrupted: another process goes on.
	interrupt(t, urls[:3], "replace", urls[2], urls[3])
	status, _, said := members(urls[:3], "replace", urls[2], urls[3], "--dry-run")
	assert.Zero(t, status, said)
	status, text, said := members(urls[:3], "replace", urls[2], urls[3])
	assert.Zero(t, status, said)
	assert.Contains(t, text, "Done: ")
	assert.Contains(t, text, urls[3]+" is a member (")
	assert.Contains(t, text, urls[2]+" is no member")
	assert.Contains(t, text, ": 3 members, 2 are needed.")

	// A dead one is removed first.
	require.NoError(t, servers[1].Kill())
	list := []string{urls[0], urls[1], urls[3]}
	status, text, said = members(list, "replace", urls[1], urls[4])
	assert.Zero(t, status, said)
	assert.Regexp(t, `^Done: remove `+urls[1]+` \(\w+\), then add `+urls[4]+"\\.", text)
	status, text, said = members(list, "replace", urls[1], urls[4])
	assert.Zero(t, status, said)
	assert.Regexp(t, "^Nothing to do.", text)

	var told survey.Members
	status, text, said = members([]string{urls[0], urls[3], urls[4]}, "max-ttl", "1m", "--json")
	assert.Zero(t, status, said)
	require.NoError(t, json.Unmarshal([]byte(text), &told))
	assert.Equal(t, "1m0s", told.MaxTTL)
	assert.Empty(t, told.List)
	for i, one := range told.Members {
		assert.Equal(t, survey.MemberVotes, one.State, "%+v", one)
		assert.Equal(t, []string{urls[0], urls[3], urls[4]}[i], one.Endpoint)
	}
	assert.NoError(t, lock.Err(), "the lock has been held all the time")
	require.NoError(t, lock.Unlock(t.Context()))
	clitest.WaitFor(t, "the newest list", func() bool { return locker.Stats().Version == told.Version })
}

// The masters name a member by a socket that the list does not have. Whoever may lock can make
// them.
func TestAPasswordGoesToMembersThatAreTrusted(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, redistest.WithPassword("secret"), redistest.WithUnixSocket())
	list := clitest.URLs(servers[:2])
	locker, err := redlock.New(append(list[:2:2], "unix://:secret@"+servers[2].Socket()), redlock.WithMaxTTL(3*time.Second), redlock.WithTTL(3*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locker.Close()) })
	require.NoError(t, locker.Ready(t.Context()))
	for _, command := range []string{"members", "list", "doctor", "inspect"} {
		args := []string{command, "--nodes", strings.Join(list, ",")}
		if command == "inspect" {
			args = append(args, "x")
		}
		clitest.WaitFor(t, command+" to know of the member", func() bool { // it may look before that
			_, stdout, stderr := line(args...)
			return strings.Contains(stdout+stderr, "its host is not in the list")
		})
		_, stdout, stderr := line(append(args, "--trust-members")...)
		assert.NotContains(t, stdout+stderr, "is not in the list", command)
		assert.NotContains(t, stdout+stderr, "secret", command)
	}
}
