package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

const liveInterval = 100 * time.Millisecond

// liveView draws the picture on a terminal while the demo runs.
type liveView struct {
	out   *output
	look  terminal.Look
	title string
	total time.Duration
	now   func() trace
}

// run draws until ctx ends, and then restores the screen.
func (v *liveView) run(ctx context.Context) {
	v.out.print(terminal.EnterScreen)
	defer v.out.print(terminal.LeaveScreen)
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	for {
		width, height := v.look.Size()
		v.out.print(terminal.Frame(v.lines(v.now(), width), width, height, v.look.Color))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (v *liveView) lines(t trace, width int) [][]terminal.Span {
	lines := [][]terminal.Span{
		{terminal.Bold.Of(v.title)},
		{terminal.Dim.Of(fmt.Sprintf("%.1f of %s, acquired %s so far",
			t.elapsed.Seconds(), showSeconds(v.total), prose.Plural(len(t.holds), "time")))},
		{},
	}
	lines = append(lines, newPicture(&t, width, v.total).lines()...)
	lines = append(lines, []terminal.Span{})
	for _, e := range t.events {
		lines = append(lines, e.lines(width)...)
	}
	return lines
}
