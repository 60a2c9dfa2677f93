package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

const liveInterval = 100 * time.Millisecond

// liveView draws the picture on a terminal while the demo runs.
type liveView struct {
	out   *output
	look  look
	title string
	total time.Duration
	now   func() trace
}

// run draws until ctx ends, and then restores the screen.
func (v *liveView) run(ctx context.Context) {
	v.out.print(enterScreen)
	defer v.out.print(leaveScreen)
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	for {
		width, height := v.look.size()
		v.out.print(drawFrame(v.lines(v.now(), width), width, height, v.look.color))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (v *liveView) lines(t trace, width int) [][]span {
	lines := [][]span{
		{{v.title, bold}},
		{{fmt.Sprintf("%.1f of %s, acquired %s so far", t.elapsed.Seconds(), showSeconds(v.total), cli.Plural(len(t.holds), "time")), dim}},
		{},
	}
	lines = append(lines, newPicture(&t, width, v.total).lines()...)
	lines = append(lines, []span{})
	for _, e := range t.events {
		lines = append(lines, []span{{e.line(), ""}})
	}
	return lines
}
