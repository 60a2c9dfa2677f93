package demo

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

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

// lanes draws a trace: a line of the time, of the nodes, of each worker, and a legend.
func lanes(tr *trace, columns int, total time.Duration) (lines []string) {
	for _, line := range newPicture(tr, laneLabelWidth+columns, total).lines() {
		lines = append(lines, terminal.Line(line, 1000, false))
	}
	return lines
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

func TestPictureShowsHalvesOfColumns(t *testing.T) {
	tr := trace{workers: 2, nodes: 5, elapsed: 2400 * ms, holds: []hold{at(1, 0, 150*ms), at(2, 150*ms, 400*ms), at(1, 400*ms, 450*ms)}}
	assert.Equal(t, []string{"   worker 1  █▌  ▌", "   worker 2   ▐██"}, lanes(&tr, 24, 0)[2:4])
}

// An overlap in the trace is one in the picture: the same column is full in both lanes.
func TestPictureDoesNotHideAnOverlap(t *testing.T) {
	tr := trace{workers: 2, nodes: 5, elapsed: 2400 * ms, holds: []hold{at(1, 0, 500*ms), at(2, 400*ms, 900*ms)}}
	for _, lane := range lanes(&tr, 24, 0)[2:4] {
		assert.Equal(t, glyphBoth, []rune(lane)[laneLabelWidth+4], lane)
	}
}

func TestPictureGrowsWithTheTrace(t *testing.T) {
	tr := trace{workers: 1, nodes: 5, elapsed: time.Second, holds: []hold{at(1, 0, time.Second)}}
	want := []string{"   nodes up  " + strings.Repeat("5", 10), "   worker 1  " + strings.Repeat("█", 10)}
	assert.Equal(t, want, lanes(&tr, 40, 4*time.Second)[1:3])
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
	plain, coloured := "", ""
	for _, line := range newPicture(&tr, 80, 0).lines() {
		plain += terminal.Line(line, 1000, false)
		coloured += terminal.Line(line, 1000, true)
	}
	assert.NotContains(t, plain, "\x1b")
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
