package demo

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/redlock"
)

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

func drawAll(lines [][]terminal.Span, color bool) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(terminal.Line(line, 1000, color) + "\n")
	}
	return b.String()
}

func TestPictureShowsWhoHeldWhen(t *testing.T) {
	tr := story()
	got := drawAll(newPicture(&tr, laneLabelWidth+40, 0).lines(), false)
	want := `
             0s        0.5s      1s        1.5s
   nodes up  5555555555443333555555555555555555555555
   worker 1  ██████                  ·····█████
   worker 2  ······████        ··████████x~~~!
   worker 3    ········█████████                   ··
             █ holds  · waits  ~ stopped  x lock lost  ! late write
`
	if got != want[1:] {
		t.Errorf("got\n%swant\n%s", got, want[1:])
	}
}

func TestPictureShowsHalvesOfColumns(t *testing.T) {
	tr := trace{workers: 2, nodes: 5, elapsed: 2400 * ms, holds: []hold{at(1, 0, 150*ms), at(2, 150*ms, 400*ms), at(1, 400*ms, 450*ms)}}
	lines := newPicture(&tr, laneLabelWidth+24, 0).lines()
	if got, want := terminal.Line(lines[2], 80, false), "   worker 1  █▌  ▌"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := terminal.Line(lines[3], 80, false), "   worker 2   ▐██"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An overlap in the trace is one in the picture: the same column is full in both lanes.
func TestPictureDoesNotHideAnOverlap(t *testing.T) {
	tr := trace{workers: 2, nodes: 5, elapsed: 2400 * ms, holds: []hold{at(1, 0, 500*ms), at(2, 400*ms, 900*ms)}}
	lines := newPicture(&tr, laneLabelWidth+24, 0).lines()
	first, second := []rune(terminal.Line(lines[2], 80, false)), []rune(terminal.Line(lines[3], 80, false))
	if at := laneLabelWidth + 4; first[at] != glyphBoth || second[at] != glyphBoth {
		t.Errorf("got %q and %q in column 5, want two full blocks", first[at], second[at])
	}
}

func TestPictureGrowsWithTheTrace(t *testing.T) {
	tr := trace{workers: 1, nodes: 5, elapsed: time.Second, holds: []hold{at(1, 0, time.Second)}}
	lines := newPicture(&tr, laneLabelWidth+40, 4*time.Second).lines()
	if got, want := terminal.Line(lines[2], 80, false), "   worker 1  "+strings.Repeat("█", 10); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := terminal.Line(lines[1], 80, false), "   nodes up  "+strings.Repeat("5", 10); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPictureKeepsToTheWidth(t *testing.T) {
	tr := story()
	for width, want := range map[int]int{0: laneLabelWidth + leastColumns, 80: 80, 100: 100, 200: 200, 1000: laneLabelWidth + mostColumns} {
		widest := 0
		for _, line := range newPicture(&tr, width, 0).lines()[:5] { // without the legend
			widest = max(widest, utf8.RuneCountInString(terminal.Line(line, 1<<20, false)))
		}
		if widest != want {
			t.Errorf("width %d: got a picture of %d, want %d", width, widest, want)
		}
	}
}

func TestPictureIsColouredOnlyIfAllowed(t *testing.T) {
	tr := story()
	lines := newPicture(&tr, 80, 0).lines()
	if got := drawAll(lines, false); strings.Contains(got, "\x1b") {
		t.Errorf("got escape sequences in %q", got)
	}
	got := drawAll(lines, true)
	for what, want := range map[string]string{
		"a hold": "\x1b[32m█", "an outage": "\x1b[31m44", "the lost lock": "\x1b[31mx\x1b[0m", "the late write": "\x1b[31m!\x1b[0m",
		"a holder that is stopped": "\x1b[33m█",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", what, got, want)
		}
	}
}
