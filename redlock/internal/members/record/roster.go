package record

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Roster is one version of the list of a cluster's members. It never changes, so it may be shared
// by all that know it, and two of them are the same version if Cluster and Version are. The
// protocol by which versions follow one another, and why it is right, is in
// redlock/internal/members/search.
type Roster struct {
	Cluster string // random; the same in all versions
	Version Version
	Before  Version       // the one before; zero for the first
	MaxTTL  time.Duration // of locks, once all members were told this version if it is longer than Earlier
	Earlier time.Duration // MaxTTL of the version before; that of the first one has the same
	Members []Peer        // in the order in which they were added; each ID once
	words   string        // .name=value words of later formats, as they were read
}

// Peer is a member of a cluster.
type Peer struct {
	ID         string // random; it stays when the master forgets and comes back
	Endpoint   string // by which it was added
	ServerName string // that its certificate must have; "" for the host of the endpoint
}

// newPeer returns a member that was added at an endpoint, which may be followed by the name of its
// certificate. Members are compared without that.
func newPeer(id, listed string) Peer {
	endpoint, name := pipeline.CutServerName(listed)
	return Peer{id, endpoint, name}
}

// Listed returns the endpoint with the name of the certificate.
func (p Peer) Listed() string { return pipeline.WithServerName(p.Endpoint, p.ServerName) }

// Server returns the address as [pipeline.Node.Server] does: with TLS or without, it is the same.
func (p Peer) Server() string {
	_, rest, _ := strings.Cut(p.Endpoint, "://")
	address, _, _ := strings.Cut(rest, "/")
	return "tcp:" + address
}

// Version names a roster: a number, and the random name of the proposal.
type Version struct {
	Number int64
	Name   string
}

// String returns the version as masters keep it.
func (v Version) String() string {
	if v == (Version{}) {
		return Unknown
	}
	return strconv.FormatInt(v.Number, 10) + "." + v.Name
}

// Above reports whether v is larger than another version, or ballot: by number, then by name.
func (v Version) Above(other Version) bool {
	return v.Number > other.Number || v.Number == other.Number && v.Name > other.Name
}

// parseVersion reads what String has written, also of the zero version.
func parseVersion(text string) (v Version, ok bool) {
	if text == Unknown {
		return Version{}, true
	}
	number, name, _ := strings.Cut(text, ".")
	v.Number, ok = countingNumber(number)
	v.Name = name
	return v, ok && IsWord(name)
}

func countingNumber(text string) (int64, bool) { return number(text, maxMarkerTime) }

// IsCluster reports whether a text can name a cluster.
func IsCluster(id string) bool { return IsWord(id) }

// NewName returns a random name of a few letters: enough for the members of a cluster, or for
// proposals of one number.
func NewName() string { return strings.ToLower(rand.Text()[:nameLength]) }

const nameLength = 6

// Longest is how long any lock may last that was counted under this version, or the one before.
func (r *Roster) Longest() time.Duration { return max(r.MaxTTL, r.Earlier) }

// Wait is how long every attempt may last that was under way when a master was told this version,
// by the clock of that master, which may run 2 % fast: in milliseconds.
func (r *Roster) Wait() int64 { return (r.Longest() + r.Longest()/50).Milliseconds() + 10 }

// NewCluster returns the first version of a new cluster.
func NewCluster(maxTTL time.Duration, endpoints []string) *Roster {
	r := &Roster{Cluster: rand.Text(), Version: Version{1, NewName()}, MaxTTL: maxTTL, Earlier: maxTTL}
	for _, endpoint := range endpoints {
		r.Members = append(r.Members, newPeer(r.NewID(), endpoint))
	}
	return r
}

// NewID returns an ID that no member has.
func (r *Roster) NewID() string {
	for {
		if id := NewName(); r.Index(id) < 0 {
			return id
		}
	}
}

// next returns a copy of the roster as the next version, which its caller may change. The members
// are its own; words of later formats go on to it.
func (r *Roster) next() *Roster {
	n := *r
	n.Version, n.Before = Version{r.Version.Number + 1, NewName()}, r.Version
	n.Earlier, n.Members = r.MaxTTL, slices.Clone(r.Members)
	return &n
}

