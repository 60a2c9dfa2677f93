package main

import (
	"context"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/top"
	"github.com/redquorum/redquorum/redlock"
)

// watch returns a watcher of the masters.
func (f *fleet) watch() *watcher {
	f.t.Helper()
	var flags masters.Flags
	cmd := &cobra.Command{Use: "top"}
	cmd.SetContext(f.t.Context())
	flags.Add(cmd)
	require.NoError(f.t, cmd.ParseFlags(f.flags))
	lister, err := openLister(cmd, &flags, "*", survey.Bounds{Keys: 10_000, Locks: 100}, topTimeout)
	require.NoError(f.t, err)
	f.t.Cleanup(lister.close)
	return &watcher{lister: lister, title: "redlock top", clock: clock.System()}
}

func statesOf(s *top.Snapshot) (states []top.State) {
	for _, m := range s.Masters {
		states = append(states, m.State)
	}
	return states
}

func TestTopLooksAtLocksAndMasters(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "a", "one", "PX", 60_000)
	f.set(1, "b", "one", "PX", 60_000)
	_, err := f.locker.TryLock(t.Context(), "c")
	require.NoError(t, err)
	callOff := f.queue(func(ctx context.Context) (*redlock.Lock, error) { return f.locker.Lock(ctx, "c") })
	w := f.watch()
	var s top.Snapshot
	clitest.WaitFor(t, "a waiter", func() bool {
		s = w.look(t.Context())
		return len(s.Locks.Rows) > 0 && s.Locks.Rows[0][0] == "c"
	})
	assert.Equal(t, []string{"c", "b", "a"}, []string{s.Locks.Rows[0][0], s.Locks.Rows[1][0], s.Locks.Rows[2][0]},
		"what is waited for, what is not held, the rest")
	assert.Equal(t, "1", s.Locks.Rows[0][5])
	assert.Equal(t, "free", s.Locks.Rows[1][s.State])
	assert.Contains(t, s.Count, "3 locks: 2 held, 1 free. Waiting: 1.")
	assert.Empty(t, s.Problem)
	assert.Empty(t, s.Notes)
	assert.Equal(t, []top.State{top.Votes, top.Votes, top.Votes}, statesOf(&s))
	for _, m := range s.Masters {
		assert.Positive(t, m.RoundTrip)
		assert.Positive(t, m.Clients)
		assert.GreaterOrEqual(t, m.Keys, int64(2), "redquorum:memory is one")
		assert.GreaterOrEqual(t, m.Commands, int64(0))
		assert.NotEqual(t, "-", m.Server)
	}
	callOff()

	for _, node := range []int{2, 1} {
		assert.Empty(t, s.Problem)
		assert.Empty(t, s.Notes, "every lock that is held is there")
		f.kill(node)
		clitest.WaitFor(t, "the loss of a master", func() bool {
			s = w.look(t.Context())
			return s.Masters[node].State == top.Down
		})
		assert.NotEmpty(t, s.Masters[node].Why)
	}
	assert.Contains(t, s.Problem, "too few masters answer: 1 of 3, 2 are needed")
}

// tuned is a clock that the test sets.
type tuned struct{ at clock.Instant }

func (c *tuned) Now() clock.Instant { return c.at }
func (c *tuned) Wall() time.Time    { return time.Time{} }

func TestNewHoldersAreCountedFromLookToLook(t *testing.T) {
	source := &tuned{at: clock.Instant(time.Hour)}
	w := watcher{clock: clock.WithTimers(source)}
	held := func(values ...string) (locks []inspection) {
		for _, value := range values {
			locks = append(locks, inspection{Verdict: "held", Value: value})
		}
		return locks
	}
	assert.Empty(t, w.rate(held("a", "b")), "the first look has nothing to compare with")
	for _, c := range []struct {
		locks []inspection
		want  string
	}{
		{held("a", "b"), " New holders: at least 0.0/s."},
		{held("a", "c", "d", "e"), " New holders: at least 1.5/s."},
		{nil, " New holders: at least 0.0/s."},
		{[]inspection{
			{Verdict: "split", Value: "s"},
			{Verdict: "free", Permits: []holding{{Verdict: "held", Value: "p"}, {Verdict: "free"}}},
			{Verdict: "held", Value: "marker", shared: true, Readers: []holding{{Verdict: "held", Value: "r"}, {Verdict: "split", Value: "q"}}},
		}, " New holders: at least 1.0/s."},
	} {
		source.at = source.at.Add(2 * time.Second)
		assert.Equal(t, c.want, w.rate(c.locks))
	}
}
