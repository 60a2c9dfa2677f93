package members

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// marker is what a server's memory key says about it. The first client that connects to a server
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
type marker struct {
	state       markerState
	until       int64  // T of new and lost: milliseconds since 1970, by the server's clock
	incarnation string // random; a new one at each change to new or lost
	runID       string // of the process that it was written about; may be unknown
	durable     bool   // the server wrote every command to disk before it answered
	maxTTL      int64  // the longest time to live of a lock, in milliseconds
	replID      string // of that process; may be unknown
	words       string // name=value words that follow, as they were read
}

type markerState uint8

const (
	markerAbsent     markerState = iota
	markerUnreadable             // not written by this library
	markerNew                    // there was none, and its writer did not know the server as active
	markerLost                   // the server has forgotten what it held
	markerActive                 // it votes
	markerLater                  // of a later format, by which this client may not act
)

// markerFormat is the format of markers that this client knows.
const markerFormat = 1

// The words of a marker.
const (
	wordNew    = "new"
	wordLost   = "lost"
	wordActive = "active"
	unknown    = "-"
	wordNeeds  = "needs="
)

// parseMarker reads the text of a memory key.
func parseMarker(text string) marker {
	if text == "" {
		return marker{}
	}
	m := marker{}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case wordActive:
		m.state = markerActive
	case wordNew:
		m.state = markerNew
	case wordLost:
		m.state = markerLost
	default:
		return marker{state: markerUnreadable}
	}
	fields := strings.Split(rest, " ")
	ok := true
	if needs(fields) > markerFormat {
		return marker{state: markerLater}
	}
	if m.state != markerActive {
		if ok = len(fields) > 2 && fields[0] == "until"; ok {
			m.until, ok = number(fields[1], maxMarkerTime)
			fields = fields[2:]
		}
	}
	if ok = ok && len(fields) >= 5 && !slices.Contains(fields, "") && !slices.ContainsFunc(fields[5:], isNoPair); ok {
		m.words = strings.Join(fields[5:], " ")
		m.incarnation, m.runID, m.durable, m.replID = fields[0], fields[1], fields[2] == "1", fields[4]
		m.maxTTL, ok = number(fields[3], maxMarkerTTL)
	}
	if !ok || fields[2] != "0" && fields[2] != "1" {
		return marker{state: markerUnreadable}
	}
	return m
}

// isNew reports whether nobody who wrote the marker, or would write it, has known the server.
func (m marker) isNew() bool { return m.state == markerNew || m.state == markerAbsent }

// waits reports whether the marker keeps its server from voting for a time.
func (m marker) waits() bool { return m.state == markerNew || m.state == markerLost }

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

// rest returns the part of the text that follows the state.
func (m marker) rest() string {
	durable := "0"
	if m.durable {
		durable = "1"
	}
	rest := strings.Join([]string{m.incarnation, m.runID, durable, strconv.FormatInt(m.maxTTL, 10), m.replID}, " ")
	if m.words != "" {
		rest += " " + m.words
	}
	return rest
}
