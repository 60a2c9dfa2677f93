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
	glyphLeft  = "▌"
	glyphRight = "▐"
	glyphBoth  = "█"
	glyphWaits = "·"
	glyphSleep = "~"
	glyphLost  = "x"
	glyphLate  = "!"
)

// picture draws a trace into a number of columns.
type picture struct {
	trace   *trace
	columns int
	total   time.Duration
}

func newPicture(t *trace, width int) picture {
	return picture{t, min(max(width-laneLabelWidth, leastColumns), mostColumns), max(t.elapsed, 1)}
}

// lines returns the picture with its legend.
func (p picture) lines() []string {
	lines := []string{p.axis(), p.line("nodes up", p.up)}
	for worker := 1; worker <= p.trace.workers; worker++ {
		lines = append(lines, p.line(fmt.Sprint("worker ", worker), func(column int) string { return p.glyph(worker, column) }))
	}
	return append(lines, label("")+terminal.Green.Of(glyphBoth)+" holds  "+terminal.Dim.Of(glyphWaits)+" waits  "+
		terminal.Yellow.Of(glyphSleep)+" stopped  "+terminal.Red.Of(glyphLost)+" lock lost  "+terminal.Red.Of(glyphLate)+" late write")
}

func label(text string) string { return fmt.Sprintf(laneLabel, text) }

func (p picture) line(name string, glyph func(column int) string) string {
	var line strings.Builder
	line.WriteString(label(name))
	for column := range p.columns {
		line.WriteString(glyph(column))
	}
	return strings.TrimRight(line.String(), " ")
}

// instant is the middle of half a column. A lane shows the state at that very moment, so two lanes
// with a lock at the same place mean two holders at the same time.
func (p picture) instant(half int) time.Duration {
	return p.total * time.Duration(2*half+1) / time.Duration(4*p.columns)
}

func (p picture) columnOf(at time.Duration) int {
	return min(int(at*time.Duration(p.columns)/p.total), p.columns-1)
}

// axis labels moments that are round numbers of seconds apart.
func (p picture) axis() string {
	steps := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, func(s time.Duration) bool { return p.columnOf(min(s, p.total)) >= columnsPerTick }); i >= 0 {
		step = steps[i]
	}
	row := []byte(strings.Repeat(" ", p.columns))
	for at := time.Duration(0); at < p.total; at += step {
		if text, column := fmt.Sprintf("%gs", at.Seconds()), p.columnOf(at); column+len(text) <= p.columns {
			copy(row[column:], text)
		}
	}
	return label("") + terminal.Dim.Of(strings.TrimRight(string(row), " "))
}

// up shows how many nodes were up.
func (p picture) up(column int) string {
	up, style := embeddedNodes, terminal.Dim
	for _, c := range p.trace.changes {
		switch {
		case c.at > p.instant(2*column):
		case c.up:
			up++
		default:
			up--
		}
	}
	if up < embeddedNodes {
		style = terminal.Red
	}
	return style.Of(fmt.Sprint(up))
}

// doing is what a worker does at a moment.
type doing uint8

const (
	rests doing = iota
	waits
	holds
	sleeps
)

// doing also reports whether the worker is stopped.
func (p picture) doing(worker int, at time.Duration) (what doing, stopped bool) {
	stop := &p.trace.stop
	stopped = stop.worker == worker && stop.began <= at && (stop.wrote == 0 || at < stop.wrote)
	for _, h := range slices.Concat(p.trace.holds, p.trace.gaveUp) {
		switch {
		case h.worker != worker:
		case h.began <= at && at < h.ended:
			return holds, stopped
		case h.asked <= at && at < h.began:
			return waits, stopped
		}
	}
	if stopped {
		return sleeps, stopped
	}
	return rests, stopped
}

// glyph returns what a worker's lane shows in a column. The two marks take precedence.
func (p picture) glyph(worker, column int) string {
	if stop := &p.trace.stop; stop.worker == worker {
		switch {
		case stop.wrote > 0 && p.columnOf(stop.wrote) == column:
			return terminal.Red.Of(glyphLate)
		case stop.lost > 0 && p.columnOf(stop.lost) == column:
			return terminal.Red.Of(glyphLost)
		}
	}
	left, stopped := p.doing(worker, p.instant(2*column))
	right, stoppedThen := p.doing(worker, p.instant(2*column+1))
	color := terminal.Green
	if stopped || stoppedThen {
		color = terminal.Yellow
	}
	switch {
	case left == holds && right == holds:
		return color.Of(glyphBoth)
	case left == holds:
		return color.Of(glyphLeft)
	case right == holds:
		return color.Of(glyphRight)
	case left == sleeps || right == sleeps:
		return terminal.Yellow.Of(glyphSleep)
	case left == waits || right == waits:
		return terminal.Dim.Of(glyphWaits)
	}
	return " "
}
