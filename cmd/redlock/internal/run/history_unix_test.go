//go:build unix

package run

import (
	"regexp"
	"slices"
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

// noted returns the newest entry of a kind, about a name and by somebody, or by anybody if that is
// empty, once there is one. On a busy machine there may be others.
func noted(t *testing.T, l *redlock.Locker, name, kind, by string) (found admin.Entry) {
	t.Helper()
	clitest.WaitFor(t, "the history of "+name+" has "+kind+" by "+by, func() bool {
		entries, _ := admin.Of(l).History(t.Context(), name) //nolint:errcheck // of masters that are gone
		for _, e := range slices.Backward(entries) {
			if found = e; e.Kind == kind && (by == "" || e.By == by) {
				return true
			}
		}
		return false
	})
	return found
}

func TestTheHistoryTellsWhyACommandDidNotRun(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	urls, l := c.URLs(), cluster.NewConnected(t, c.URLs())
	began := time.Now()

	status, _, stderr := run(t, urls, line("job", patient, "sh", "-c", "exit 3")...)
	assert.Equal(t, 3, status, stderr)
	ran := noted(t, l, "job", admin.KindRan, "")
	assert.Regexp(t, `^[^ ]+@[^ ]+:\d+ [^ ]+ run sh$`, ran.Holder, "what ran, and where")
	assert.Equal(t, ran.Holder, ran.By)
	require.NotNil(t, ran.Status)
	assert.Equal(t, 3, *ran.Status)
	assert.WithinRange(t, ran.Began, began.Truncate(time.Second), ran.Time)

	holder := hold(t, urls, "job", "--owner nightly")
	run1 := noted(t, l, "job", admin.KindBegan, "nightly")
	assert.Equal(t, "nightly", run1.Holder, "a run that goes on for longer than a second")
	taken := regexp.MustCompile("taken by")
	status, _, stderr = runUntilItSays(t, taken, urls, line("job", "--no-wait --owner another", "true")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
	refused := noted(t, l, "job", admin.KindRefused, "another")
	assert.Equal(t, []string{"nightly", "skipped"}, []string{refused.Holder, refused.Why})
	assert.WithinRange(t, refused.Since, began.Truncate(time.Second), refused.Time)
	status, _, stderr = runUntilItSays(t, taken, urls, line("job", "--wait 1s --owner patient", "true")...)
	assert.Equal(t, cli.ExitTaken, status, stderr)
	refused = noted(t, l, "job", admin.KindRefused, "patient")
	assert.Equal(t, []string{"nightly", ""}, []string{refused.Holder, refused.Why})
	assert.GreaterOrEqual(t, refused.Time.Sub(refused.Began), time.Second)
	release(t, holder)
	assert.Equal(t, run1.ID, noted(t, l, "job", admin.KindRan, "nightly").ID, "the end takes the place of the beginning")

	clitest.WaitFor(t, "a run is cut", func() bool { // a busy machine may lose so short a hold before
		run(t, urls, line("job", patient+"--ttl 10s --kill-after 500ms --max-hold 2s --owner cut", "sleep", "60")...)
		entries, _ := admin.Of(l).History(t.Context(), "job") //nolint:errcheck // then it is run again
		return slices.ContainsFunc(entries, func(e admin.Entry) bool {
			return e.Kind == admin.KindCut && e.Why == "--max-hold" && e.By == "cut"
		})
	})

	holder = hold(t, urls, "job", "--ttl 5s --owner victim")
	require.NoError(t, admin.Of(l).ForceUnlock(t.Context(), "job"))
	status, stderr = holder.End(t)
	assert.Equal(t, cli.ExitLost, status, stderr)
	assert.Contains(t, noted(t, l, "job", admin.KindLost, "victim").Why, "a quorum of nodes no longer has it")
	assert.Equal(t, "victim", noted(t, l, "job", admin.KindForced, "").Holder)

	require.NoError(t, c.Masters[0].Kill())
	require.NoError(t, c.Masters[1].Kill())
	status, _, stderr = clitest.Run(t, urls, line("job", "--wait 1s --owner late", "true")...)
	assert.Equal(t, cli.ExitNoQuorum, status, stderr)
	assert.Contains(t, noted(t, l, "job", admin.KindNoQuorum, "late").Why, c.Masters[1].URL()+": ")
}

func TestTheHistoryOfAnElectionTellsItsTerms(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	l := cluster.NewConnected(t, c.URLs())
	status, _, stderr := run(t, c.URLs(), "elect", "--name", "boss", "--owner", "me", "--", "sh", "-c", "exit 4")
	assert.Equal(t, 4, status, stderr)
	ran := noted(t, l, "boss", admin.KindRan, "")
	assert.Equal(t, "me", ran.Holder)
	assert.Equal(t, 4, *ran.Status)
}
