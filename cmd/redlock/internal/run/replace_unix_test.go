//go:build unix

package run

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// slowly says that it runs, and takes its time to end, the end of which it writes into a file.
const slowly = `trap 'sleep 0.3; echo over >"$0"; exit 7' TERM; echo on; while :; do sleep 0.05; done`

func TestAReplacedRunHasEndedWhenTheNextBegins(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	over := filepath.Join(t.TempDir(), "over")
	first := clitest.Start(t, c.URLs(), line("x", patient+"--ttl 3s", "sh", "-c", slowly, over)...)
	require.Equal(t, "on", first.Next(t))
	// A run that replaces is replaced itself: the newest stays.
	for _, flags := range []string{"--quiet", "--owner me"} {
		next := clitest.Start(t, c.URLs(), line("x", patient+"--replace --ttl 3s "+flags, "sh", "-c", `cat "$0"; rm "$0"; `+slowly, over)...)
		require.Equal(t, "over", next.Next(t), "the command began before the other had ended")
		require.Equal(t, "on", next.Next(t))
		status, stderr := first.End(t)
		assert.Equal(t, 7, status, "the status is the command's own")
		assert.Contains(t, stderr, `this run of "x" is to be replaced by "`)
		assert.NotContains(t, stderr, "lost")
		first = next
	}
	assert.Equal(t, "me", inspect(t, c.URLs(), "x").Owner)
	ran := history(t, cluster.NewConnected(t, c.URLs()), "x", admin.KindBegan)[1]
	assert.Equal(t, "replaced by me", ran.Why)
	require.NoError(t, first.Kill())
}

// Owners that somebody chose are often the same everywhere.
func TestOfTwoThatReplaceOneReplacesTheOther(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	over := filepath.Join(t.TempDir(), "over")
	start := func() *clitest.Redlock {
		return clitest.Start(t, c.URLs(), line("x", patient+"--replace --ttl 3s --owner me", "sh", "-c", slowly, over)...)
	}
	first := start()
	require.Equal(t, "on", first.Next(t))
	a, b := start(), start()
	for _, next := range []*clitest.Redlock{a, b} {
		require.Equal(t, "on", next.Next(t)) // one of them, and then the other one
	}
	if clitest.WaitFor(t, "one is replaced", func() bool { return dead(a.Pid())() || dead(b.Pid())() }); dead(b.Pid())() {
		a = b
	}
	for _, replaced := range []*clitest.Redlock{first, a} {
		status, stderr := replaced.End(t)
		assert.Equal(t, 7, status, stderr)
	}
}

func TestACommandThatDoesNotEndIsNotReplaced(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	file := filepath.Join(t.TempDir(), "beat")
	first := clitest.Start(t, c.URLs(), append(line("x", patient+"--ttl 3s"), clitest.As("beat", file, "10ms")...)...)
	clitest.WaitFor(t, "it runs", func() bool { _, _, err := readBeat(file); return err == nil })
	asks := regexp.MustCompile(": it is asked to end\n")
	status, stdout, stderr := runUntilItSays(t, asks, c.URLs(), line("x", "--replace --wait 3s", "echo", "no")...)
	assert.Equal(t, cli.ExitTaken, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "although it was asked to end\n")
	require.NoError(t, first.Kill())
}

func TestWhoCannotBeAskedToEndIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	l := cluster.NewConnected(t, c.URLs())
	locked := func(how func(name string) error) func(name string) {
		return func(name string) { require.NoError(t, how(name)) }
	}
	for name, holder := range map[string]struct {
		has func(name string)
		why string
	}{
		"program": {locked(func(name string) error { _, err := l.TryLock(t.Context(), name); return err }), "a program, or a redlock that is older"},
		"reader":  {locked(func(name string) error { _, err := l.TryRLock(t.Context(), name); return err }), "to read"},
		"lease": {locked(func(name string) error {
			_, err := l.TryLock(t.Context(), name, redlock.WithOwner("lease;door=http;from=a:1;owner=w;token=t"))
			return err
		}), "through redlock serve"},
		"nameless": {locked(func(name string) error { _, err := l.TryLock(t.Context(), name, redlock.WithOwner("")); return err }), "by a holder without an owner, or by a program of another library"},
		"other": {func(name string) {
			_, err := c.Masters[0].Do("SET", name, "4f1f6e7c0a", "PX", "60000")
			require.NoError(t, err)
		}, "by a program of another library"},
		"leader": {func(name string) {
			e, err := election.New(l, name)
			require.NoError(t, err)
			leads := make(chan struct{})
			go e.Run(t.Context(), func(ctx context.Context, _ int64) error { close(leads); <-ctx.Done(); return nil }) //nolint:errcheck // it ends with the test
			<-leads
		}, "as the leader of an election"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder.has(name)
			status, stdout, stderr := run(t, c.URLs(), line(name, "--replace --quiet --conflict-exit-code 0", "echo", "no")...)
			assert.Equal(t, cli.ExitTaken, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, holder.why+": --replace can only ask a redlock run to end")
		})
	}
}

// Whoever asked may have died, and is still in the line.
func TestARequestEndsNoOtherRun(t *testing.T) {
	t.Parallel()
	asks := "ann@b:7 redlock run php" + replacing("its value")
	for _, c := range []struct {
		waiters [][]string
		value   string
		want    string
	}{
		{[][]string{{"me"}, {"ann@b:8 app", asks}}, "its value", "ann@b:7 redlock run php"},
		{[][]string{{asks}}, "the next value", ""},
		{[][]string{{asks + " "}, {}}, "its value", ""},
	} {
		status := admin.Status{}
		for _, waiters := range c.waiters {
			status.Nodes = append(status.Nodes, admin.NodeStatus{Waiters: waiters})
		}
		who, asked := replacer(&status, c.value)
		assert.Equal(t, c.want, who)
		assert.Equal(t, c.want != "", asked)
	}
}

func TestTheOwnerOfARunNamesItsCommandWithoutSecrets(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "cron.php")
	require.NoError(t, os.WriteFile(script, nil, 0o600))
	for want, argv := range map[string][]string{
		"php cron.php":                       {"/usr/bin/php", script, "token"},
		"mysqldump":                          {"mysqldump", "--password=sesame"},
		"curl":                               {"curl", "https://me:sesame@example.com"},
		"sh":                                 {"sh", "-c", "mail sesame"},
		strings.Repeat("é", maxCommand/2)[:]: {strings.Repeat("é", maxCommand)},
	} {
		assert.Equal(t, want, shownCommand(argv))
	}
	c := cluster.Start(t, 1)
	r := hold(t, c.URLs(), "x", "")
	assert.Regexp(t, `^\S+@\S+:\d+ \S+ run cat$`, inspect(t, c.URLs(), "x").Owner)
	release(t, r)
}
