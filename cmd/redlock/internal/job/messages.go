package job

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// Messages are what redlock itself prints while it runs a command, on stderr: stdout belongs to the
// command.
type Messages struct {
	W     io.Writer
	Quiet bool // only failures are printed
	JSON  bool
	Name  string // of the lock
}

// message is a line of --json. Its field names are documented (docs/command.md).
type message struct {
	Event   string `json:"event"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// Say writes one line, unless told to be quiet.
func (m Messages) Say(event, format string, args ...any) {
	if !m.Quiet {
		m.Warn(event, format, args...)
	}
}

// Warn writes one line about a failure. If stderr cannot be written, nobody is left to tell.
func (m Messages) Warn(event, format string, args ...any) {
	_, _ = m.W.Write(m.line(event, fmt.Sprintf(format, args...))) //nolint:errcheck // see above
}

// line returns a message as it is written.
func (m Messages) line(event, text string) []byte {
	text = prose.Readable(text)
	if m.JSON {
		// Strings always encode.
		if encoded, err := json.Marshal(message{event, m.Name, text}); err == nil {
			return append(encoded, '\n')
		}
	}
	return []byte("redlock: " + text + "\n")
}

// Dropped returns the line about messages that an [Outbox] had no room for.
func (m Messages) Dropped(n int) []byte {
	return m.line("dropped", fmt.Sprintf("%d messages were dropped: stderr was not read in time", n))
}

// Events that end a command and are no failures.
const (
	Taken       = "taken"
	Interrupted = "interrupted"
)

// End prints an error that has a status, and returns the status alone. Nodes may know more than the
// error.
func (m Messages) End(event string, err error, nodes ...redlock.NodeStats) error {
	text := cli.Explain(err, nodes...)
	if m.JSON {
		text = strings.ReplaceAll(text, "\n  ", "; ")
	}
	if event == Taken || event == Interrupted { // which are no failures
		m.Say(event, "%s", text)
	} else {
		m.Warn(event, "%s", text)
	}
	return cli.StatusError{Status: cli.ExitStatus(err)}
}

// NewLogger returns a logger for --verbose.
func NewLogger(w io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(prose.Readable(err.Error()))
		}
		return a
	}}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
