package job

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
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

	about *Holder
}

// Holder is who has a lock, as fields of --json.
type Holder struct {
	Owner string `json:"holder"`
	survey.Tenure
}

// About returns messages that have the fields of a holder; nil for none.
func (m Messages) About(h *Holder) Messages {
	m.about = h
	return m
}

// message is a line of --json. Its field names are documented (redlock help run).
type message struct {
	Event   string `json:"event"`
	Name    string `json:"name"`
	Message string `json:"message"`
	*Holder
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
		if encoded, err := json.Marshal(message{event, m.Name, text, m.about}); err == nil {
			return append(prose.GraphicJSON(encoded), '\n')
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

const (
	outboxRoom  = 256 << 10   // bytes that wait to be written: some thousand lines of the log
	outboxBound = time.Second // for what is unread when all is over
)

// Outbox is an io.Writer that never blocks: a stuck reader of stderr must not delay a renewal, a
// signal or the release. Messages wait in order, up to outboxRoom. More are dropped, and the reader
// is told how many.
type Outbox struct {
	w     io.Writer
	clock clock.Clock
	note  func(dropped int) []byte // tells the reader how many messages were dropped

	mu      sync.Mutex // guards the fields below; never held over a write
	queue   [][]byte   // one message each
	size    int        // bytes in the queue and in the current write
	dropped int
	idle    chan struct{} // closed when everything has been written; nil while idle
}

// NewOutbox returns an outbox for a writer. Note makes the line about messages that were dropped.
func NewOutbox(w io.Writer, clk clock.Clock, note func(int) []byte) *Outbox {
	return &Outbox{w: w, clock: clk, note: note}
}

// Write takes a message. It returns no error: nobody could act on it.
func (o *Outbox) Write(message []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size+len(message) > outboxRoom {
		o.dropped++
		return len(message), nil
	}
	o.queue = append(o.queue, append([]byte(nil), message...)) // the caller may reuse its bytes
	o.size += len(message)
	if o.idle == nil {
		o.idle = make(chan struct{})
		// It ends when all is written, or with the process: flush waits no longer than its bound.
		go o.drain()
	}
	return len(message), nil
}

func (o *Outbox) drain() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 && o.dropped > 0 {
			o.queue = append(o.queue, o.note(o.dropped))
			o.size += len(o.queue[0])
			o.dropped = 0
		}
		if len(o.queue) == 0 {
			close(o.idle)
			o.idle = nil
			o.mu.Unlock()
			return
		}
		message := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		_, _ = o.w.Write(message) //nolint:errcheck // if nobody reads it, nobody is left to tell
		o.mu.Lock()
		o.size -= len(message)
		o.mu.Unlock()
	}
}

// Flush waits until everything is written, at most outboxBound.
func (o *Outbox) Flush() {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return
	}
	late := make(chan struct{})
	timer := o.clock.AfterFunc(outboxBound, func() { close(late) })
	defer timer.Stop()
	select {
	case <-idle:
	case <-late:
	}
}
