package top

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// CanShow reports whether there is a terminal that top can draw on.
func CanShow(in io.Reader, out io.Writer) bool {
	keyboard, ok := in.(*os.File)
	return ok && term.IsTerminal(int(keyboard.Fd())) && terminal.LookOf(out).Live
}

// Show draws snapshots on the terminal. It returns [ErrNoTerminal] if there is none.
func Show(ctx context.Context, in io.Reader, out io.Writer, interval time.Duration, take func(context.Context) Snapshot) (err error) {
	if !CanShow(in, out) {
		return ErrNoTerminal
	}
	keyboard := in.(*os.File)
	before, err := term.MakeRaw(int(keyboard.Fd()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, term.Restore(int(keyboard.Fd()), before)) }()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	resized, end := watchSize()
	defer end()
	s := Screen{Look: terminal.LookOf(out), Out: out, Keys: typed(keyboard), Resized: resized, Interval: interval, Take: take}
	return s.Run(ctx)
}

// ErrNoTerminal says that there is nothing to draw on.
var ErrNoTerminal = cli.Usagef("top draws on a terminal, and there is none that it can draw on; redlock list prints the locks once")

// typed returns what is typed. Its goroutine ends with the program: a read of a terminal cannot be
// interrupted.
func typed(keyboard io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var key [1]byte
		for {
			if _, err := keyboard.Read(key[:]); err != nil {
				return
			}
			keys <- key[0]
		}
	}()
	return keys
}
