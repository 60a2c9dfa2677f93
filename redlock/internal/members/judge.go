package members

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
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
	if !isWord(s.runID) {
		s.runID = unknown
	}
	if !isWord(s.replID) {
		s.replID = unknown
	}
	return s
}

// isWord reports whether a text can be part of a marker and be read back.
func isWord(text string) bool { return len(text) <= maxWord && isGraphic(text) }

// isGraphic reports whether a text is of the characters of ASCII that can be seen, as are endpoints
// of our own.
func isGraphic(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

const maxWord = 128 // three times the longest one known

// judgement is what a marker means to a client.
type judgement struct {
	votes  bool
	forgot bool       // the server lost what it held when the client last knew it as active
	change *wire.Swap // to be made; nil for none
}

// knowledge is what a client knows besides the marker.
type knowledge struct {
	known  string // the incarnation under which it last knew the server as active; empty for none
	early  bool   // too early to trust an incarnation that was active when the client first saw it
	own    bool   // no other node of the client has that incarnation, as told since it was read
	maxTTL int64  // in milliseconds
	now    int64  // the server's time in milliseconds; 0 if not known yet
	claim  place  // the member that the server is, if it forgot it; zero if that is not known

	// watched: all that the server can have forgotten before we connected to it has expired.
	watched bool
}

// judge decides whether a server votes by its marker, and what to write. It is the protocol of
// internal/proof/search/memory, without the new cluster (admission.go).
func (s server) judge(m marker, v knowledge) judgement {
	known, maxTTL := v.known, v.maxTTL
	if m.state == markerLater {
		return judgement{}
	}
	j := judgement{forgot: known != "" && (m.state != markerActive || m.incarnation != known)}
	switch {
	case m.state == markerAbsent && known == "":
		j.change = s.quarantine(wordNew, maxTTL, m, v.claim)
	case m.state == markerAbsent || m.state == markerUnreadable:
		j.change = s.quarantine(wordLost, maxTTL, m, v.claim)
	case s.named() && !m.named() && !v.watched:
		j.forgot = known != "" // its process may be one that was given less
	case s.replaced(m, v.own && known == "" || m.incarnation == known):
		j.forgot = known != ""
		j.change = s.quarantine(wordLost, max(maxTTL, m.maxTTL), m, v.claim)
	case m.state == markerActive:
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
func (s server) is(m marker) bool { return s.runID == m.runID || !s.named() || !m.named() }

// named reports whether the server says who it is.
func (s server) named() bool { return s.runID != unknown }

// named reports whether the marker says which process it was written about. A user without access
// to INFO cannot say it.
func (m marker) named() bool { return m.runID != unknown }

// fits reports whether the marker can have been written by a client that was told the same about
// the server.
func (s server) fits(m marker) bool {
	return s.is(m) && (s.replID == m.replID || s.replID == unknown || m.replID == unknown)
}

// replaced reports whether the server may hold something else than what this process was given
// since the marker was written: data from a disk that may be old, or from another server. Own says
// that the marker is certainly not that of another node.
func (s server) replaced(m marker, own bool) bool {
	switch {
	case s.hides:
		return true
	case s.is(m):
		// A master that becomes a replica and then a master again has another replication id, and
		// remembers the one that it had as a replica. When the last replica of a master is gone, it
		// also gets another id some time later, and forgets the old one. That is no loss, but
		// cannot be told from a replica's past that is just as old.
		return s.replID != unknown && s.replID != m.replID && m.named() && (s.promoted || s.recalls <= max(s.maxTTL, m.maxTTL))
	default:
		return !own || s.promoted || m.state != markerActive || !m.durable || !s.durable
	}
}

// isRestart reports whether the server may have restarted with all that it held.
func (s server) isRestart(m marker) bool { return !s.is(m) && !s.replaced(m, true) }

// quarantine keeps the server from voting until all locks that it may have forgotten have expired.
// Of the marker before, it keeps the words that follow, but for what the server was told; claim is
// the member that it is, if that is known.
func (s server) quarantine(word string, maxTTL int64, before marker, claim place) *wire.Swap {
	if claim == (place{}) {
		claim = before.place().forgotten()
	}
	m := marker{
		incarnation: newIncarnation(), runID: s.runID, durable: s.durable, maxTTL: maxTTL, replID: s.replID,
		words: before.at(claim).words,
	}
	return &wire.Swap{Begin: word, Rest: m.rest(), Wait: maxTTL}
}

// wait returns what to write over a marker that keeps the server from voting.
func (s server) wait(m marker, v knowledge) *wire.Swap {
	known, maxTTL, now := v.known, v.maxTTL, v.now
	if s.named() {
		m.runID = s.runID
	}
	word := wordLost
	if m.state == markerNew {
		word = wordNew
	}
	switch {
	case now != 0 && m.until > now+m.maxTTL: // the server's clock was set back since
		m.maxTTL = max(m.maxTTL, maxTTL)
		return &wire.Swap{Begin: word, Rest: m.rest(), Wait: m.maxTTL}
	case m.state == markerNew && known != "": // we know that it had been active
		m = m.at(m.place().forgotten())
		m.incarnation = newIncarnation()
		return &wire.Swap{Begin: wordLost + " until " + strconv.FormatInt(m.until, 10), Rest: m.rest()}
	case m.maxTTL < maxTTL:
		until := m.until + maxTTL - m.maxTTL
		m.maxTTL = maxTTL
		return &wire.Swap{Begin: word + " until " + strconv.FormatInt(until, 10), Rest: m.rest()}
	default:
		return &wire.Swap{Begin: wordActive, Rest: m.rest(), Due: m.until}
	}
}

// refresh returns what to write so that an active marker says what is true now, or nil. Durable is
// withdrawn but never granted: a server that became durable while it ran has its older locks on
// disk only after its first rewrite is complete.
func (s server) refresh(m marker, maxTTL int64) *wire.Swap {
	now := m
	if s.runID != unknown {
		now.runID = s.runID
	}
	if s.replID != unknown {
		now.replID = s.replID
	}
	if s.tells && !s.durable {
		now.durable = false
	}
	if m.place().cluster == "" { // otherwise the cluster's MaxTTL holds, which it has waited for
		now.maxTTL = max(m.maxTTL, maxTTL)
	}
	if now == m {
		return nil
	}
	return &wire.Swap{Begin: wordActive, Rest: now.rest()}
}

// newIncarnation returns a name for the memory of a server from now on.
func newIncarnation() string { return rand.Text() }
