package run

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/redlock"
)

// messages are what redlock run has to say for itself, on stderr: the command has stdout.
type messages struct {
	w     io.Writer
	quiet bool
	json  bool
	name  string
}

// message is a line of --json. Its field names are documented (docs/command.md).
type message struct {
	Event   string `json:"event"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// say writes one line. When nobody takes it any more there is nobody to tell so.
func (m messages) say(event, format string, args ...any) {
	if !m.quiet {
		_, _ = m.w.Write(m.line(event, fmt.Sprintf(format, args...))) //nolint:errcheck // see above
	}
}

// line is a message as it is written.
func (m messages) line(event, text string) []byte {
	if m.json {
		if encoded, err := json.Marshal(message{event, m.name, text}); err == nil { // strings can be encoded
			return append(encoded, '\n')
		}
	}
	return []byte("redlock: " + text + "\n")
}

// dropped is the line about messages that an outbox had no room for.
func (m messages) dropped(n int) []byte {
	return m.line("dropped", fmt.Sprintf("%d messages were dropped: stderr was not read in time", n))
}

// end says what an error with a status has to say, and returns the status alone. Nodes may tell
// more than the error.
func (m messages) end(event string, err error, nodes ...redlock.NodeStats) error {
	text := cli.Explain(err, nodes...)
	if m.json {
		text = strings.ReplaceAll(text, "\n  ", "; ")
	}
	m.say(event, "%s", text)
	return cli.StatusError{Status: cli.ExitStatus(err)}
}

func newLogger(w io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// maxOwner is what the library stores of an owner.
const maxOwner = 256

// defaultOwner says who holds a lock, for people: user@host:pid.
func defaultOwner() string {
	name, host := "?", "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	pid := ":" + strconv.Itoa(os.Getpid())
	owner := name + "@" + host
	return owner[:min(len(owner), maxOwner-len(pid))] + pid
}
