package members

import (
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// place is what a marker says of its server's place in a cluster, in words behind the others:
//
//	cluster=C member=ID joined=T              it may become the member of a version, see form.go
//	cluster=C member=ID version=V joined=T    the same, of the first version
//	cluster=C member=ID version=V             it was told version V as chosen
//	cluster=C member=ID                       it forgot what it was told
//
// Two words follow once a member has forgotten (lives.go):
//
//	life=N             how many times this one did
//	lives=ID:N.I,...   the latest life of others that it was shown
//
// A vote counts by this marker (Roster.counts), so a vote that proves memory proves membership.
type place struct {
	cluster string
	member  string
	version Version
	joined  int64 // milliseconds since 1970, by the server's clock; 0 if it has been told
	life    int64
	lives   string
}

const (
	wordCluster = "cluster="
	wordMember  = "member="
	wordVersion = "version="
	wordJoined  = "joined="
	wordLife    = "life="
	wordLives   = "lives="
)

// place returns what the marker says of the cluster.
func (m marker) place() (p place) {
	for word := range strings.SplitSeq(m.words, " ") {
		name, value, _ := strings.Cut(word, "=")
		switch name + "=" {
		case wordCluster:
			p.cluster = value
		case wordMember:
			p.member = value
		case wordVersion:
			p.version, _ = parseVersion(value)
		case wordJoined:
			p.joined, _ = countingNumber(value)
		case wordLife:
			p.life, _ = countingNumber(value)
		case wordLives:
			p.lives = value
		}
	}
	return p
}

// mayBeOf reports whether it is no place in another cluster.
func (p place) mayBeOf(roster *Roster) bool {
	return p.cluster == roster.Cluster || p.cluster == ""
}

// isTold reports whether it names a version, by which a vote may count.
func (p place) isTold() bool { return p.version != (Version{}) }

// isCandidate reports whether it may become a member, and never was one.
func (p place) isCandidate() bool { return p.joined != 0 && !p.isTold() }

// at returns the marker with another place. The words that say something else stay.
func (m marker) at(p place) marker {
	var words []string
	for word := range strings.SplitSeq(m.words, " ") {
		name, _, _ := strings.Cut(word, "=")
		switch name + "=" {
		case wordCluster, wordMember, wordVersion, wordJoined, wordLife, wordLives, "=":
		default:
			words = append(words, word)
		}
	}
	if p.cluster != "" {
		words = append(words, wordCluster+p.cluster, wordMember+p.member)
	}
	if p.version != (Version{}) {
		words = append(words, wordVersion+p.version.String())
	}
	if p.joined != 0 {
		words = append(words, wordJoined+strconv.FormatInt(p.joined, 10))
	}
	if p.life != 0 {
		words = append(words, wordLife+strconv.FormatInt(p.life, 10))
	}
	if p.lives != "" {
		words = append(words, wordLives+p.lives)
	}
	m.words = strings.Join(words, " ")
	return m
}

// forgotten returns the place of a server that has forgotten what it was told.
func (p place) forgotten() place { return place{cluster: p.cluster, member: p.member} }

// text returns the whole marker.
func (m marker) text() string {
	until := " until " + strconv.FormatInt(m.until, 10) + " "
	switch m.state {
	case markerNew:
		return wordNew + until + m.rest()
	case markerLost:
		return wordLost + until + m.rest()
	case markerActive, markerAbsent, markerUnreadable, markerLater: // the last three are never written
	}
	return wordActive + " " + m.rest()
}

// register is what a master knows of its cluster besides its marker. The marker comes first: a
// register without the version that the marker names says nothing.
type register struct {
	since int64   // when it was told, by its own clock: milliseconds since 1970
	told  *Roster // as chosen; nil if nothing is known

	// Of the choice of the next version (choose.go).
	promised Version // the largest ballot
	until    int64   // nothing is accepted under it later than this
	ballot   Version // under which it accepted
	accepted *Roster // nil if it accepted nothing
	// unlearned: the master forgot, and takes no part in the choice until it has learned.
	unlearned bool
}

const wordUnlearned = "unlearned"

// parseRegister returns an empty register for what rest has not written.
func parseRegister(text string) (r register) {
	lines := strings.Split(text, "\n")
	if len(lines) < 5 {
		return register{}
	}
	since, ok := countingNumber(lines[0])
	if r.told = parseRoster(lines[1]); r.told == nil || !ok {
		return register{}
	}
	r.since = since
	promised, until, _ := strings.Cut(lines[2], " ")
	r.promised, _ = parseVersion(promised)
	r.until, _ = countingNumber(until)
	ballot, accepted, found := strings.Cut(lines[3], " ")
	if r.ballot, ok = parseVersion(ballot); found && ok {
		r.accepted = parseRoster(accepted)
	}
	r.unlearned = lines[4] == wordUnlearned
	return r
}

// rest returns what follows the first line.
func (r *register) rest() string {
	accepted := unknown
	if r.accepted != nil {
		accepted = r.ballot.String() + " " + r.accepted.String()
	}
	learned := "learned"
	if r.unlearned {
		learned = wordUnlearned
	}
	return strings.Join([]string{r.told.String(), r.promised.String() + " " + strconv.FormatInt(r.until, 10), accepted, learned}, "\n")
}

// report is what a master says of its cluster.
type report struct {
	node     int
	asked    clock.Instant
	text     string // the marker
	marker   marker
	place    place
	held     string // the register
	register register
	now      int64 // the master's time: milliseconds since 1970
}

// asked returns when the first of these reports was asked for.
func asked(reports []report) clock.Instant {
	first := never
	for i := range reports {
		first = min(first, reports[i].asked)
	}
	return first
}

func readReport(node int, text, held string, now int64) report {
	m := parseMarker(text)
	return report{node: node, text: text, marker: m, place: m.place(), held: held, register: parseRegister(held), now: now}
}

// told returns the version that the master was told, if it remembers and its register has it;
// otherwise nil.
func (r *report) told() *Roster {
	t := r.register.told
	if r.marker.state != markerActive || r.place.joined != 0 || t == nil || t.Cluster != r.place.cluster || t.Version != r.place.version {
		return nil
	}
	return t
}

// isTorn reports whether the master has lost a part of its keys: its marker names a version that it
// was told, and the register does not have it. One script writes both, and they are read by one. So
// the marker, which is still there, vouches for nothing.
func (r *report) isTorn() bool {
	return r.marker.state == markerActive && r.place.isTold() && r.place.joined == 0 && r.told() == nil
}

// change is the request for a new place and register, the latter with the time that it has, or with
// the present one if it is told.
type change struct {
	marker      marker
	register    *register // nil to leave it
	told        bool      // its time begins now
	due, latest int64     // by the master's clock; 0 for none
}

func (c *change) entry() wire.Entry {
	e := wire.Entry{Marker: c.marker.text(), Due: c.due, Latest: c.latest}
	if c.register != nil {
		e.Register = c.register.rest()
		if !c.told {
			e.Since = strconv.FormatInt(c.register.since, 10)
		}
	}
	return e
}