// With returns the next version, with one member more.
func (r *Roster) With(id, endpoint string) *Roster {
	n := r.next()
	n.Members = append(n.Members, newPeer(id, endpoint))
	return n
}

// Without returns the next version, without a member.
func (r *Roster) Without(id string) *Roster {
	n := r.next()
	n.Members = slices.DeleteFunc(n.Members, func(p Peer) bool { return p.ID == id })
	return n
}

// WithMaxTTL returns the next version, with another MaxTTL. The one before stays known as Earlier:
// a master that forgets waits for the longer of the two (Longest).
func (r *Roster) WithMaxTTL(maxTTL time.Duration) *Roster {
	n := r.next()
	n.MaxTTL = maxTTL
	return n
}

// Need returns how many members make a quorum.
func (r *Roster) Need() int { return quorum.Need(len(r.Members)) }

// Has reports whether a member was added at an endpoint.
func (r *Roster) Has(endpoint string) bool { return r.At(endpoint) != "" }

// At returns the ID of the member that was added at an endpoint; empty if there is none.
func (r *Roster) At(endpoint string) string {
	i := slices.IndexFunc(r.Members, func(p Peer) bool { return p.Endpoint == endpoint })
	if i < 0 {
		return ""
	}
	return r.Members[i].ID
}

// Index returns the index of a member; -1 if there is none with this ID.
func (r *Roster) Index(id string) int {
	return slices.IndexFunc(r.Members, func(p Peer) bool { return p.ID == id })
}

// Counts reports whether the vote of a master counts under this version, by what its marker says.
// The version before is as good as this one, because what the master granted under it excludes
// others under this one, too.
func (r *Roster) Counts(p Place) bool {
	return p.Cluster == r.Cluster && p.Joined == 0 && r.Index(p.Member) >= 0 &&
		p.Version != (Version{}) && (p.Version == r.Version || p.Version == r.Before)
}

// String returns the roster as masters keep it, on one line.
func (r *Roster) String() string {
	words := []string{
		r.Version.String(), r.Before.String(), r.Cluster,
		strconv.FormatInt(r.MaxTTL.Milliseconds(), 10), strconv.FormatInt(r.Earlier.Milliseconds(), 10),
	}
	for _, p := range r.Members {
		words = append(words, p.ID+"="+p.Listed())
	}
	if r.words != "" {
		words = append(words, r.words)
	}
	return strings.Join(words, " ")
}

// parseRoster returns nil for what String has not written.
func parseRoster(text string) *Roster {
	words := strings.Split(text, " ")
	if len(words) < 6 || slices.Contains(words, "") {
		return nil
	}
	r := &Roster{Cluster: words[2]}
	version, ok1 := parseVersion(words[0])
	before, ok2 := parseVersion(words[1])
	maxTTL, ok3 := number(words[3], maxMarkerTTL)
	earlier, ok4 := number(words[4], maxMarkerTTL)
	if !ok1 || !ok2 || !ok3 || !ok4 || version == (Version{}) || !IsWord(r.Cluster) {
		return nil
	}
	r.Version, r.Before = version, before
	r.MaxTTL, r.Earlier = time.Duration(maxTTL)*time.Millisecond, time.Duration(earlier)*time.Millisecond
	for i, word := range words[5:] {
		if strings.HasPrefix(word, ".") {
			r.words = strings.Join(words[5+i:], " ")
			break
		}
		id, endpoint, ok := strings.Cut(word, "=")
		if !ok || !IsWord(id) || !isGraphic(endpoint) || r.Index(id) >= 0 {
			return nil
		}
		r.Members = append(r.Members, newPeer(id, endpoint))
	}
	if n := len(r.Members); n == 0 || n > quorum.MaxNodes {
		return nil
	}
	return r
}

// IsWord reports whether a text can be part of a marker and be read back.
func IsWord(text string) bool { return len(text) <= maxWord && isGraphic(text) }

// isGraphic reports whether a text is of the characters of ASCII that can be seen, as are
// endpoints of our own.
func isGraphic(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

const maxWord = 128 // three times the longest one known
