package members

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// marker is what a server's memory key says about it (docs/design.md). The first client that
// connects to a server writes it. It is gone or different after the server has lost what it held,
// so reading it proves that nothing was forgotten.
//
//	absent ──▶ new until T ──T, or a new cluster──▶ active
//	  │            │                                 │
//	  └────────────┴──evidence that it forgot──▶ lost until T ──T──▶ active
//
// Each arrow is a compare-and-set of the whole text (memory.lua).
type marker struct {
	state       markerState
	until       int64  // T of new and lost: milliseconds since 1970, by the server's clock
	incarnation string // random; a new one at each change to new or lost
	runID       string // of the process that it was written about; may be unknown
	durable     bool   // the server wrote every command to disk before it answered
	maxTTL      int64  // the longest time to live of a lock, in milliseconds
	replID      string // of that process; may be unknown
}

type markerState uint8

const (
	markerAbsent     markerState = iota
	markerUnreadable             // not written by this library
	markerNew                    // there was none, and its writer did not know the server as active
	markerLost                   // the server has forgotten what it held
	markerActive                 // it votes
)

// The words of a marker.
const (
	wordNew    = "new"
	wordLost   = "lost"
	wordActive = "active"
	unknown    = "-"
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
	if m.state != markerActive {
		if ok = len(fields) > 2 && fields[0] == "until"; ok {
			m.until, ok = number(fields[1], maxMarkerTime)
			fields = fields[2:]
		}
	}
	if ok = ok && len(fields) == 5 && !slices.Contains(fields, ""); ok {
		m.incarnation, m.runID, m.durable, m.replID = fields[0], fields[1], fields[2] == "1", fields[4]
		m.maxTTL, ok = number(fields[3], maxMarkerTTL)
	}
	if !ok || fields[2] != "0" && fields[2] != "1" {
		return marker{state: markerUnreadable}
	}
	return m
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
	return strings.Join([]string{m.incarnation, m.runID, durable, strconv.FormatInt(m.maxTTL, 10), m.replID}, " ")
}
