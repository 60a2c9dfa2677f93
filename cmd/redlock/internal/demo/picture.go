package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// The picture has a line per worker, with time running to the right.
const (
	laneLabel      = "%11s  "
	laneLabelWidth = 13
	leastColumns   = 24
	mostColumns    = 240 // with more, holds are as wide as waits are now
	columnsPerTick = 6   // at least, so that labels do not touch
)

// Glyphs of a column. A left half block, a right half block or a full block is time with the lock.
const (
	glyphLeft  = '▌'
	glyphRight = '▐'
	glyphBoth  = '█'
	glyphWaits = '·'
	glyphSleep = '~'
	glyphLost  = 'x'
	glyphLate  = '!'
)

// picture draws a trace into a number of columns, with room for total. Time after the trace stays
// empty.
type picture struct {
	trace   *trace
	columns int
	total   time.Duration
}

func newPicture(t *trace, width int, total time.Duration) picture {
	return picture{t, min(max(width-laneLabelWidth, leastColumns), mostColumns), max(total, t.elapsed, 1)}
}

// lines returns the picture with its legend.
func (p picture) lines() (lines []string) {
	lines = append(lines, p.axis(), p.upLine())
	for worker := 1; worker <= p.trace.workers; worker++ {
		lines = append(lines, p.lane(worker))
	}
	return append(lines, p.legend())
}

// instant is the middle of half a column. A lane shows the state at that very moment, so two lanes
// with a lock at the same place mean two holders at the same time.
func (p picture) instant(half int) time.Duration {
	return p.total * time.Duration(2*half+1) / time.Duration(4*p.columns)
}

func (p picture) columnOf(at time.Duration) int {
	return min(int(at*time.Duration(p.columns)/p.total), p.columns-1)
}

func label(text string) string { return fmt.Sprintf(laneLabel, text) }

// axis labels moments that are round numbers of seconds apart.
func (p picture) axis() string {
	steps := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, func(s time.Duration) bool { return p.columnOf(min(s, p.total)) >= columnsPerTick }); i >= 0 {
		step = steps[i]
	}
	row := []rune(strings.Repeat(" ", p.columns))
	for at := time.Duration(0); at < p.total; at += step {
		text := []rune(fmt.Sprintf("%gs", at.Seconds()))
		if column := p.columnOf(at); column+len(text) <= p.columns {
			copy(row[column:], text)
		}
	}
	return label("") + terminal.Dim.Of(strings.TrimRight(string(row), " "))
}

// upLine shows how many nodes were up.
func (p picture) upLine() string {
	phases := splitPhases(p.trace.changes, p.trace.elapsed, p.trace.nodes)
	line := lane{text: label("nodes up")}
	for column := range p.columns {
		at := p.instant(2 * column)
		if at > p.trace.elapsed {
			break
		}
		up, style := upAt(phases, at), terminal.Dim
		if up < p.trace.nodes {
			style = terminal.Red
		}
		line.put('0'+rune(up%10), style)
	}
	return line.done()
}

func (p picture) lane(worker int) string {
	line := lane{text: label(fmt.Sprintf("worker %d", worker))}
	for column := range p.columns {
		line.put(p.glyph(worker, column))
	}
	return line.done()
}

// doing is what a worker does at a moment.
type doing uint8

const (
	rests doing = iota
	asksFor
	holds
	loses // holds without renewing
	sleeps
)

func (p picture) doing(worker int, at time.Duration) doing {
	t := p.trace
	stop := t.stop
	stopped := stop.worker == worker && stop.began <= at && (stop.wrote == 0 || at < stop.wrote)
	if at > t.elapsed {
		return rests
	}
	for _, h := range t.holds {
		switch {
		case h.worker != worker:
		case h.began <= at && at < h.ended && stopped:
			return loses
		case h.began <= at && at < h.ended:
			return holds
		case h.asked <= at && at < h.began:
			return asksFor
		}
	}
	switch {
	case stopped:
		return sleeps
	case slices.ContainsFunc(t.waiting, func(w wait) bool { return w.worker == worker && w.asked <= at }):
		return asksFor
	}
	return rests
}

// glyph returns what a worker's lane shows in a column. The two marks take precedence.
func (p picture) glyph(worker, column int) (rune, terminal.Style) {
	if stop := p.trace.stop; stop.worker == worker {
		switch {
		case stop.wrote > 0 && p.columnOf(stop.wrote) == column:
			return glyphLate, terminal.Red
		case stop.lost > 0 && p.columnOf(stop.lost) == column:
			return glyphLost, terminal.Red
		}
	}
	left, right := p.doing(worker, p.instant(2*column)), p.doing(worker, p.instant(2*column+1))
	holding := func(d doing) bool { return d == holds || d == loses }
	color := terminal.Green
	if left == loses || right == loses {
		color = terminal.Yellow
	}
	switch {
	case holding(left) && holding(right):
		return glyphBoth, color
	case holding(left):
		return glyphLeft, color
	case holding(right):
		return glyphRight, color
	case left == sleeps || right == sleeps:
		return glyphSleep, terminal.Yellow
	case left == asksFor || right == asksFor:
		return glyphWaits, terminal.Dim
	}
	return ' ', terminal.Plain
}

func (p picture) legend() string {
	return label("") + terminal.Green.Of(string(glyphBoth)) + " holds  " + terminal.Dim.Of(string(glyphWaits)) + " waits  " +
		terminal.Yellow.Of(string(glyphSleep)) + " stopped  " + terminal.Red.Of(string(glyphLost)) + " lock lost  " +
		terminal.Red.Of(string(glyphLate)) + " late write"
}

// lane is a line that grows by runes.
type lane struct {
	text  string // all but the last runes, which have one style
	last  []rune
	style terminal.Style
}

func (l *lane) put(r rune, s terminal.Style) {
	if s != l.style {
		l.text, l.last, l.style = l.text+l.style.Of(string(l.last)), nil, s
	}
	l.last = append(l.last, r)
}

// done returns the line without trailing spaces, which have no style.
func (l *lane) done() string {
	return strings.TrimRight(l.text+l.style.Of(string(l.last)), " ")
}
