package core

import (
	"strconv"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Server is what a server said about itself on the connection on which its marker was read. Like
// Knowledge and Judgement, it is a value: each caller has its own, and Judge changes none.
type Server struct {
	RunID    string
	ReplID   string
	Promoted bool  // it was a replica before it was a master
	Recalls  int64 // for how many milliseconds at least it remembers that
	MaxTTL   int64 // the client's, in milliseconds
	Durable  bool  // a restart loses nothing
	Tells    bool  // it says whether it is durable
	Hides    bool  // it said who it is before, and no longer does
}

// Judgement is what a marker means to a client.
type Judgement struct {
	Votes  bool
	Forgot bool       // the server lost what it held when the client last knew it as active
	Change *wire.Swap // to be made; nil for none
}

// Knowledge is what a client knows besides the marker.
type Knowledge struct {
	Known  string       // the incarnation under which it last knew the server as active; empty for none
	Early  bool         // too early to trust an incarnation that was active when the client first saw it
	Own    bool         // no other node of the client has that incarnation, as told since it was read
	MaxTTL int64        // in milliseconds
	Now    int64        // the server's time in milliseconds; 0 if not known yet
	Claim  record.Place // the member that the server is, if it forgot it; zero if that is not known

	// Watched: all that the server can have forgotten before we connected to it has expired.
	Watched bool
}

// Judge decides whether a server votes by its marker, and what to write. It is the protocol of
// internal/proof/search/memory, without the new cluster (../admission.go).
func (s Server) Judge(m record.Marker, v Knowledge) Judgement {
	known, maxTTL := v.Known, v.MaxTTL
	if m.State == record.MarkerLater {
		return Judgement{}
	}
	j := Judgement{Forgot: known != "" && (m.State != record.MarkerActive || m.Incarnation != known)}
	switch {
	case m.State == record.MarkerAbsent && known == "":
		j.Change = s.Quarantine(record.WordNew, maxTTL, m, v.Claim)
	case m.State == record.MarkerAbsent || m.State == record.MarkerUnreadable:
		j.Change = s.Quarantine(record.WordLost, maxTTL, m, v.Claim)
	case s.Named() && !m.Named() && !v.Watched:
		j.Forgot = known != "" // its process may be one that was given less
	case s.replaced(m, v.Own && known == "" || m.Incarnation == known):
		j.Forgot = known != ""
		j.Change = s.Quarantine(record.WordLost, max(maxTTL, m.MaxTTL), m, v.Claim)
	case m.State == record.MarkerActive:
		j.Change = s.refresh(m, maxTTL)
		// Not a different process with the same disk: the marker must name it first. And not a
		// server whose memory replaced the one that the client knew a moment ago: nobody can have
		// waited for MaxTTL since.
		j.Votes = s.Is(m) && !v.Early
	default:
		j.Change = s.wait(m, v)
	}
	return j
}

// Is reports whether the marker was written about this process. A server that does not identify
// itself might be any process. A marker whose writer could not identify the server is judged once
// the server was watched.
func (s Server) Is(m record.Marker) bool { return s.RunID == m.RunID || !s.Named() || !m.Named() }

// Named reports whether the server says who it is.
func (s Server) Named() bool { return s.RunID != record.Unknown }

// Fits reports whether the marker can have been written by a client that was told the same about
// the server.
func (s Server) Fits(m record.Marker) bool {
	return s.Is(m) && (s.ReplID == m.ReplID || s.ReplID == record.Unknown || m.ReplID == record.Unknown)
}

// replaced reports whether the server may hold something else than what this process was given
// since the marker was written: data from a disk that may be old, or from another server. Own says
// that the marker is certainly not that of another node.
func (s Server) replaced(m record.Marker, own bool) bool {
	switch {
	case s.Hides:
		return true
	case s.Is(m):
		// A master that becomes a replica and then a master again has another replication id, and
		// remembers the one that it had as a replica. When the last replica of a master is gone,
		// it also gets another id some time later, and forgets the old one. That is no loss, but
		// cannot be told from a replica's past that is just as old.
		return s.ReplID != record.Unknown && s.ReplID != m.ReplID && m.Named() && (s.Promoted || s.Recalls <= max(s.MaxTTL, m.MaxTTL))
	default:
		return !own || s.Promoted || m.State != record.MarkerActive || !m.Durable || !s.Durable
	}
}

// IsRestart reports whether the server may have restarted with all that it held. It is asked
// before others have said whether one of them has the same marker, and so is no permission to
// vote.
func (s Server) IsRestart(m record.Marker) bool { return !s.Is(m) && !s.replaced(m, true) }

// Quarantine keeps the server from voting until all locks that it may have forgotten have expired.
// Of the marker before, it keeps the words that follow, but for what the server was told; claim is
// the member that it is, if that is known.
func (s Server) Quarantine(word string, maxTTL int64, before record.Marker, claim record.Place) *wire.Swap {
	if claim == (record.Place{}) {
		claim = before.Place().Forgotten()
	}
	m := record.Marker{
		Incarnation: record.NewIncarnation(), RunID: s.RunID, Durable: s.Durable, MaxTTL: maxTTL, ReplID: s.ReplID,
		Words: before.At(claim).Words,
	}
	return &wire.Swap{Begin: word, Rest: m.Rest(), Wait: maxTTL}
}

// wait returns what to write over a marker that keeps the server from voting.
func (s Server) wait(m record.Marker, v Knowledge) *wire.Swap {
	known, maxTTL, now := v.Known, v.MaxTTL, v.Now
	if s.Named() {
		m.RunID = s.RunID
	}
	word := record.WordLost
	if m.State == record.MarkerNew {
		word = record.WordNew
	}
	switch {
	case now != 0 && m.Until > now+m.MaxTTL: // the server's clock was set back since
		m.MaxTTL = max(m.MaxTTL, maxTTL)
		return &wire.Swap{Begin: word, Rest: m.Rest(), Wait: m.MaxTTL}
	case m.State == record.MarkerNew && known != "": // we know that it had been active
		m = m.At(m.Place().Forgotten())
		m.Incarnation = record.NewIncarnation()
		return &wire.Swap{Begin: record.WordLost + " until " + strconv.FormatInt(m.Until, 10), Rest: m.Rest()}
	case m.MaxTTL < maxTTL:
		until := m.Until + maxTTL - m.MaxTTL
		m.MaxTTL = maxTTL
		return &wire.Swap{Begin: word + " until " + strconv.FormatInt(until, 10), Rest: m.Rest()}
	default:
		return &wire.Swap{Begin: record.WordActive, Rest: m.Rest(), Due: m.Until}
	}
}

// refresh returns what to write so that an active marker says what is true now, or nil. Durable is
// withdrawn but never granted: a server that became durable while it ran has its older locks on
// disk only after its first rewrite is complete.
func (s Server) refresh(m record.Marker, maxTTL int64) *wire.Swap {
	now := m
	if s.RunID != record.Unknown {
		now.RunID = s.RunID
	}
	if s.ReplID != record.Unknown {
		now.ReplID = s.ReplID
	}
	if s.Tells && !s.Durable {
		now.Durable = false
	}
	if m.Place().Cluster == "" { // otherwise the cluster's MaxTTL holds, which it has waited for
		now.MaxTTL = max(m.MaxTTL, maxTTL)
	}
	if now == m {
		return nil
	}
	return &wire.Swap{Begin: record.WordActive, Rest: now.Rest()}
}

// TimeLeft returns how long it takes until the change may be made. For a client that only looks,
// it is at least how long the server would wait from the change on.
func (j *Judgement) TimeLeft(now int64, looks bool) time.Duration {
	var left int64
	if j.Change != nil {
		if left = max(0, j.Change.Due-now); looks {
			left = max(left, j.Change.Wait)
		}
	}
	return time.Duration(left) * time.Millisecond
}
