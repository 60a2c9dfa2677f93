//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// alike leaves out of a history what differs each time, and which masters were away.
func alike(text string) (lines []string) {
	text = regexp.MustCompile(`20\S+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`(after|asked for) [0-9a-z]+`).ReplaceAllString(text, "$1 LONG")
	text = regexp.MustCompile(`(?m)needed; redis://.*$`).ReplaceAllString(text, "needed; redis://")
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// What docs/operations.md shows of a job that did not run is what log says of one.
func TestThePageShowsAHistoryAsItIs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(page), "<!-- history -->\n```\n$ redlock log nightly --since 72h\n")
	require.True(t, found, "it has gone")
	shown, _, _ = strings.Cut(shown, "```\n")

	// On a busy machine, redlock may not learn in time who has a lock.
	var told string
	for range 3 {
		if told = playNightly(t); slices.Equal(alike(shown), alike(told)) {
			return
		}
	}
	assert.Equal(t, alike(shown), alike(told))
}

// playNightly does what the page tells of, and returns what log says.
func playNightly(t *testing.T) string {
	t.Helper()
	f := fleetOf(t, redistest.Start(t, 3))
	urls := clitest.URLs(f.servers)
	clitest.Admit(t, urls...)
	run := func(owner, flags string, command ...string) {
		t.Helper()
		args := append([]string{"run", "--name", "nightly", "--owner", owner}, strings.Fields(flags)...)
		clitest.Run(t, urls, append(append(args, "--"), command...)...)
	}
	hold := func() *clitest.Redlock {
		t.Helper()
		r := clitest.Start(t, urls, "run", "--name", "nightly", "--owner", "web-1", "--wait", "1m", "--", "cat")
		require.Equal(t, "on", r.Ask(t, "on"))
		clitest.WaitFor(t, "its beginning is noted", func() bool {
			_, stdout, _ := f.line("log", "nightly")
			return strings.Contains(stdout, " began ")
		})
		return r
	}
	run("web-1", "--wait 1m", "false")
	holder := hold()
	run("web-2", "--no-wait", "true")
	require.NoError(t, holder.CloseInput())
	status, stderr := holder.End(t)
	assert.Zero(t, status, stderr)
	run("web-1", "--wait 1m --ttl 2s --max-hold 1s", "sleep", "60")
	require.NoError(t, hold().Kill())
	require.NoError(t, f.servers[0].Kill())
	require.NoError(t, f.servers[1].Kill())
	run("web-2", "--wait 1s", "true")
	_, stdout, _ := f.line("log", "nightly", "--since", "72h")
	return stdout
}
