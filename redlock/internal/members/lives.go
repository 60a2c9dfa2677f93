package members

import (
	"context"
	"strings"
)

// A member that forgets begins another life. Its marker counts them, and who sees a later life of
// it writes that into the markers of the other members. So the marker of a life that is over, which
// comes back by an import, is found out by any majority: one of the others in it was shown a later
// life, and says so in the proof behind its vote. (Explore with Revivals, in
// internal/proof/search/members.)
//
// lives has the latest life of each member that a marker has named so far.
type lives map[seat]Version

// seat is a member of a cluster.
type seat struct{ cluster, member string }

// lifeName is how many letters of an incarnation tell two lives of one number apart.
const lifeName = 6

// life returns the life of a member that its marker is of: how many times it forgot, and the
// beginning of its incarnation.
func (m marker) life(p place) Version {
	return Version{p.life, m.incarnation[:min(lifeName, len(m.incarnation))]}
}

// meet takes what a marker says of its server's life, and of those of others.
func (l lives) meet(m marker, p place) {
	if p.cluster == "" {
		return
	}
	if p.life > 0 {
		l.see(seat{p.cluster, p.member}, m.life(p))
	}
	for word := range strings.SplitSeq(p.lives, ",") {
		at := strings.LastIndex(word, ":") // the only one in an ID of ours
		if life, ok := parseVersion(word[at+1:]); ok && life.Number > 0 && at > 0 {
			l.see(seat{p.cluster, word[:at]}, life)
		}
	}
}

func (l lives) see(s seat, life Version) {
	if life.Above(l[s]) {
		l[s] = life
	}
}

// over reports whether a marker is of a life that is over.
func (l lives) over(m marker, p place) bool { return l[seat{p.cluster, p.member}].Above(m.life(p)) }

// doubt reports whether a master must wait anew: who let it wait did not know which life of which
// member that begins, or it no longer waits, and its life is over.
func (l lives) doubt(m marker, p place) bool {
	return m.waits() && p.life == 0 || m.state == markerActive && l.over(m, p)
}

// of returns what the marker of a member should say of the others.
func (l lives) of(roster *Roster, member string) string {
	var words []string
	for _, p := range roster.Members {
		if life, found := l[seat{roster.Cluster, p.ID}]; found && p.ID != member {
			words = append(words, p.ID+":"+life.String())
		}
	}
	return strings.Join(words, ",")
}

// isOver reports whether the marker of a master is of a life that is over.
func (ms *Membership) isOver(r *report) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.lives.over(r.marker, r.place)
}

// nextLifeLocked returns the place of a member that begins another life.
func (ms *Membership) nextLifeLocked(roster *Roster, id string) place {
	return place{cluster: roster.Cluster, member: id, life: ms.lives[seat{roster.Cluster, id}].Number + 1}
}

func (ms *Membership) isDoubted(r *report) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.lives.doubt(r.marker, r.place)
}

// show shows a member that counts the latest lives of the others.
func (ms *Membership) show(ctx context.Context, r *report, roster *Roster) {
	ms.mu.Lock()
	p := r.place
	p.lives = ms.lives.of(roster, p.member)
	ms.mu.Unlock()
	if p.lives != r.place.lives {
		ms.swap(ctx, *r, change{marker: r.marker.at(p)})
	}
}
