package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// initMasters runs init and returns what it prints about each master, by endpoint.
func initMasters(t *testing.T, servers []*redistest.Server, args ...string) (status int, said map[string]string, text string) {
	t.Helper()
	status, text, stderr := line(append([]string{"init", "--nodes", strings.Join(clitest.URLs(servers), ",")}, args...)...)
	require.Empty(t, stderr)
	said = map[string]string{}
	for l := range strings.Lines(text) {
		if endpoint, rest, found := strings.Cut(strings.TrimSpace(l), "  "); found {
			said[endpoint] = strings.TrimSpace(rest)
		}
	}
	require.Len(t, said, len(servers), text)
	return status, said, text
}

func TestInitLetsNewMastersVoteAlthoughOneIsMissing(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	require.NoError(t, servers[2].Kill())
	status, said, text := initMasters(t, servers)
	assert.Equal(t, 0, status, text)
	assert.Equal(t, "votes now", said[servers[0].URL()])
	assert.Equal(t, "votes now", said[servers[1].URL()])
	assert.Contains(t, said[servers[2].URL()], "does not vote: dial tcp")
	assert.Contains(t, text, "Voting: 2 of 3 masters, 2 are needed.")

	status, said, _ = initMasters(t, servers)
	assert.Equal(t, 0, status)
	assert.Equal(t, "voted already", said[servers[0].URL()])

	l, err := redlock.New(clitest.URLs(servers), redlock.WithNodeTimeout(clitest.Patience))
	require.NoError(t, err)
	defer l.Close()
	_, err = l.TryLock(t.Context(), "x")
	require.NoError(t, err)
	for _, s := range servers[:2] {
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Equal(t, []string{"x"}, keys, "init leaves nothing but the memory marker")
	}
}

func TestInitLetsAStrictFleetBegin(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	l, err := redlock.New(clitest.URLs(servers), redlock.WithQuarantine(redlock.QuarantineStrict), redlock.WithNodeTimeout(clitest.Patience))
	require.NoError(t, err)
	defer l.Close()
	_, err = l.TryLock(t.Context(), "x")
	require.ErrorIs(t, err, pool.ErrQuarantined)
	assert.ErrorContains(t, err, "redlock init")
	status, said, text := initMasters(t, servers)
	assert.Equal(t, 0, status, text)
	for _, what := range said {
		assert.Equal(t, "votes now", what)
	}
	clitest.WaitFor(t, "a lock", func() bool {
		_, err := l.TryLock(t.Context(), "x")
		return err == nil
	})
}

func TestInitOfAMasterThatLostItsKeysTakesForce(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	l, err := redlock.New(clitest.URLs(servers))
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Lock(t.Context(), "x")
	require.NoError(t, err)
	clitest.WaitFor(t, "all markers", func() bool {
		for _, s := range servers {
			if !strings.HasPrefix(clitest.Marker(t, s), "active ") {
				return false
			}
		}
		return true
	})
	require.NoError(t, servers[0].FlushAll())
	clitest.WaitFor(t, "the holder notices", func() bool { return strings.HasPrefix(clitest.Marker(t, servers[0]), "lost ") })

	status, said, text := initMasters(t, servers)
	assert.Equal(t, cli.ExitFailed, status, "it answers, and does not vote: %s", text)
	assert.Contains(t, said[servers[0].URL()], "does not vote: quarantined for another ")
	assert.Contains(t, said[servers[0].URL()], "it lost its keys")
	assert.Equal(t, "voted already", said[servers[1].URL()])
	assert.Contains(t, text, "--force")

	status, said, text = initMasters(t, servers, "--force")
	assert.Equal(t, 0, status, text)
	assert.Equal(t, "votes now", said[servers[0].URL()])
	assert.NotContains(t, text, "--force")
	assert.True(t, strings.HasPrefix(clitest.Marker(t, servers[0]), "active "))
}

func TestInitWithoutAQuorumHasItsStatus(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	for _, s := range servers[1:] {
		require.NoError(t, s.Kill())
	}
	status, said, text := initMasters(t, servers)
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, "votes now", said[servers[0].URL()], text)
	assert.Contains(t, text, "Voting: 1 of 3 masters, 2 are needed.")
}

func TestInitDoesNotTakeAReplicaForAMasterThatIsAway(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 2)
	host, port, _ := strings.Cut(servers[1].Addr(), ":")
	servers = append(servers, redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)))
	status, said, text := initMasters(t, servers)
	assert.Equal(t, cli.ExitFailed, status, text)
	assert.Contains(t, said[servers[2].URL()], "does not vote: ")
	assert.Contains(t, said[servers[2].URL()], "a replica of ")
}

func TestInitTakesNoArgumentsAndShowsNone(t *testing.T) {
	status, stdout, stderr := line("init", "redis://:secret@host:1")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "init takes no arguments")
	assert.NotContains(t, stdout+stderr, "secret")
}
