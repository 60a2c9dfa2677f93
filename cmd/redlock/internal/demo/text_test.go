package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
	if err := r.err(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
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
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}
}

func TestReportSaysWhenTheOrderWasLost(t *testing.T) {
	r := reportOf(nil)
	r.inTurn = 4
	want := "Acquired 5 times, 4 times by the worker that had waited longest; while nodes come and go, or on a busy machine, " +
		"that order is not promised. 4 votes handed over, 1 poll."
	if got := r.text(wide); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}

func TestEventsKeepToTheWidth(t *testing.T) {
	change := change{at: 12 * time.Second, node: 1}
	long := event{change.at, changeText(change, "redis://127.0.0.1:65535") + ": " + strings.Repeat("and so on ", 20)}
	lines := long.lines(80)
	if len(lines) < 4 {
		t.Errorf("got %d lines, want more", len(lines))
	}
	for i, line := range lines {
		text := terminal.Line(line, unlimited, false)
		if terminal.Columns(text) > 80 || strings.HasPrefix(text, "         ") != (i > 0) {
			t.Errorf("got %q", text)
		}
	}
}

func TestReportKeepsToTheWidth(t *testing.T) {
	r := reportOf(nil)
	for _, width := range []int{80, 120} {
		text := r.text(terminal.Look{Size: func() (int, int) { return width, 24 }})
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > width || strings.HasSuffix(line, " ") {
				t.Errorf("width %d: got %q", width, line)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 26 {
			t.Errorf("width %d: got %d lines, more than a screen", width, lines)
		}
	}
}

func TestReportIsColouredOnlyIfAllowed(t *testing.T) {
	r := reportOf(nil)
	if got := r.text(wide); strings.Contains(got, "\x1b") {
		t.Errorf("got escape sequences in %q", got)
	}
	coloured := wide
	coloured.Color = true
	if got := r.text(coloured); !strings.Contains(got, "\x1b[32mREJECTED\x1b[0m") {
		t.Errorf("got %q, want the answer in green", got)
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
		if err := r.err(); !errors.Is(err, c.want) || cli.ExitStatus(err) != cli.ExitFailed {
			t.Errorf("%s: got %v, want %v and status %d", c.name, err, c.want, cli.ExitFailed)
		}
		text := r.text(wide)
		if !strings.Contains(text, c.shown) {
			t.Errorf("%s: got\n%s\nwant in it %q", c.name, text, c.shown)
		}
		if denied := strings.Contains(text, "No two holds overlap"); denied && (len(r.overlaps) > 0 || len(r.holds) == 0) {
			t.Errorf("%s: got\n%s\nwhich claims too much", c.name, text)
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
		if got := r.text(wide); strings.Contains(got, "no worker met an error") {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

func TestInterruptedDemoIsNotBlamedForWhatItDidNotShow(t *testing.T) {
	r := reportOf(func(t *trace) { t.stop, t.changes = stoppage{}, nil })
	r.interrupted = true
	if err := r.err(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if got := r.text(wide); !strings.Contains(got, "Ended early, after 2.0 s.") || !strings.Contains(got, "No node was stopped.") {
		t.Errorf("got\n%s\nwant that it ended early, and no node stopped", got)
	}
}

func TestNodeThatDidNotComeBackStaysAway(t *testing.T) {
	r := reportOf(func(t *trace) { t.changes = []change{{at: 1}, {at: 2, up: true, err: errors.New("address in use")}} })
	if len(r.phases) != 2 || r.phases[1].up != 4 || r.phases[1].to != 2*time.Second {
		t.Errorf("got %+v, want 4 nodes up until the end", r.phases)
	}
	if got := r.text(wide); !strings.Contains(got, "node 1 could not be restarted: address in use") {
		t.Errorf("got\n%s\nwant why the node is away", got)
	}
}

func TestLostLockIsHeldUntilItsValidityEnded(t *testing.T) {
	for _, c := range []struct{ now, left, want time.Duration }{
		{20, 0, 20},  // a quorum no longer had it
		{20, -3, 17}, // it expired, and was noticed later
	} {
		if got := endOfLost(c.now, c.left); got != c.want {
			t.Errorf("now %d, left %d: got %d, want %d", c.now, c.left, got, c.want)
		}
	}
}
