//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
)

// now is the clock that all processes of this machine share.
func now() clock.Instant { return clock.System().Now() }

// The types of events.
const (
	gotEvent     = "got"     // a lock was acquired
	voidEvent    = "void"    // it was acquired, but its validity was over at the first look
	renewedEvent = "renewed" // its validity is longer than was written before
	endEvent     = "end"     // the client ceased to believe in it; Unlock has not begun
	pushEvent    = "push"    // tasks are about to be enqueued
	pushedEvent  = "pushed"  // they were, or nobody knows
	popEvent     = "pop"     // tasks are about to be popped
	poppedEvent  = "popped"  // they were, or nobody knows
	oddEvent     = "odd"     // something that must not happen
)

// event is a line in the file of a client.
type event struct {
	Type    string        `json:"t"`
	ID      int64         `json:"i,omitempty"` // of the hold or the call, in its process
	At      clock.Instant `json:"at"`
	Kind    string        `json:"k,omitempty"`
	Names   []string      `json:"n,omitempty"`
	Call    clock.Instant `json:"call,omitempty"`  // when the acquisition was called
	Begin   clock.Instant `json:"begin,omitempty"` // when the round began that won; not before Call
	Until   clock.Instant `json:"until,omitempty"` // the end of the validity, or earlier
	Taken   clock.Instant `json:"taken,omitempty"` // the end of the minimum hold
	Token   int64         `json:"token,omitempty"`
	Value   string        `json:"v,omitempty"`
	Shared  bool          `json:"shared,omitempty"`
	Permits int           `json:"permits,omitempty"`
	Tasks   []string      `json:"tasks,omitempty"`
	Doubt   bool          `json:"doubt,omitempty"` // of a push or pop: it may not have happened
	Text    string        `json:"text,omitempty"`
}

// journal is the file of a client. Each event is written at once, so that a killed process has told
// all it did.
type journal struct {
	ids atomic.Int64

	mu   sync.Mutex // guards the file
	file *os.File
}

func newJournal(path string) (*journal, error) {
	file, err := os.Create(path)
	return &journal{file: file}, err
}

func (j *journal) write(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers only
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		panic(err) // without its file the client proves nothing
	}
}

func (j *journal) odd(text string) { j.write(event{Type: oddEvent, At: now(), Text: text}) }

// readJournal returns the events of a client. The last line of a killed one may be torn.
func readJournal(path string) (events []event, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, line)
		}
		events = append(events, e)
	}
	return events, nil
}
