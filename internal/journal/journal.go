// Package journal is the log that the masters keep of what an operator wants to know afterwards:
// locks that were taken away or lost, and how the members changed. Each master has its newest
// entries; those of all masters together are the log. It is bounded, and no lock depends on it.
package journal

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Bounds of what a master keeps: 256 KiB in all.
const (
	Kept     = 256     // entries
	MostSize = 1 << 10 // bytes of one
	Life     = 90 * 24 * time.Hour
)

// Kinds of entries.
const (
	Forced = "forced" // somebody took a lock away from its holder
	Lost   = "lost"   // a holder lost its lock

	// Changes of the cluster's list of members. Each version has one ID, whoever notes it.
	Added   = "added"
	Removed = "removed"
	MaxTTL  = "max-ttl"
)

// Entry is one line of the log. Its field names are documented (redlock help log).
type Entry struct {
	Millis int64  `json:"time_ms"` // when, by the clock of who wrote it, in Unix time
	ID     string `json:"id"`      // random; the same at each master
	Kind   string `json:"kind"`
	Key    string `json:"key"`    // of the lock: prefix and name; empty if it is about no lock
	Holder string `json:"holder"` // the owner of the lock
	By     string `json:"by"`     // the process that wrote it
	Why    string `json:"why"`
}

// ErrChanged says that a lock has another holder than the one from which it was to be taken.
var ErrChanged = errors.New("its holder has changed meanwhile")

// Taken is what a forced release took from its holder.
type Taken struct {
	Value    string        // that most masters held; empty if none held anything
	Left     time.Duration // how long the holder can go on without noticing
	Unlogged error         // why no quorum has an entry of it
}

// Stamp gives an entry its time, and an ID if it has none.
func (e *Entry) Stamp(now time.Time) {
	e.Millis, e.ID = now.UnixMilli(), cmp.Or(e.ID, rand.Text()[:12])
}

// Encode returns an entry as the masters store it. Long texts are cut.
func (e *Entry) Encode() string {
	cut := *e
	for most := MostSize; ; most /= 2 {
		for _, text := range []*string{&cut.Key, &cut.Holder, &cut.By, &cut.Why} {
			if len(*text) > most {
				*text = strings.ToValidUTF8((*text)[:most], "") + "…"
			}
		}
		if text, err := json.Marshal(cut); err != nil || len(text) <= MostSize { // strings always encode
			return string(text)
		}
	}
}

// Merge returns what several masters have as one log, the oldest entry first. What is no entry is
// skipped.
func Merge(masters [][]string) []Entry {
	var all []Entry
	for _, texts := range masters {
		for _, text := range texts {
			var e Entry
			if json.Unmarshal([]byte(text), &e) == nil && e.ID != "" {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Millis, b.Millis), cmp.Compare(a.ID, b.ID)) })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(e Entry) bool {
		again := seen[e.ID]
		seen[e.ID] = true
		return again
	})
}
