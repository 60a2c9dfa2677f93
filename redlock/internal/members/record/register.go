package record

import (
	"strconv"
	"strings"
)

// Place is what a marker says of its server's place in a cluster, in words behind the others:
//
//	cluster=C member=ID joined=T              it may become a member of a version (core/form.go)
//	cluster=C member=ID version=V joined=T    the same, of the first version
//	cluster=C member=ID version=V             it was told version V as chosen
//	cluster=C member=ID                       it forgot what it was told
//
// Two words follow once a member has forgotten (lives.go):
//
//	life=N             how many times this one did
//	lives=ID:N.I,...   the latest life of others that it was shown
//
// A vote counts by this marker (Roster.Counts), so a vote that proves memory proves membership.
//
// A Place is a value, and so is a Register: each caller has its own, and the rosters that one
// points to never change.
type Place struct {
	Cluster string  // empty if the server belongs to none, and was not asked to
	Member  string  // its ID there, for good; empty if whoever wrote it did not know that
	Version Version // zero for none
	Joined  int64   // milliseconds since 1970, by the server's clock; 0 if it has been told
	Life    int64   // 0 until it forgot, or if whoever noticed did not know the member
	Lives   string  // as it is written; Lives.Meet reads it
}

const (
	wordCluster = "cluster="
	wordMember  = "member="
	wordVersion = "version="
	wordJoined  = "joined="
	wordLife    = "life="
	wordLives   = "lives="
)

// Place returns what the marker says of the cluster.
func (m Marker) Place() (p Place) {
	for word := range strings.SplitSeq(m.Words, " ") {
		name, value, _ := strings.Cut(word, "=")
		switch name + "=" {
		case wordCluster:
			p.Cluster = value
		case wordMember:
			p.Member = value
		case wordVersion:
			p.Version, _ = parseVersion(value)
		case wordJoined:
			p.Joined, _ = countingNumber(value)
		case wordLife:
			p.Life, _ = countingNumber(value)
		case wordLives:
			p.Lives = value
		}
	}
	return p
}

// MayBeOf reports whether it is no place in another cluster.
func (p Place) MayBeOf(roster *Roster) bool {
	return p.Cluster == roster.Cluster || p.Cluster == ""
}

// IsTold reports whether it names a version, by which a vote may count.
func (p Place) IsTold() bool { return p.Version != (Version{}) }

// IsCandidate reports whether it may become a member, and never was one.
func (p Place) IsCandidate() bool { return p.Joined != 0 && !p.IsTold() }

// At returns the marker with another place. The words that say something else stay, in front: a
// later format may have written them, and its clients must find them again.
func (m Marker) At(p Place) Marker {
	var words []string
	for word := range strings.SplitSeq(m.Words, " ") {
		name, _, _ := strings.Cut(word, "=")
		switch name + "=" {
		case wordCluster, wordMember, wordVersion, wordJoined, wordLife, wordLives, "=":
		default:
			words = append(words, word)
		}
	}
	if p.Cluster != "" {
		words = append(words, wordCluster+p.Cluster, wordMember+p.Member)
	}
	if p.Version != (Version{}) {
		words = append(words, wordVersion+p.Version.String())
	}
	if p.Joined != 0 {
		words = append(words, wordJoined+strconv.FormatInt(p.Joined, 10))
	}
	if p.Life != 0 {
		words = append(words, wordLife+strconv.FormatInt(p.Life, 10))
	}
	if p.Lives != "" {
		words = append(words, wordLives+p.Lives)
	}
	m.Words = strings.Join(words, " ")
	return m
}

// Forgotten returns the place of a server that has forgotten what it was told. It has no life: who
// writes this does not know which one begins, and whoever does has the server wait anew (Doubt).
func (p Place) Forgotten() Place { return Place{Cluster: p.Cluster, Member: p.Member} }

// Text returns the whole marker.
func (m Marker) Text() string {
	until := " until " + strconv.FormatInt(m.Until, 10) + " "
	switch m.State {
	case MarkerNew:
		return WordNew + until + m.Rest()
	case MarkerLost:
		return WordLost + until + m.Rest()
	case MarkerActive, MarkerAbsent, MarkerUnreadable, MarkerLater: // the last three are never written
	}
	return WordActive + " " + m.Rest()
}

// Register is what a master knows of its cluster besides its marker. The marker comes first: a
// Register without the version that the marker names says nothing.
type Register struct {
	Since int64   // when it was told, by its own clock: milliseconds since 1970
	Told  *Roster // as chosen; nil if nothing is known

	// Of the choice of the next version (core/choice.go).
	Promised Version // the largest ballot
	Until    int64   // nothing is accepted under it later than this
	Ballot   Version // under which it accepted
	Accepted *Roster // nil if it accepted nothing
	// unlearned: the master forgot, and takes no part in the choice until it has learned.
	Unlearned bool
}

const wordUnlearned = "unlearned"

// ParseRegister returns an empty register for what rest has not written. Lines that a later format
// adds behind the five are not read, and are lost with the next change.
func ParseRegister(text string) (r Register) {
	lines := strings.Split(text, "\n")
	if len(lines) < 5 {
		return Register{}
	}
	since, ok := countingNumber(lines[0])
	if r.Told = parseRoster(lines[1]); r.Told == nil || !ok {
		return Register{}
	}
	r.Since = since
	promised, until, _ := strings.Cut(lines[2], " ")
	r.Promised, _ = parseVersion(promised)
	r.Until, _ = countingNumber(until)
	ballot, accepted, found := strings.Cut(lines[3], " ")
	if r.Ballot, ok = parseVersion(ballot); found && ok {
		r.Accepted = parseRoster(accepted)
	}
	r.Unlearned = lines[4] == wordUnlearned
	return r
}

// Rest returns what follows the first line.
func (r *Register) Rest() string {
	accepted := Unknown
	if r.Accepted != nil {
		accepted = r.Ballot.String() + " " + r.Accepted.String()
	}
	learned := "learned"
	if r.Unlearned {
		learned = wordUnlearned
	}
	return strings.Join([]string{r.Told.String(), r.Promised.String() + " " + strconv.FormatInt(r.Until, 10), accepted, learned}, "\n")
}
