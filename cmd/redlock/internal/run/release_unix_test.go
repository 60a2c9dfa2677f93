//go:build unix

package run

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// releaseAfter runs a command, makes a master fail meanwhile, and returns what redlock prints once
// the command has ended.
func releaseAfter(t *testing.T, urls []string, want int, fail func(), flags ...string) string {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := clitest.Process(t, urls, append(append([]string{"run", "--name", "x"}, flags...),
		"--", "sh", "-c", `: > "$0"; read x; exit $1`, ready, strconv.Itoa(want))...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	clitest.WaitFor(t, "the command runs", exists(ready))
	fail()
	require.NoError(t, stdin.Close())
	assert.Equal(t, want, clitest.Await(t, cmd))
	return withoutVotes(stderr.String())
}

// withoutVotes drops what redlock says of masters that are slow to connect on a busy machine (see
// TestMasterWithoutAVoteIsNamedOnce).
func withoutVotes(stderr string) string {
	var said strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "redlock: no vote from ") {
			said.WriteString(line)
		}
	}
	return said.String()
}

func TestMasterThatMissesTheReleaseIsNamed(t *testing.T) {
	t.Parallel()
	for _, fail := range []func(*redistest.Server) error{(*redistest.Server).Kill, (*redistest.Server).Stop} {
		servers, urls := clitest.StartServers(t, 3)
		want := `redlock: the key of lock "x" may stay for up to 30s at ` + servers[1].URL() + "\n"
		assert.Equal(t, want, releaseAfter(t, urls, 5, func() { require.NoError(t, fail(servers[1])) }))
	}
}

// Cron would mail it after each run, although the next run gets the lock all the same.
func TestMasterThatMissesTheReleaseOfACommandThatWentWellIsLoggedOnly(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	assert.Empty(t, releaseAfter(t, urls, 0, func() { require.NoError(t, servers[1].Stop()) }))
	servers, urls = clitest.StartServers(t, 3)
	assert.Contains(t, releaseAfter(t, urls, 0, func() { require.NoError(t, servers[1].Stop()) }, "--verbose"),
		`the key of lock "x" may stay for up to 30s at `+servers[1].URL())
}

func TestMasterThatNeverHadTheKeyIsNotNamed(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	require.NoError(t, servers[1].Kill())
	assert.Empty(t, releaseAfter(t, urls, 5, func() {}))
}

func TestAReleaseThatFailedIsNeverQuiet(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	stop := func() {
		require.NoError(t, servers[0].Stop())
		require.NoError(t, servers[1].Stop())
	}
	assert.Contains(t, releaseAfter(t, urls, 0, stop, "--quiet"), `lock "x" may stay for up to 30s: no quorum`)

	_, urls = clitest.StartServers(t, 3)
	gone := func() {
		held, err := open(t, urls).Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.NotEmpty(t, held.Value)
		require.NoError(t, open(t, urls).ForceUnlock(t.Context(), "x"))
	}
	assert.Contains(t, releaseAfter(t, urls, 0, gone, "--quiet"), `lock "x" was no longer ours when it was released`)
}
