package top

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// Keys that end top. A terminal in raw mode sends Ctrl-C as a byte.
const (
	interrupt  = 0x03
	endOfInput = 0x04
)

// Screen shows snapshots until somebody has seen enough.
type Screen struct {
	Look     terminal.Look
	Out      io.Writer
	Keys     <-chan byte      // what is typed; closed when nothing comes any more
	Resized  <-chan os.Signal // nil if the system does not tell
	Interval time.Duration    // between two snapshots
	Take     func(context.Context) Snapshot
}

// Run draws until ctx ends, or somebody types q or Ctrl-C. It returns an error if it cannot write.
func (s *Screen) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	taken := make(chan Snapshot)
	var taking sync.WaitGroup
	defer taking.Wait()
	defer cancel()
	taking.Go(func() { s.take(ctx, taken) })
	if err := s.print(terminal.EnterScreen); err != nil {
		return err
	}
	return errors.Join(s.draw(ctx, taken), s.print(terminal.LeaveScreen))
}

// take hands over snapshots.
func (s *Screen) take(ctx context.Context, taken chan<- Snapshot) {
	ticker := time.NewTicker(s.Interval)
	defer ticker.Stop()
	for {
		select {
		case taken <- s.Take(ctx):
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Screen) draw(ctx context.Context, taken <-chan Snapshot) error {
	last := Snapshot{Title: "redlock top", Count: "Asking the masters…"}
	keys := s.Keys
	for {
		width, height := s.Look.Size()
		if err := s.print(s.Look.Frame(last.Lines(width, height))); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case last = <-taken:
		case <-s.Resized:
		case key, ok := <-keys:
			if !ok {
				keys = nil
			} else if key == 'q' || key == 'Q' || key == interrupt || key == endOfInput {
				return nil
			}
		}
	}
}

func (s *Screen) print(text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}
