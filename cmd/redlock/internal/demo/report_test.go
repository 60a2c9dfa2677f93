package demo

import (
	"bytes"
	"context"
	"errors"
	"regexp"
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
		assert.LessOrEqual(t, terminal.Columns(line), 80, line)
		assert.Equal(t, i > 0, strings.HasPrefix(line, "         "), line)
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

const ms = time.Millisecond

// at returns the hold of a worker that did not wait.
func at(worker int, began, ended time.Duration) hold {
	return hold{worker: worker, asked: began, began: began, ended: ended}
}

func TestJudgeFindsOverlaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []hold
		want  [][2]int // workers, first and second
	}{
		{"touching", []hold{at(1, 0, 10), at(2, 10, 20)}, nil},
		{"partly", []hold{at(1, 0, 10), at(2, 9, 20)}, [][2]int{{1, 2}}},
		{"in any order", []hold{at(2, 9, 20), at(1, 0, 10)}, [][2]int{{1, 2}}},
		{"within", []hold{at(1, 0, 10), at(2, 3, 4)}, [][2]int{{1, 2}}},
		{"the same", []hold{at(1, 0, 10), at(2, 0, 10)}, [][2]int{{1, 2}}},
		{"a long one over two", []hold{at(1, 0, 10), at(2, 1, 2), at(3, 8, 9)}, [][2]int{{1, 2}, {1, 3}}},
		{"over before it began", []hold{at(1, 0, 10), at(2, 5, 5)}, nil},
		{"one of many", []hold{at(1, 0, 2), at(2, 2, 4), at(3, 4, 6), at(4, 5, 7)}, [][2]int{{3, 4}}},
	} {
		var got [][2]int
		for _, o := range findOverlaps(c.holds) {
			got = append(got, [2]int{o.first.worker, o.second.worker})
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

func TestTurnsGoInTheOrderOfAsking(t *testing.T) {
	asked := func(worker int, asked, began time.Duration) hold {
		return hold{worker: worker, asked: asked, began: began, ended: began + ms}
	}
	for _, c := range []struct {
		name    string
		holds   []hold
		waiting []wait
		want    int
	}{
		{"nobody", nil, nil, 0},
		{"in order", []hold{asked(1, 0, 100*ms), asked(2, 50*ms, 110*ms)}, nil, 2},
		{"overtaken", []hold{asked(2, 50*ms, 100*ms), asked(1, 0, 110*ms)}, nil, 1},
		{"asked at about the same time", []hold{asked(2, 9*ms, 100*ms), asked(1, 0, 110*ms)}, nil, 2},
		{"after the other held it", []hold{asked(1, 0, 10*ms), asked(2, 50*ms, 60*ms)}, nil, 2},
		{"overtook a worker that waits for ever", []hold{asked(2, 50*ms, 100*ms)}, []wait{{1, 0}}, 0},
		{"did not overtake a worker that asked later", []hold{asked(2, 50*ms, 100*ms)}, []wait{{1, 90 * ms}}, 1},
	} {
		assert.Equal(t, c.want, countInTurn(c.holds, c.waiting), c.name)
	}
}

func TestWaitsAreThoseOfAPeriod(t *testing.T) {
	holds := []hold{
		{asked: 0, began: 10, ended: 20},
		{asked: 5, began: 20, ended: 30},
		{asked: 10, began: 40, ended: 50},
	}
	got := waitsOf(holds, 10, 40)
	assert.Equal(t, waits{10, 15}, got)
	assert.Equal(t, time.Duration(12), got.mean())
	assert.Zero(t, waits(nil).mean())
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make(waits, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, c := range []struct {
		values  waits
		percent int
		want    time.Duration
	}{
		{nil, 50, 0},
		{waits{7}, 1, 7},
		{waits{7}, 99, 7},
		{waits{2, 1}, 50, 1},
		{waits{3, 1, 2}, 50, 2},
		{waits{3, 1, 2}, 99, 3},
		{hundred, 1, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		assert.Equal(t, c.want, c.values.percentile(c.percent), "p%d of %v", c.percent, c.values)
	}
}

// story is a run of two seconds: a node is away from 0.5 s to 0.8 s, worker 2 is stopped at 1.0 s.
func story() trace {
	return trace{
		workers: 3, nodes: 5, elapsed: 2 * time.Second,
		holds: []hold{
			{worker: 1, asked: 0, began: 0, ended: 300 * ms},
			{worker: 2, asked: 0, began: 300 * ms, ended: 500 * ms},
			{worker: 3, asked: 100 * ms, began: 500 * ms, ended: 950 * ms},
			{worker: 2, asked: 900 * ms, began: 1000 * ms, ended: 1400 * ms, lost: true},
			{worker: 1, asked: 1200 * ms, began: 1450 * ms, ended: 1700 * ms},
		},
		waiting: []wait{{3, 1900 * ms}},
		changes: []change{{at: 500 * ms, node: 1}, {at: 600 * ms, node: 3}, {at: 800 * ms, node: 1, up: true}, {at: 800 * ms, node: 3, up: true}},
		stop: stoppage{
			worker: 2, token: 41, began: 1100 * ms, lost: 1400 * ms, wrote: 1600 * ms, seen: 43,
			err: redlock.ErrLost,
		},
	}
}

// lanes draws a trace: a line of the time, of the nodes, of each worker, and a legend.
func lanes(tr *trace, columns int, total time.Duration) (lines []string) {
	return strings.Split(strings.TrimSuffix(terminal.Look{}.Text(newPicture(tr, laneLabelWidth+columns, total).lines()), "\n"), "\n")
}

func TestPictureShowsWhoHeldWhen(t *testing.T) {
	tr := story()
	assert.Equal(t, strings.TrimPrefix(`
             0s        0.5s      1s        1.5s
   nodes up  5555555555443333555555555555555555555555
   worker 1  ██████                  ·····█████
   worker 2  ······████        ··████████x~~~!
   worker 3    ········█████████                   ··
             █ holds  · waits  ~ stopped  x lock lost  ! late write`, "\n"), strings.Join(lanes(&tr, 40, 0), "\n"))
}

func TestPictureKeepsToTheWidth(t *testing.T) {
	tr := story()
	for width, want := range map[int]int{0: laneLabelWidth + leastColumns, 80: 80, 100: 100, 200: 200, 1000: laneLabelWidth + mostColumns} {
		widest := 0
		for _, line := range lanes(&tr, width-laneLabelWidth, 0)[:5] { // without the legend
			widest = max(widest, utf8.RuneCountInString(line))
		}
		assert.Equal(t, want, widest, "width %d", width)
	}
}

func TestPictureIsColouredOnlyIfAllowed(t *testing.T) {
	tr := story()
	lines := newPicture(&tr, 80, 0).lines()
	assert.NotContains(t, terminal.Look{}.Text(lines), "\x1b")
	coloured := terminal.Look{Color: true}.Text(lines)
	for what, want := range map[string]string{
		"a hold": "\x1b[32m█", "an outage": "\x1b[31m44", "the lost lock": "\x1b[31mx\x1b[0m", "the late write": "\x1b[31m!\x1b[0m",
		"a holder that is stopped": "\x1b[33m█",
	} {
		assert.Contains(t, coloured, want, what)
	}
}

func TestLiveViewDrawsPictureAndEventsAndGivesTheScreenBack(t *testing.T) {
	var out bytes.Buffer
	tr := story()
	tr.events = []event{{time.Second, "node 2 stopped"}}
	size := func() (int, int) { return 80, 24 }
	v := &liveView{out: &output{w: &out}, look: terminal.Look{Size: size}, title: "redlock demo", total: 4 * time.Second, now: func() trace { return tr }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.run(ctx)
	assert.Regexp(t, "^"+regexp.QuoteMeta(terminal.EnterScreen)+"(?s:.*)"+regexp.QuoteMeta(terminal.LeaveScreen)+"$", out.String())
	for _, want := range []string{"2.0 of 4.0 s, acquired 5 times", "   worker 3  ", "nodes up  5555", "  1.0 s  node 2 stopped"} {
		assert.Contains(t, out.String(), want)
	}
}
