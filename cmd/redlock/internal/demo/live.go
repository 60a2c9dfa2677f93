package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
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
		width, _ := v.look.Size()
		v.out.print(v.look.Frame(v.lines(v.now(), width)))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (v *liveView) lines(t trace, width int) []string {
	so := fmt.Sprintf("%.1f of %s, acquired %s so far", t.elapsed.Seconds(), showSeconds(v.total), prose.Plural(len(t.holds), "time"))
	lines := []string{terminal.Bold.Of(v.title), terminal.Dim.Of(so), ""}
	lines = append(append(lines, newPicture(&t, width, v.total).lines()...), "")
	for _, e := range t.events {
		lines = append(lines, e.lines(width)...)
	}
	return lines
}

// output is what the demo writes to. It keeps the first error, so that callers of print need not
// check.
type output struct {
	mu  sync.Mutex // guards the fields below; held over a write so that lines do not mix
	w   io.Writer
	err error
}

func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	if _, err := io.WriteString(o.w, text); err != nil {
		o.err = fmt.Errorf("write output: %w", err)
	}
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
