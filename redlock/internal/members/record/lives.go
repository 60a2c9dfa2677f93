package record

import "strings"

// Lives has the latest life of each member that a marker has named so far.
//
// A member that forgets begins another life. Its marker counts them, and who sees a later life of
// it writes that into the markers of the other members. So the marker of a life that is over,
// which comes back by an import, is found out by any majority: one of the others in it was shown a
// later life, and says so in the proof behind its vote. (Config.Revivals, in
// redlock/internal/members/search.)
type Lives map[MemberID]Version

// MemberID is a member of a cluster.
type MemberID struct{ Cluster, Member string }

// lifeName is how many letters of an incarnation tell two lives of one number apart.
const lifeName = 6

// Life returns the life of a member that its marker is of: how many times it forgot, and the
// beginning of its incarnation.
func (m Marker) Life(p Place) Version {
	return Version{p.Life, m.Incarnation[:min(lifeName, len(m.Incarnation))]}
}

// Meet takes what a marker says of its server's life, and of those of others.
func (l Lives) Meet(m Marker, p Place) {
	if p.Cluster == "" {
		return
	}
	if p.Life > 0 {
		l.see(MemberID{p.Cluster, p.Member}, m.Life(p))
	}
	for word := range strings.SplitSeq(p.Lives, ",") {
		at := strings.LastIndex(word, ":") // the only one in an ID of ours
		if life, ok := parseVersion(word[at+1:]); ok && life.Number > 0 && at > 0 {
			l.see(MemberID{p.Cluster, word[:at]}, life)
		}
	}
}

// see takes what is said of a life. It is the only thing that changes Lives, and never sets one
// back.
func (l Lives) see(s MemberID, life Version) {
	if life.Above(l[s]) {
		l[s] = life
	}
}

// Over reports whether a marker is of a life that is over. What is not known is not over: so it
// says false more often than it might, and never true of the latest that is known.
func (l Lives) Over(m Marker, p Place) bool { return l[MemberID{p.Cluster, p.Member}].Above(m.Life(p)) }

// Doubt reports whether a master must wait anew: who let it wait did not know which life of which
// member that begins, or it no longer waits, and its life is over.
func (l Lives) Doubt(m Marker, p Place) bool {
	return m.Waits() && p.Life == 0 || m.State == MarkerActive && l.Over(m, p)
}

// Of returns what the marker of a member should say of the others: only of the members of a
// roster, in its order, so that two clients that know the same write the same and do not overwrite
// one another.
func (l Lives) Of(roster *Roster, member string) string {
	var words []string
	for _, p := range roster.Members {
		if life, found := l[MemberID{roster.Cluster, p.ID}]; found && p.ID != member {
			words = append(words, p.ID+":"+life.String())
		}
	}
	return strings.Join(words, ",")
}
