package top

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// CanShow reports whether there is a terminal that top can draw on.
func CanShow(in io.Reader, out io.Writer) bool {
	return isTerminal(in) && isTerminal(out) && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// ErrNoTerminal says that there is nothing to draw on.
var ErrNoTerminal = cli.Usagef("top draws on a terminal, and there is none that it can draw on; redlock list prints the locks once")

// Show draws on the terminal until somebody has seen enough, or ctx ends. It returns
// [ErrNoTerminal] if there is none. When it returns, no function of the Config is being called.
func Show(ctx context.Context, in io.Reader, out io.Writer, c Config) error {
	if !CanShow(in, out) {
		return ErrNoTerminal
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Nobody waits for what the program calls, and what it is about to call may still begin behind
	// its end.
	var calls sync.RWMutex // held for reading by each call; guards the field below
	ended := false
	defer func() {
		stop()
		calls.Lock()
		defer calls.Unlock()
		ended = true
	}()
	m := newModel(c)
	m.do = func(work func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg {
			calls.RLock()
			defer calls.RUnlock()
			if ended {
				return nil
			}
			return work(ctx)
		}
	}
	options := []tea.ProgramOption{tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()}
	if os.Getenv("NO_COLOR") != "" {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	p := tea.NewProgram(m, options...)
	// A context of the program's own would end it without waiting for the reader of the terminal.
	defer context.AfterFunc(ctx, p.Quit)()
	_, err := p.Run()
	return err
}
