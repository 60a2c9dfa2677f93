package run

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() *cobra.Command { return clitest.Root(NewCommand()) }, play)
}

// open returns a Locker over the masters. It makes no new master vote.
func open(t *testing.T, urls []string) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(urls, redlock.WithQuarantine(redlock.QuarantineStrict))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	masters.AwaitVotes(t.Context(), clock.System(), l, masters.AllDecided)
	return l
}

// inspect returns what the masters hold.
func inspect(t *testing.T, urls []string, name string) redlock.Status {
	t.Helper()
	l := open(t, urls)
	require.NoError(t, l.Ready(t.Context()))
	status, err := l.Inspect(t.Context(), name)
	require.NoError(t, err)
	return status
}
