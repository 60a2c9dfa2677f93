package survey

import "github.com/redquorum/redquorum/admin"

// Events is what log --json prints. Its field names are documented (redlock help log).
type Events struct {
	Complete bool    `json:"complete"` // a majority of the masters answered
	Events   []Event `json:"events"`   // the oldest first
}

// Event is an entry of the log.
type Event struct {
	Millis int64  `json:"time_ms"` // when, by the clock of who wrote it, in Unix time
	ID     string `json:"id"`      // random; the same at each master
	Kind   string `json:"kind"`
	Key    string `json:"key"`    // of the lock: prefix and name; empty if it is about no lock
	Holder string `json:"holder"` // the owner of the lock
	By     string `json:"by"`     // the process that wrote it
	Why    string `json:"why"`
}

// EventsOf returns entries of a log, which has all of them if its error is nil.
func EventsOf(log []admin.Entry, err error) Events {
	told := Events{Complete: err == nil, Events: make([]Event, len(log))}
	for i, e := range log {
		told.Events[i] = Event{e.Time.UnixMilli(), e.ID, e.Kind, e.Key, e.Holder, e.By, e.Why}
	}
	return told
}
