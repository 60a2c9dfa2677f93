package survey

import (
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
)

// Events is what log --json prints. Its field names are documented (redlock help log).
type Events struct {
	Complete bool    `json:"complete"` // a majority of the masters answered
	Events   []Event `json:"events"`   // the oldest first
}

// Event is an entry of the log, or of the history of a name.
type Event struct {
	Millis int64  `json:"time_ms"` // when, by the clock of who wrote it, in Unix time
	ID     string `json:"id"`      // random; the same at each master
	Kind   string `json:"kind"`
	Key    string `json:"key"`    // of the lock: prefix and name; empty if it is about no lock
	Holder string `json:"holder"` // the owner of the lock
	By     string `json:"by"`     // the process that wrote it
	Why    string `json:"why"`

	// Of a history; each may be missing.
	BeganMillis int64 `json:"began_ms,omitempty"`
	SinceMillis int64 `json:"since_ms,omitempty"`
	Status      *int  `json:"status,omitempty"`
	Times       int   `json:"times,omitempty"`
}

// EventsOf returns entries of a log, which has all of them if its error is nil.
func EventsOf(log []admin.Entry, err error) Events {
	told := Events{Complete: err == nil, Events: make([]Event, len(log))}
	for i, e := range log {
		told.Events[i] = Event{
			Millis: e.Time.UnixMilli(), ID: e.ID, Kind: e.Kind, Key: e.Key, Holder: e.Holder, By: e.By, Why: e.Why,
			BeganMillis: millis(e.Began), SinceMillis: millis(e.Since), Status: e.Status, Times: e.Times,
		}
	}
	return told
}

func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// Newest drops all entries but the newest, so many and none from before a time (zero: of all
// times).
func (t *Events) Newest(most int, since time.Time) {
	var newer []Event
	for _, e := range t.Events {
		if e.Millis >= since.UnixMilli() {
			newer = append(newer, e)
		}
	}
	t.Events = append([]Event{}, newer[max(len(newer)-most, 0):]...)
}

// newestHistory is how much of a history an inspection has; the log has all of it.
const newestHistory = 5

// AddHistory adds the newest of the history.
func (i *Inspection) AddHistory(told Events) {
	told.Newest(newestHistory, time.Time{})
	i.History = told.Events
}

// run reports whether the entry is about somebody who had the lock, and tells of that time.
func (e *Event) run() bool {
	switch e.Kind {
	case admin.KindBegan, admin.KindRan, admin.KindCut, admin.KindLost:
		return e.BeganMillis != 0
	default:
		return false
	}
}

// At returns when it happened: of somebody who had the lock, from when on.
func (e *Event) At() int64 {
	if e.run() {
		return e.BeganMillis
	}
	return e.Millis
}

// Says tells what the entry says beside when, who and what.
func (e *Event) Says() string {
	var parts []string
	span := time.Duration(e.Millis-e.BeganMillis) * time.Millisecond
	switch {
	case e.Kind == admin.KindBegan && e.Status == nil:
		parts = append(parts, "no end is noted")
	case e.run():
		parts = append(parts, "after "+prose.Span(span))
	case e.BeganMillis != 0 && span >= time.Second:
		parts = append(parts, "asked for "+prose.Span(span))
	}
	if e.Status != nil {
		parts = append(parts, fmt.Sprintf("exit status %d", *e.Status))
	}
	if e.SinceMillis != 0 {
		parts = append(parts, "held since "+time.UnixMilli(e.SinceMillis).UTC().Format(time.RFC3339))
	}
	if e.Times > 1 {
		parts = append(parts, fmt.Sprintf("%d times", e.Times))
	}
	if e.Why != "" {
		parts = append(parts, e.Why)
	}
	return strings.Join(parts, "; ")
}
