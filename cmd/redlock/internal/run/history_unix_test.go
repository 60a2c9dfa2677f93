//go:build unix

package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// history returns what is noted of a name, once it ends with an entry of that kind.
func history(t *testing.T, l *redlock.Locker, name, kind string) (entries []admin.Entry) {
	t.Helper()
	clitest.WaitFor(t, "the history of "+name+" ends with "+kind, func() bool {
		entries, _ = admin.Of(l).History(t.Context(), name) //nolint:errcheck // of masters that are gone
		return len(entries) > 0 && entries[len(entries)-1].Kind == kind
	})
	return entries
}

func TestTheHistoryTellsWhyACommandDidNotRun(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	urls, l := c.URLs(), cluster.NewConnected(t, c.URLs())
	began := time.Now()

	status, _, stderr := run(t, urls, line("job", patient, "sh", "-c", "exit 3")...)
	assert.Equal(t, 3, status, stderr)
	ran := history(t, l, "job", admin.KindRan)[0]
	assert.Regexp(t, `^[^ ]+@[^ ]+:\d+ [^ ]+ run sh$`, ran.Holder, "what ran, and where")
	assert.Equal(t, ran.Holder, ran.By)
	require.NotNil(t, ran.Status)
	assert.Equal(t, 3, *ran.Status)
	assert.WithinRange(t, ran.Began, began.Truncate(time.Second), ran.Time)

	holder := hold(t, urls, "job", "--owner nightly")
	assert.Equal(t, "nightly", history(t, l, "job", admin.KindBegan)[1].Holder, "a run that goes on for longer than a second")
	status, _, stderr = run(t, urls, line("job", "--no-wait --owner another", "true")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
	refused := history(t, l, "job", admin.KindRefused)[2]
	assert.Equal(t, []string{"nightly", "another", "skipped"}, []string{refused.Holder, refused.By, refused.Why})
	assert.WithinRange(t, refused.Since, began.Truncate(time.Second), refused.Time)
	status, _, stderr = run(t, urls, line("job", "--wait 1s --owner patient", "true")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
	refused = history(t, l, "job", admin.KindRefused)[3]
	assert.Equal(t, []string{"nightly", "patient", ""}, []string{refused.Holder, refused.By, refused.Why})
	assert.GreaterOrEqual(t, refused.Time.Sub(refused.Began), time.Second)
	release(t, holder)
	clitest.WaitFor(t, "the end of the run takes the place of its beginning", func() bool {
		return history(t, l, "job", admin.KindRefused)[1].Kind == admin.KindRan
	})

	status, _, stderr = run(t, urls, line("job", patient+"--ttl 2s --max-hold 1s", "sleep", "60")...)
	assert.Equal(t, cli.ExitLost, status, stderr)
	cut := history(t, l, "job", admin.KindCut)
	assert.Equal(t, "--max-hold", cut[len(cut)-1].Why)

	holder = hold(t, urls, "job", "--ttl 2s")
	require.NoError(t, admin.Of(l).ForceUnlock(t.Context(), "job"))
	status, stderr = holder.End(t)
	assert.Equal(t, cli.ExitLost, status, stderr)
	lost := history(t, l, "job", admin.KindLost)
	assert.Contains(t, lost[len(lost)-1].Why, "a quorum of nodes no longer has it")
	assert.Contains(t, []string{lost[len(lost)-2].Kind, lost[len(lost)-3].Kind}, admin.KindForced)

	require.NoError(t, c.Masters[0].Kill())
	require.NoError(t, c.Masters[1].Kill())
	status, _, stderr = clitest.Run(t, urls, line("job", "--wait 1s", "true")...)
	assert.Equal(t, cli.ExitNoQuorum, status, stderr)
	few := history(t, l, "job", admin.KindNoQuorum)
	assert.Contains(t, few[len(few)-1].Why, c.Masters[1].URL()+": ")
}

func TestTheHistoryOfAnElectionTellsItsTerms(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	l := cluster.NewConnected(t, c.URLs())
	status, _, stderr := run(t, c.URLs(), "elect", "--name", "boss", "--owner", "me", "--", "sh", "-c", "exit 4")
	assert.Equal(t, 4, status, stderr)
	ran := history(t, l, "boss", admin.KindRan)[0]
	assert.Equal(t, "me", ran.Holder)
	assert.Equal(t, 4, *ran.Status)
	status, _, stderr = run(t, c.URLs(), "elect", "--name", "boss", "--", "/")
	assert.Equal(t, cli.ExitNotExecutable, status, stderr)
	assert.Len(t, history(t, l, "boss", admin.KindRan), 1, "nobody asked for the lock")
}
