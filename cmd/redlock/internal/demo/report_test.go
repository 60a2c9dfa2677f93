package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/redlock"
)

// wide is a plain look that wraps no sentence.
var wide = terminal.Look{Size: func() (int, int) { return 400, 50 }}

func reportOf(harm func(*trace)) report {
	t := story()
	if harm != nil {
		harm(&t)
	}
	r := newReport(t)
	r.embedded, r.ttl = true, 400*ms
	r.handedOver, r.polls = 4, 1
	return r
}

func TestReportSaysWhatIsSeen(t *testing.T) {
	r := reportOf(nil)
	require.NoError(t, r.err())
	got := r.text(wide)
	for _, want := range []string{
		"contention      3 workers wait for one lock. Acquired 5 times, each time by the worker that had waited longest. " +
			"4 votes handed over, 1 poll. With all nodes up, wait: mean 150 ms, p99 300 ms, max 300 ms.\n",
		"dead minority   Two of five nodes were away from 0.6 s to 0.8 s: acquired 0 times meanwhile, and no worker met an error.",
		"stopped holder  Worker 2 had the lock and was stopped at 1.1 s, so it was no longer renewed: lost at 1.4 s (TTL 400 ms), " +
			"and worker 1 had it 50.0 ms later.\n",
		"fencing         Worker 2 woke up at 1.6 s and wrote, unaware of that: REJECTED by the store. The token was 41; the store had seen 43.\n",
		"exclusion       No two holds overlap: the times of all 5 are compared, and drawn here.\n",
	} {
		assert.Contains(t, got, want)
	}
	assert.NotContains(t, got, "\x1b")
	coloured := wide
	coloured.Color = true
	assert.Contains(t, r.text(coloured), "\x1b[32mREJECTED\x1b[0m")
	r.inTurn = 4
	assert.Contains(t, r.text(wide), "Acquired 5 times, 4 times by the worker that had waited longest; while nodes come and go, "+
		"or on a busy machine, that order is not promised. 4 votes handed over, 1 poll.")
}

func TestReportAndEventsKeepToTheWidth(t *testing.T) {
	r := reportOf(nil)
	for _, width := range []int{80, 120} {
		text := r.text(terminal.Look{Size: func() (int, int) { return width, 24 }})
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			assert.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
			assert.False(t, strings.HasSuffix(line, " "), line)
		}
		assert.LessOrEqual(t, strings.Count(text, "\n"), 26, "a screen")
	}
	change := change{at: 12 * time.Second, node: 1}
	lines := event{change.at, changeText(change, "redis://127.0.0.1:65535") + ": " + strings.Repeat("and so on ", 20)}.lines(80)
	assert.GreaterOrEqual(t, len(lines), 4)
	for i, line := range lines {
		text := terminal.Line(line, unlimited, false)
		assert.LessOrEqual(t, terminal.Columns(text), 80, text)
		assert.Equal(t, i > 0, strings.HasPrefix(text, "         "), text)
	}
}

func TestWhatIsWrongFailsAndIsShown(t *testing.T) {
	for _, c := range []struct {
		name  string
		harm  func(*trace)
		want  error
		shown string // in the report
	}{
		{"overlap", func(t *trace) { t.holds[2].began -= 8 * ms }, errOverlap, "overlap: worker 3 began 8ms before worker 2 ended, at 0.5 s\n"},
		{"overlap with a lost lock", func(t *trace) { t.holds[4].began = 1399 * ms }, errOverlap, "BROKEN: 1 overlap among 5 holds."},
		{"stale write accepted", func(t *trace) { t.stop.passed = true }, errStalePassed, ": ACCEPTED by the store."},
		{"holder rejected", func(t *trace) { t.wronged = 1 }, errWronged, "1 time rejected by the store while held\n"},
		{"nothing", func(t *trace) { t.holds = nil }, errNothingAcquired, "Nobody ever held the lock."},
		{"no loss", func(t *trace) { t.stop.err = nil }, errNotLost, ""},
		{"released", func(t *trace) { t.stop.err = redlock.ErrReleased }, errNotLost, ""},
		{"no late write", func(t *trace) { t.stop.wrote = 0 }, errNoLateWrite, "No late write."},
		{"no stop", func(t *trace) { t.stop = stoppage{} }, errNoLateWrite, "No holder was stopped."},
	} {
		r := reportOf(c.harm)
		require.ErrorIs(t, r.err(), c.want, c.name)
		assert.Equal(t, cli.ExitFailed, cli.ExitStatus(r.err()), c.name)
		text := r.text(wide)
		assert.Contains(t, text, c.shown, c.name)
		if len(r.overlaps) > 0 || len(r.holds) == 0 {
			assert.NotContains(t, text, "No two holds overlap", c.name)
		}
	}
}

func TestReportClaimsNoMoreThanWasSeen(t *testing.T) {
	for name, harm := range map[string]func(*trace){
		"lost":        func(t *trace) { t.lost++ },
		"failed":      func(t *trace) { t.failed++ },
		"unconfirmed": func(t *trace) { t.unconfirmed++ },
		"wronged":     func(t *trace) { t.wronged++ },
	} {
		r := reportOf(harm)
		assert.NotContains(t, r.text(wide), "no worker met an error", name)
	}
	r := reportOf(func(t *trace) { t.stop, t.changes = stoppage{}, nil })
	r.interrupted = true
	require.NoError(t, r.err(), "an interrupted demo is not blamed for what it did not show")
	assert.Contains(t, r.text(wide), "Ended early, after 2.0 s.")
	assert.Contains(t, r.text(wide), "No node was stopped.")
}

func TestNodeThatDidNotComeBackStaysAway(t *testing.T) {
	r := reportOf(func(t *trace) { t.changes = []change{{at: 1}, {at: 2, up: true, err: errors.New("address in use")}} })
	require.Len(t, r.phases, 2)
	assert.Equal(t, 4, r.phases[1].up)
	assert.Equal(t, 2*time.Second, r.phases[1].to, "until the end")
	assert.Contains(t, r.text(wide), "node 1 could not be restarted: address in use")
}

func TestLostLockIsHeldUntilItsValidityEnded(t *testing.T) {
	assert.Equal(t, time.Duration(20), endOfLost(20, 0), "a quorum no longer had it")
	assert.Equal(t, time.Duration(17), endOfLost(20, -3), "it expired, and was noticed later")
}
