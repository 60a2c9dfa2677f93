package core

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Standing is what the masters say of the cluster now. It is its caller's, but for the reports and
// rosters that it points to: nobody changes these.
type Standing struct {
	Roster  *record.Roster
	Told    map[string]int64 // the number of the version that each member was told
	Next    time.Duration    // until another version can be chosen
	Behind  []record.Peer    // members of whom it is not known that they were told the roster
	Open    bool             // a choice was begun, and may be finished
	Ahead   bool             // a member was told later than its clock says that it is: the clock was set back
	Reports []Report
}

// NoRosterError means that no majority of members tells the same list.
type NoRosterError struct{ Told, Need int } // how many do, and how many it takes; 0 if no list is known

func (e *NoRosterError) Error() string { return "no majority of the members of a cluster answers" }

// Standing returns what the masters say of the version by which votes count, if there is one. It
// is as old as the first of the reports, and an operator acts on it for as long as on those
// (Fresh).
//
// A version can be chosen when a majority accepts, so Next is when the last one of the quickest
// majority does. It is never longer than the whole wait, whatever a clock that was set back says.
func (c *Client) Standing(roster *record.Roster, reports []Report) (Standing, error) {
	if roster == nil {
		return Standing{}, &NoRosterError{}
	}
	if named := NamedIn(reports, roster); named < roster.Need() {
		return Standing{}, &NoRosterError{named, roster.Need()}
	}
	s := Standing{Roster: roster, Told: map[string]int64{}, Reports: reports}
	var left []int64 // until each member accepts
	for i := range reports {
		r := &reports[i]
		if t := r.Told(); t != nil && t.Cluster == roster.Cluster && roster.Index(r.Place.Member) >= 0 {
			s.Told[r.Place.Member] = t.Version.Number
		}
		if c.Remembers(r, roster) {
			left = append(left, max(0, min(r.Register.Since+roster.Wait()-r.Now, roster.Wait())))
			s.Open = s.Open || r.Register.Accepted != nil
			s.Ahead = s.Ahead || r.Register.Since > r.Now
		}
	}
	if len(left) < roster.Need() { // the marker of another one is of a life that is over
		return Standing{}, &NoRosterError{len(left), roster.Need()}
	}
	if c.LookAfter(roster, reports) != roster { // who forgot would learn from one that was removed
		return Standing{}, &NoRosterError{choosers(c, roster, reports), roster.Need()}
	}
	for _, p := range roster.Members {
		if s.Told[p.ID] < roster.Version.Number {
			s.Behind = append(s.Behind, p)
		}
	}
	slices.Sort(left)
	s.Next = time.Duration(left[roster.Need()-1]) * time.Millisecond
	return s, nil
}

// Move is the next step of whoever changes the list.
type Move uint8

// The next step of a change.
const (
	TellThem    Move = iota // all that is left is to tell the members that are behind
	TellBefore              // members that are behind must know this version before a change begins
	LookAgain               // who told this version may have forgotten it since
	AwaitLocks              // locks may last that began before this version (Standing.Next)
	ChooseAfter             // a choice of the version after this one
)

// NextMove returns the next step to a change of our own, which is nil if nothing is left to
// change. A change begins when all members know this version, but for one that it removes: so
// nobody is left behind who names an older one. (S39, docs/safety.md)
//
// What was begun is finished first, whoever is behind. If the master that accepted it does not
// answer any more, nothing is proposed: our own change waits for a look that is about it.
func (s *Standing) NextMove(own *record.Roster, now clock.Instant) (move Move, propose *record.Roster) {
	begins, awaits := own != nil && !s.Open, false
	if begins {
		_, awaits = s.Awaited(own)
	}
	switch {
	case own == nil && !s.Open:
		return TellThem, nil
	case awaits:
		return TellBefore, nil
	case begins && now > FirstAsked(s.Reports).Add(Fresh(s.Roster.MaxTTL)):
		return LookAgain, nil
	case s.Next > 0 && !s.Ahead: // with a promise, a member that is ahead begins to wait anew
		return AwaitLocks, nil
	case s.Open:
		return ChooseAfter, nil
	default:
		return ChooseAfter, own
	}
}

// Awaited returns the first member that must know this version before a change begins: it is
// behind, and the change does not remove it.
func (s *Standing) Awaited(own *record.Roster) (p record.Peer, found bool) {
	at := slices.IndexFunc(s.Behind, func(p record.Peer) bool { return own.Index(p.ID) >= 0 })
	if at < 0 {
		return record.Peer{}, false
	}
	return s.Behind[at], true
}

// Candidacy is whether a master can be made a candidate: a member once it is told a version that
// has it.
type Candidacy uint8

// Whether a master can be a candidate.
const (
	IsCandidate Candidacy = iota // it is one, or is a member, or will be again when it has waited
	MayBe                        // once it is asked
	NotYet                       // the next look at it may say more
	OfAnother                    // it is a member of another cluster, or was one that awaits it
)

// CandidacyOf returns whether a master can be a candidate, with the ID that it has or will have. A
// new ID is drawn with each call: it is the master's once its marker says so.
func CandidacyOf(r *Report, roster *record.Roster) (id string, may Candidacy) {
	p := r.Place
	ours := p.Cluster == roster.Cluster
	switch {
	case ours && (roster.Index(p.Member) >= 0 || p.Joined != 0):
		return p.Member, IsCandidate
	case ours && p.Version.Number > roster.Version.Number:
		return "", NotYet // it may be a member of that one
	case !ours && p.Cluster != "" && !p.IsCandidate(): // also if it forgot: that one awaits it
		return "", OfAnother
	case r.Marker.State == record.MarkerLater || r.Marker.State == record.MarkerUnreadable || r.Marker.State == record.MarkerAbsent:
		return "", NotYet
	case ours: // a version that was begun may have it
		return p.Member, MayBe
	default:
		return roster.NewID(), MayBe
	}
}

// AskToBe asks a master to be a candidate. It keeps the life that it has there, if it was a member
// before, so that a marker from then is still found out.
func AskToBe(r *Report, roster *record.Roster, id string) Change {
	return Change{Of: *r, Marker: r.Marker.At(record.Place{Cluster: roster.Cluster, Member: id, Joined: r.Now, Life: r.Place.Life})}
}

// AllKnow reports whether all members were told a version, by what they said since a time. From
// then on, nobody is left who could let one rejoin at the version before.
//
// The time is half of the shorter quarantine ago: one of them that forgot in that time waits for
// all of it, and what somebody has read to let it rejoin is younger than the other half.
func (c *Client) AllKnow(roster *record.Roster, reports []Report, now clock.Instant) bool {
	since := now.Add(-Fresh(roster.Earlier))
	for _, p := range roster.Members {
		knows := slices.ContainsFunc(reports, func(r Report) bool {
			return r.Asked > since && r.Place.Member == p.ID && c.Remembers(&r, roster)
		})
		if !knows {
			return false
		}
	}
	return true
}
