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

// replaced is a cluster of the first three of five masters, and what replaces them while a lock is
// held.
type replaced struct {
	servers []*redistest.Server
	urls    []string
	locker  *redlock.Locker
	lock    *redlock.Lock
}

func startReplaced(t *testing.T) *replaced {
	t.Helper()
	r := &replaced{servers: redistest.Start(t, 5)}
	r.urls = clitest.URLs(r.servers)
	var err error
	r.locker, err = redlock.New(r.urls[:3], redlock.WithMaxTTL(5*time.Second), redlock.WithTTL(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.locker.Close() }) // it may owe a release to a dead master
	require.NoError(t, r.locker.Ready(t.Context()))
	r.lock, err = r.locker.Lock(t.Context(), "x")
	require.NoError(t, err)
	return r
}

// members runs a command that succeeds, and returns what it prints.
func (r *replaced) members(t *testing.T, list []string, args ...string) string {
	t.Helper()
	status, text, said := line(append([]string{"members", "--nodes", strings.Join(list, ",")}, args...)...)
	assert.Zero(t, status, said)
	return text
}

// held requires that the lock has been held all the time, by the newest list in the end.
func (r *replaced) held(t *testing.T, list []string) {
	t.Helper()
	var told survey.Members
	require.NoError(t, json.Unmarshal([]byte(r.members(t, list, "--json")), &told))
	assert.Empty(t, told.List)
	var voting []string
	for _, one := range told.Members {
		assert.Equal(t, survey.MemberVotes, one.State, "%+v", one)
		voting = append(voting, one.Endpoint)
	}
	assert.ElementsMatch(t, list, voting)
	assert.NoError(t, r.lock.Err())
	require.NoError(t, r.lock.Unlock(t.Context()))
	clitest.WaitFor(t, "the newest list", func() bool { return r.locker.Stats().Version == told.Version })
}

// An operator replaces masters of a cluster that is in use. This test and the next one are the
// runbook of docs/operations.md. Here somebody begins to replace the third master, and is
// interrupted: another process goes on.
func TestAMasterIsReplacedWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	r := startReplaced(t)
	first, list := r.urls[:3], []string{r.urls[0], r.urls[1], r.urls[3]}
	interrupt(t, first, "replace", r.urls[2], r.urls[3])
	r.members(t, first, "replace", r.urls[2], r.urls[3], "--dry-run")
	text := r.members(t, first, "replace", r.urls[2], r.urls[3])
	assert.Contains(t, text, "Done: ")
	assert.Contains(t, text, r.urls[3]+" is a member (")
	assert.Contains(t, text, r.urls[2]+" is no member")
	assert.Contains(t, text, ": 3 members, 2 are needed.")

	var told survey.Members
	require.NoError(t, json.Unmarshal([]byte(r.members(t, list, "max-ttl", "1m", "--json")), &told))
	assert.Equal(t, "1m0s", told.MaxTTL)
	r.held(t, list)
}

// A dead master is removed first.
func TestADeadMasterIsReplacedWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	r := startReplaced(t)
	require.NoError(t, r.servers[1].Kill())
	text := r.members(t, r.urls[:3], "replace", r.urls[1], r.urls[4])
	assert.Regexp(t, `^Done: remove `+r.urls[1]+` \(\w+\), then add `+r.urls[4]+"\\.", text)
	text = r.members(t, r.urls[:3], "replace", r.urls[1], r.urls[4])
	assert.Regexp(t, "^Nothing to do.", text)
	r.held(t, []string{r.urls[0], r.urls[2], r.urls[4]})
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
