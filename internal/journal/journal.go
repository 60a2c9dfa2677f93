// Package journal is the log that the masters keep of what an operator wants to know afterwards:
// locks that were taken away or lost, how the members changed, and for names that ask for it, who
// had them and who did not get them. Each master has its newest entries; those of all masters
// together are the log. It is bounded, and no lock depends on it.
package journal

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/owner"
)

// Bounds of what a master keeps: 256 KiB in all, and the histories of names.
const (
	Kept     = 256     // entries
	MostSize = 1 << 10 // bytes of one
	Life     = 90 * 24 * time.Hour
)

// Bounds of the histories of names, for each key prefix: 32 MiB in all. Runs and misses are bounded
// apart, so that many who do not get a lock push out none that had it.
const (
	KeptOfName  = 64      // entries about runs of a name, and as many about misses
	MostNames   = 256     // with a history; the name that was used longest ago loses its own
	MostName    = 1 << 10 // bytes of a key that has a history; a longer one has none
	HistoryLife = 30 * 24 * time.Hour
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

// Kinds of entries in the history of a name. Those of a run have its ID ([RunID]). A run that is
// lost is [Lost].
const (
	Began = "began" // it has the lock; of a run that has ended there is an entry with the same ID
	Ran   = "ran"   // and gave it back
	Cut   = "cut"   // and lost it at the end of its maximum hold

	// Misses: whoever wanted the lock did not get it, or made nothing of it.
	Refused  = "refused"   // somebody else had it
	NoQuorum = "no-quorum" // too few masters answered
	Missed   = "missed"    // anything else, such as a wait that was given up
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

	// Of the history of a name.
	BeganMillis int64 `json:"began_ms,omitempty"` // when the lock was acquired, or first asked for
	SinceMillis int64 `json:"since_ms,omitempty"` // of a miss: when the holder asked for it, by its clock; 0: unknown
	Status      *int  `json:"status,omitempty"`   // the exit status of the command that ran
	Times       int   `json:"times,omitempty"`    // of misses that one entry tells of; 0 for one

	AskHolder bool `json:"-"` // each master adds whoever has the key when it takes the entry
}

// Run reports whether an entry is about somebody who had the lock.
func (e *Entry) Run() bool {
	return e.Kind == Began || e.Kind == Ran || e.Kind == Cut || e.Kind == Lost
}

// RunID returns the ID of the entries about the lock with that value. The value cannot be found
// from it: whoever knows that could release the lock.
func RunID(value string) string {
	sum := sha256.Sum256([]byte(value))
	return base32.StdEncoding.EncodeToString(sum[:8])[:12]
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
	cut.Key = strings.ToValidUTF8(cut.Key, "\ufffd") // not one of these for each byte, as JSON does
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
			if e, ok := decode(text); ok {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Millis, b.Millis), cmp.Compare(a.ID, b.ID)) })
	at := map[string]int{}
	var log []Entry
	for _, e := range all {
		i, again := at[e.ID]
		switch {
		case !again:
			at[e.ID] = len(log)
			log = append(log, e)
		case log[i].Kind == Began, log[i].BeganMillis == 0 && e.BeganMillis != 0, log[i].Holder == "" && e.Holder != "":
			// The end of a run says more than its beginning, and the entry of whoever ran more than
			// that in the log of all names; and some masters may know who had it. It keeps the
			// place of the beginning: so runs are in the order in which they had the lock.
			log[i] = e
		}
	}
	return log
}

// decode reads an entry as a master has it: the text of the entry, and behind a line break what the
// master told of the holder, without the random digits of the value. Whoever came after the miss is
// not the holder that it met.
func decode(text string) (e Entry, ok bool) {
	text, value, told := strings.Cut(text, "\n")
	if json.Unmarshal([]byte(text), &e) != nil || e.ID == "" {
		return e, false
	}
	if holder, since, _ := owner.Of(value); told && e.Holder == "" && since.UnixMilli() <= e.Millis {
		e.Holder = owner.Shown(strings.ToValidUTF8(holder, "?"))
		if !since.IsZero() {
			e.SinceMillis = since.UnixMilli()
		}
	}
	return e, true
}

// About returns the entries about one key. Of a long key, and one that is not UTF-8, entries have
// what [Entry.Encode] leaves.
func About(key string, log []Entry) []Entry {
	key = strings.ToValidUTF8(key, "\ufffd")
	return slices.DeleteFunc(log, func(e Entry) bool {
		begins, cut := strings.CutSuffix(e.Key, "…")
		return e.Key != key && !(cut && strings.HasPrefix(key, begins))
	})
}
