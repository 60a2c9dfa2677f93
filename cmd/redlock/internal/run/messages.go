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

// messages are what redlock run itself prints, on stderr: stdout belongs to the command.
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

// say writes one line. If stderr cannot be written, nobody is left to tell.
func (m messages) say(event, format string, args ...any) {
	if !m.quiet {
		_, _ = m.w.Write(m.line(event, fmt.Sprintf(format, args...))) //nolint:errcheck // see above
	}
}

// line returns a message as it is written.
func (m messages) line(event, text string) []byte {
	if m.json {
		// Strings always encode.
		if encoded, err := json.Marshal(message{event, m.name, text}); err == nil {
			return append(encoded, '\n')
		}
	}
	return []byte("redlock: " + text + "\n")
}

// dropped returns the line about messages that an outbox had no room for.
func (m messages) dropped(n int) []byte {
	return m.line("dropped", fmt.Sprintf("%d messages were dropped: stderr was not read in time", n))
}

// end prints an error that has a status, and returns the status alone. Nodes may know more than the
// error.
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

// maxOwner is the library's limit.
const maxOwner = 256

// defaultOwner names the holder of a lock for people: user@host:pid.
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
