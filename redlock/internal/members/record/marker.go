// Package record is what masters keep about a cluster, as text and as values: the marker, the
// register, the versions of the list of members, and the lives that markers tell of. Nothing here
// decides anything, asks a master, or changes what it was given, but for [Lives].
package record

import (
	"crypto/rand"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Marker is what a server's memory key says about it. The first client that connects to a server
// writes it. It is gone or different after the server has lost what it held, so reading it proves
// that nothing was forgotten (internal/proof/search/memory).
//
//	absent ──▶ new until T ──T, or a new cluster──▶ active
//	  │            │                                 │
//	  └────────────┴──evidence that it forgot──▶ lost until T ──T──▶ active
//
// Each arrow is a compare-and-set of the whole text (memory.lua).
//
// Words of the form name=value may follow. Clients keep those that they do not know, so that a
// later version can add what it needs while earlier ones are still at work. One that earlier ones
// must not overlook comes with needs=N: a client of a format below N neither counts this server's
// vote nor changes the marker.
type Marker struct {
	State       MarkerState
	Until       int64  // T of new and lost: milliseconds since 1970, by the server's clock
	Incarnation string // random; a new one at each change to new or lost
	RunID       string // of the process that it was written about; may be unknown
	Durable     bool   // the server wrote every command to disk before it answered
	MaxTTL      int64  // the longest time to live of a lock, in milliseconds
	ReplID      string // of that process; may be unknown
	Words       string // name=value words that follow, as they were read
}

// MarkerState is what a marker says of its server's memory.
type MarkerState uint8

// The states of markers.
const (
	MarkerAbsent     MarkerState = iota // there is none
	MarkerUnreadable                    // not written by this library
	MarkerNew                           // there was none, and its writer did not know the server as active
	MarkerLost                          // the server has forgotten what it held
	MarkerActive                        // it votes
	MarkerLater                         // of a later format, by which this client may not act
)

// markerFormat is the format of markers that this client knows.
const markerFormat = 1

// The words of a marker.
const (
	WordNew    = "new"
	WordLost   = "lost"
	WordActive = "active"
	Unknown    = "-"
	wordNeeds  = "needs="
)

// ParseMarker reads the text of a memory key.
func ParseMarker(text string) Marker {
	if text == "" {
		return Marker{}
	}
	m := Marker{}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case WordActive:
		m.State = MarkerActive
	case WordNew:
		m.State = MarkerNew
	case WordLost:
		m.State = MarkerLost
	default:
		return Marker{State: MarkerUnreadable}
	}
	fields := strings.Split(rest, " ")
	ok := true
	if needs(fields) > markerFormat {
		return Marker{State: MarkerLater}
	}
	if m.State != MarkerActive {
		if ok = len(fields) > 2 && fields[0] == "until"; ok {
			m.Until, ok = number(fields[1], maxMarkerTime)
			fields = fields[2:]
		}
	}
	if ok = ok && len(fields) >= 5 && !slices.Contains(fields, "") && !slices.ContainsFunc(fields[5:], isNoPair); ok {
		m.Words = strings.Join(fields[5:], " ")
		m.Incarnation, m.RunID, m.Durable, m.ReplID = fields[0], fields[1], fields[2] == "1", fields[4]
		m.MaxTTL, ok = number(fields[3], maxMarkerTTL)
	}
	if !ok || fields[2] != "0" && fields[2] != "1" {
		return Marker{State: MarkerUnreadable}
	}
	return m
}

// IsNew reports whether nobody who wrote the marker, or would write it, has known the server.
func (m Marker) IsNew() bool { return m.State == MarkerNew || m.State == MarkerAbsent }

// Waits reports whether the marker keeps its server from voting for a time.
func (m Marker) Waits() bool { return m.State == MarkerNew || m.State == MarkerLost }

// isNoPair reports whether a word is not of the form name=value.
func isNoPair(word string) bool { return strings.Index(word, "=") < 1 }

// needs returns the format that a client must know to act by a marker with these fields.
func needs(fields []string) (format int64) {
	format = markerFormat
	for _, field := range fields {
		if text, found := strings.CutPrefix(field, wordNeeds); found {
			n, ok := number(text, math.MaxInt64)
			if !ok {
				return math.MaxInt64
			}
			format = max(format, n)
		}
	}
	return format
}

// NewIncarnation returns a name for the memory of a server from now on. Nobody has had it, so a
// marker that names it was written after this, and not restored from before.
func NewIncarnation() string { return rand.Text() }

// number parses a positive number up to a limit.
func number(text string, limit int64) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && n <= limit
}

// Larger numbers make a marker unreadable.
const (
	maxMarkerTTL  = 24 * 60 * 60 * 1000 // milliseconds: the limit of WithMaxTTL
	maxMarkerTime = wire.MaxMarkerTime
)

// Rest returns the part of the text that follows the state.
func (m Marker) Rest() string {
	durable := "0"
	if m.Durable {
		durable = "1"
	}
	rest := strings.Join([]string{m.Incarnation, m.RunID, durable, strconv.FormatInt(m.MaxTTL, 10), m.ReplID}, " ")
	if m.Words != "" {
		rest += " " + m.Words
	}
	return rest
}

// Named reports whether the marker says which process it was written about. A user without access
// to INFO cannot say it.
func (m Marker) Named() bool { return m.RunID != Unknown }
