package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// init runs init and returns what it prints, and that about each master.
func (f *fleet) init(args ...string) (status int, said []string, text string) {
	f.t.Helper()
	status, text, stderr := f.line(append([]string{"init"}, args...)...)
	require.Empty(f.t, stderr)
	for l := range strings.Lines(text) {
		if endpoint, rest, found := strings.Cut(strings.TrimSpace(l), "  "); found {
			require.Less(f.t, len(said), len(f.servers), text)
			assert.Equal(f.t, f.servers[len(said)].URL(), endpoint)
			said = append(said, strings.TrimSpace(rest))
		}
	}
	require.Len(f.t, said, len(f.servers), text)
	return status, said, text
}

// Only the first client that wants a lock makes them vote.
func TestNewMastersAreToldAndStayNew(t *testing.T) {
	t.Parallel()
	f := startNew(t)
	status, _, text := f.inspect("x")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Regexp(t, `quarantined for another \S+: all masters are new: they vote once a client takes a lock`, text)
	assert.Equal(t, 3, strings.Count(text, "quarantined for another "), text)
	_, text, _ = f.line("log")
	assert.Equal(t, "No entries were found.\n", text)

	status, list, text, stderr := f.list()
	assert.Zero(t, status, stderr)
	assert.True(t, list.Complete)
	assert.False(t, list.Nodes[0].Votes)
	assert.Equal(t, "No locks.\n", text)

	s := f.watch().look(t.Context(), "")
	assert.Equal(t, []string{survey.MemberBarred, survey.MemberBarred, survey.MemberBarred}, statesOf(&s))
	assert.Contains(t, s.Masters[0].Why, "quarantined for another ")
	for _, look := range []string{"members", "members add --dry-run 127.0.0.1:1", "members max-ttl --dry-run 30s", "log", "doctor", "unlock --force --reason x y"} {
		status, _, stderr := f.line(strings.Fields(look)...)
		assert.NotEqual(t, cli.ExitUsage, status, stderr)
	}
	for _, s := range f.servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys)
	}
}

// What is missing is left out of the list, and added later.
func TestInitBeginsAClusterWithoutTheMissingMaster(t *testing.T) {
	t.Parallel()
	f := startNew(t)
	f.open(redlock.WithQuarantine(redlock.QuarantineStrict))
	require.NoError(t, f.servers[2].Kill())
	_, err := f.locker.TryLock(t.Context(), "x")
	require.ErrorIs(t, err, pool.ErrQuarantined)
	assert.ErrorContains(t, err, "redlock init")

	two := fleetOf(t, f.servers[:2])
	status, said, text := two.init("--max-ttl", "40s")
	assert.Equal(t, 0, status, text)
	assert.Equal(t, []string{"votes now", "votes now"}, said)
	assert.Contains(t, text, "Voting: 2 of 2 masters, 2 are needed.")
	clitest.WaitFor(t, "a lock", func() bool {
		_, err := f.locker.TryLock(t.Context(), "x", redlock.WithTTL(30*time.Second))
		return err == nil
	})
	status, said, _ = two.init("--max-ttl", "40s")
	assert.Equal(t, 0, status)
	assert.Equal(t, []string{"voted already", "voted already"}, said)
	status, _, stderr := two.line("init", "--max-ttl", "20s")
	assert.Equal(t, cli.ExitFailed, status)
	assert.Contains(t, stderr, "the MaxTTL of the cluster is 40s: redlock members max-ttl 20s changes it")
	for _, s := range f.servers[:2] {
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Equal(t, []string{"x"}, keys, "init leaves nothing but the masters' memory")
	}
}

func TestInitWithoutAQuorumHasItsStatus(t *testing.T) {
	t.Parallel()
	f := startNew(t)
	for _, s := range f.servers[1:] {
		require.NoError(t, s.Kill())
	}
	status, said, text := f.init()
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, said[0], "a new cluster begins when all of its masters are there, also "+f.servers[1].URL()+" and "+f.servers[2].URL())
	assert.Contains(t, text, "Voting: 0 of 3 masters, 2 are needed. For --force,", "no time is running")
}

// A lock may be missing on masters that have forgotten it, although they answer.
func TestMastersThatForgotAreNotCountedOnAndVoteWithForceOnly(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, err := f.locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	markerIs := func(node int, begin string) {
		t.Helper()
		clitest.WaitFor(t, begin, func() bool { return strings.HasPrefix(clitest.Marker(t, f.servers[node]), begin) })
	}
	forget := func(node int) {
		t.Helper()
		markerIs(node, "active ")
		require.NoError(t, f.servers[node].FlushAll())
		markerIs(node, "lost ")
	}
	forget(1)
	status, list, text, stderr := f.list()
	assert.Zero(t, status, stderr)
	assert.True(t, list.Complete)
	assert.Equal(t, []string{"x"}, namesIn(list.Locks))
	assert.True(t, list.Nodes[0].Votes)
	assert.False(t, list.Nodes[1].Votes)
	assert.Contains(t, text, f.servers[1].URL()+" does not vote, and may lack locks: quarantined for another ")
	assert.Contains(t, text, "2 of 3 masters were listed in full: every lock that is held is there.")
	status, said, text := f.init()
	assert.Equal(t, cli.ExitFailed, status, "it answers, and does not vote: %s", text)
	assert.Equal(t, "voted already", said[0])
	assert.Regexp(t, "^does not vote: quarantined for another .*it lost its keys", said[1])
	assert.Contains(t, text, "--force")

	forget(0)
	_, list, text, _ = f.list("other*")
	assert.False(t, list.Complete)
	assert.Contains(t, text, "No locks were found.")
	assert.Contains(t, text, "LOCKS MAY BE MISSING: 0 of 3 masters were listed in full, 2 are needed.")
	status, said, text = f.init("--force")
	assert.Equal(t, 0, status, text)
	assert.Equal(t, []string{"votes now", "votes now", "votes now"}, said, "two of three make a quorum of this one, too")
	assert.NotContains(t, text, "--force")
	assert.Regexp(t, "^active ", clitest.Marker(t, f.servers[0]))
}

func TestInitDoesNotTakeAReplicaForAMasterThatIsAway(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 2)
	host, port, _ := strings.Cut(servers[1].Addr(), ":")
	servers = append(servers, redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)))
	status, said, text := fleetOf(t, servers).init()
	assert.Equal(t, cli.ExitFailed, status, text)
	assert.Regexp(t, "^does not vote: .*a replica of ", said[2])
}
