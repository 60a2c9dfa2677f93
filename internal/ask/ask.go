// Package ask asks one master a question that is no part of a lock.
package ask

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Patience is enough for any answer of a master that is well.
const Patience = 2 * time.Second

// Master is a master that is asked.
type Master struct {
	Node     *pipeline.Node
	Clock    clock.Clock
	Patience time.Duration // for one answer
}

// Send sends a command, and does not wait for its reply. Its arguments are strings, byte slices and
// integers.
func (m *Master) Send(name string, args ...any) Reply {
	return m.do(&pipeline.Request{Words: pipeline.Command(append([]any{name}, args...)...)})
}

// Run is Send for a script on one key.
func (m *Master) Run(script *pipeline.Script, key string, args ...any) Reply {
	return m.do(&pipeline.Request{Script: script, Words: pipeline.On([]string{key}, args...)})
}

func (m *Master) do(r *pipeline.Request) Reply {
	w := make(Reply, 1)
	r.Deadline, r.Sink = m.Clock.Now().Add(m.Patience), w
	m.Node.Do(pipeline.Call{Request: r})
	return w
}

// Reply receives the reply to one request. It has room for it.
type Reply chan answer

type answer struct {
	reply any
	err   error
}

// Complete takes the reply.
func (w Reply) Complete(_ int, reply any, err error) { w <- answer{reply, err} }

// Wait waits for the reply, or until ctx ends: then the error is its cause.
// [RefusalOf] tells what the server said if it refused the request.
func (w Reply) Wait(ctx context.Context) (any, error) {
	select {
	case a := <-w:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// RefusalOf returns the server's error if it refused a request; nil for all other errors.
func RefusalOf(err error) error {
	var call *pipeline.CallError
	if errors.As(err, &call) && call.Fate == pipeline.Refused {
		return call.Err
	}
	return nil
}

// IsAboutKey reports whether the server refused the key, not the command. It looks at the command
// first.
func IsAboutKey(refusal error) bool {
	text := refusal.Error()
	return strings.Contains(text, "access") && strings.Contains(text, " key")
}

// Text returns a reply that is a text; "" for any other.
func Text(reply any) string {
	bulk, _ := reply.([]byte)
	return string(bulk)
}

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Literal returns the pattern of Redis that matches this text only.
func Literal(text string) string { return literal.Replace(text) }

// TimeOf parses a reply to TIME: seconds, and microseconds.
func TimeOf(reply any) (time.Time, bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(Text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(Text(parts[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err == nil && err2 == nil
}

// Fields adds the lines of a reply to INFO to fields.
func Fields(reply any, fields map[string]string) {
	for line := range strings.Lines(Text(reply)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[pipeline.PrintableLine(name)] = pipeline.PrintableLine(value)
		}
	}
}
