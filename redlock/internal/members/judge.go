package members

import (
	"crypto/rand"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// server is what a server said about itself on the connection on which its marker was read.
type server struct {
	runID    string
	replID   string
	promoted bool  // it was a replica before it was a master
	recalls  int64 // for how many milliseconds at least it remembers that
	maxTTL   int64 // the client's, in milliseconds
	durable  bool  // a restart loses nothing
	tells    bool  // it says whether it is durable
	hides    bool  // it said who it is before, and no longer does
}

func serverOf(id pipeline.Identity, maxTTL time.Duration) server {
	s := server{runID: id.RunID, replID: id.ReplID, promoted: id.Promoted, tells: id.TellsDurable}
	s.recalls, s.maxTTL = id.BacklogTTL.Milliseconds(), maxTTL.Milliseconds()
	// A restart erases that it was a replica. So a server that has replicas, and might be made a
	// replica of one of them that knows less, is not trusted to come back with all that it held.
	s.durable = id.Durable && !id.Replicated && !id.Promoted
	if !record.IsWord(s.runID) {
		s.runID = record.Unknown
	}
	if !record.IsWord(s.replID) {
		s.replID = record.Unknown
	}
	return s
}

// judgement is what a marker means to a client.
type judgement struct {
	votes  bool
	forgot bool       // the server lost what it held when the client last knew it as active
	change *wire.Swap // to be made; nil for none
}

// knowledge is what a client knows besides the marker.
type knowledge struct {
	known  string       // the incarnation under which it last knew the server as active; empty for none
	early  bool         // too early to trust an incarnation that was active when the client first saw it
	own    bool         // no other node of the client has that incarnation, as told since it was read
	maxTTL int64        // in milliseconds
	now    int64        // the server's time in milliseconds; 0 if not known yet
	claim  record.Place // the member that the server is, if it forgot it; zero if that is not known

	// watched: all that the server can have forgotten before we connected to it has expired.
	watched bool
}

// judge decides whether a server votes by its marker, and what to write. It is the protocol of
// internal/proof/search/memory, without the new cluster (admission.go).
func (s server) judge(m record.Marker, v knowledge) judgement {
	known, maxTTL := v.known, v.maxTTL
	if m.State == record.MarkerLater {
		return judgement{}
	}
	j := judgement{forgot: known != "" && (m.State != record.MarkerActive || m.Incarnation != known)}
	switch {
	case m.State == record.MarkerAbsent && known == "":
		j.change = s.quarantine(record.WordNew, maxTTL, m, v.claim)
	case m.State == record.MarkerAbsent || m.State == record.MarkerUnreadable:
		j.change = s.quarantine(record.WordLost, maxTTL, m, v.claim)
	case s.named() && !m.Named() && !v.watched:
		j.forgot = known != "" // its process may be one that was given less
	case s.replaced(m, v.own && known == "" || m.Incarnation == known):
		j.forgot = known != ""
		j.change = s.quarantine(record.WordLost, max(maxTTL, m.MaxTTL), m, v.claim)
	case m.State == record.MarkerActive:
		j.change = s.refresh(m, maxTTL)
		// Not a different process with the same disk: the marker must name it first. And not a
		// server whose memory replaced the one that the client knew a moment ago: nobody can have
		// waited for MaxTTL since.
		j.votes = s.is(m) && !v.early
	default:
		j.change = s.wait(m, v)
	}
	return j
}

// is reports whether the marker was written about this process. A server that does not say who it
// is might be any; and a marker whose writer could not say it is judged once it was watched.
func (s server) is(m record.Marker) bool { return s.runID == m.RunID || !s.named() || !m.Named() }

// named reports whether the server says who it is.
func (s server) named() bool { return s.runID != record.Unknown }

// fits reports whether the marker can have been written by a client that was told the same about
// the server.
func (s server) fits(m record.Marker) bool {
	return s.is(m) && (s.replID == m.ReplID || s.replID == record.Unknown || m.ReplID == record.Unknown)
}

// replaced reports whether the server may hold something else than what this process was given
// since the marker was written: data from a disk that may be old, or from another server. Own says
// that the marker is certainly not that of another node.
func (s server) replaced(m record.Marker, own bool) bool {
	switch {
	case s.hides:
		return true
	case s.is(m):
		// A master that becomes a replica and then a master again has another replication id, and
		// remembers the one that it had as a replica. When the last replica of a master is gone, it
		// also gets another id some time later, and forgets the old one. That is no loss, but
		// cannot be told from a replica's past that is just as old.
		return s.replID != record.Unknown && s.replID != m.ReplID && m.Named() && (s.promoted || s.recalls <= max(s.maxTTL, m.MaxTTL))
	default:
		return !own || s.promoted || m.State != record.MarkerActive || !m.Durable || !s.durable
	}
}

// isRestart reports whether the server may have restarted with all that it held.
func (s server) isRestart(m record.Marker) bool { return !s.is(m) && !s.replaced(m, true) }

// quarantine keeps the server from voting until all locks that it may have forgotten have expired.
// Of the marker before, it keeps the words that follow, but for what the server was told; claim is
// the member that it is, if that is known.
func (s server) quarantine(word string, maxTTL int64, before record.Marker, claim record.Place) *wire.Swap {
	if claim == (record.Place{}) {
		claim = before.Place().Forgotten()
	}
	m := record.Marker{
		Incarnation: newIncarnation(), RunID: s.runID, Durable: s.durable, MaxTTL: maxTTL, ReplID: s.replID,
		Words: before.At(claim).Words,
	}
	return &wire.Swap{Begin: word, Rest: m.Rest(), Wait: maxTTL}
}

// wait returns what to write over a marker that keeps the server from voting.
func (s server) wait(m record.Marker, v knowledge) *wire.Swap {
	known, maxTTL, now := v.known, v.maxTTL, v.now
	if s.named() {
		m.RunID = s.runID
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
		m.Incarnation = newIncarnation()
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
func (s server) refresh(m record.Marker, maxTTL int64) *wire.Swap {
	now := m
	if s.runID != record.Unknown {
		now.RunID = s.runID
	}
	if s.replID != record.Unknown {
		now.ReplID = s.replID
	}
	if s.tells && !s.durable {
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

// newIncarnation returns a name for the memory of a server from now on.
func newIncarnation() string { return rand.Text() }
