package core

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// The next version is chosen by the members of the present one, with promise and accept (Lamport,
// "Paxos Made Simple", 2001). What a majority accepted is chosen; then all are told. The functions
// of this file are the steps of whoever proposes: each returns the changes that it asks masters
// for, or says what their answers mean. It changes no report and no roster: a register that it asks
// for is a copy. (S39, docs/safety.md)

// Ballot is an attempt to have a version chosen. Nothing is sent under it when it is over, and no
// master accepts anything under it later than Life after it promised.
type Ballot struct {
	Number record.Version
	Over   clock.Instant
	Life   int64 // milliseconds
}

// NewBallot returns a ballot above all that were promised, which begins now. It lasts half a
// quarantine at most, so that a master that forgets what it promised is not back before it is
// over.
func NewBallot(reports []Report, longest time.Duration, now clock.Instant) Ballot {
	var highest int64
	life := Fresh(longest)
	for i := range reports {
		highest = max(highest, reports[i].Register.Promised.Number, reports[i].Register.Ballot.Number)
		if t := reports[i].Told(); t != nil {
			life = min(life, Fresh(t.MaxTTL))
		}
	}
	return Ballot{record.Version{Number: highest + 1, Name: record.NewName()}, now.Add(life), life.Milliseconds()}
}

// AskPromises asks the members of a version for their promise, under a ballot above all that these
// reports tell of. A master promises if it was told this version and nothing newer, has learned
// what it forgot, and says what its report has: so it has promised nothing larger.
//
// A master whose clock was set back since it was told begins its wait anew: by that clock, it
// would not end for as long as the clock is behind.
func (c *Client) AskPromises(roster *record.Roster, b Ballot, reports []Report) (asks []Change) {
	for _, r := range reports {
		if !c.Remembers(&r, roster) || r.Register.Unlearned {
			continue
		}
		next := r.Register
		next.Promised, next.Until = b.Number, r.Now+b.Life
		asks = append(asks, Change{Of: r, Marker: r.Marker, Register: &next, Anew: r.Register.Since > r.Now})
	}
	return asks
}

// Promised returns those of the answers that are promises. An answer says what the master has now,
// and a ballot is never used twice: so a promise that is read here was given to this ballot, also
// if another request for it came first.
func (c *Client) Promised(roster *record.Roster, b Ballot, answers []Report) (given []Report) {
	for _, r := range answers {
		if c.Remembers(&r, roster) && r.Register.Promised == b.Number {
			given = append(given, r)
		}
	}
	return given
}

// Found returns what was accepted under the largest ballot; nil if nothing was. Smaller ballots do
// not matter: whoever proposed under the largest one had found what was chosen by then.
func Found(given []Report) (under record.Version, accepted *record.Roster) {
	for i := range given {
		if g := &given[i].Register; g.Accepted != nil && (accepted == nil || g.Ballot.Above(under)) {
			under, accepted = g.Ballot, g.Accepted
		}
	}
	return under, accepted
}

// Proposal returns the version to propose: what was begun if a promise tells of something, and
// otherwise own. What was begun may have been chosen, by a majority that shares a master with this
// one.
func Proposal(given []Report, own *record.Roster) *record.Roster {
	if _, begun := Found(given); begun != nil {
		return begun
	}
	return own
}

// Choice is the choice of the version after one, under a ballot.
type Choice struct {
	Of     *record.Roster // its members choose
	Ballot Ballot
	Told   *record.Roster // the next version, if some of them were told it; otherwise nil
	By     int            // how many were
}

// Propose returns the version to propose with the promises that were given, and asks those that
// gave them to accept it: nil if they are too few, or nothing is left to propose. A version that
// some were told was chosen, and each of them holds to it: the others need not wait to accept it.
//
// Those that were told must not be among the promises, or they count twice: what a member was told
// ends what it promised (Telling), so no report shows both.
func (ch Choice) Propose(given []Report, own *record.Roster) (value *record.Roster, asks []Change) {
	if ch.By+len(given) < ch.Of.Need() {
		return nil, nil
	}
	if ch.Told != nil {
		return ch.Told, askAcceptance(ch.Ballot, ch.Told, given, 0)
	}
	if value = Proposal(given, own); value == nil {
		return nil, nil
	}
	return value, askAcceptance(ch.Ballot, value, given, ch.Of.Wait())
}

// IsChosen reports whether a majority now holds to a version: those that accepted it, as they
// answer, and those that were told it before or meanwhile.
func (c *Client) IsChosen(ch Choice, value *record.Roster, answers []Report) bool {
	holding := ch.By
	for _, r := range answers {
		t := r.Told()
		if c.Remembers(&r, ch.Of) && r.Register.Ballot == ch.Ballot.Number && r.Register.Accepted != nil || t != nil && t.Version == value.Version {
			holding++
		}
	}
	return holding >= ch.Of.Need()
}

// askAcceptance asks those that promised to accept a version, each so many milliseconds after it
// was told the present one.
func askAcceptance(b Ballot, value *record.Roster, given []Report, wait int64) (asks []Change) {
	for _, r := range given {
		next := r.Register
		next.Ballot, next.Accepted = b.Number, value
		asks = append(asks, Change{Of: r, Marker: r.Marker, Register: &next, Due: r.Register.Since + wait, Latest: r.Register.Until})
	}
	return asks
}

// Learns reports whether a master that forgot learns what it may have accepted. So many others
// have told what they accepted that one of them is in every majority in which it may have been; or
// every member that remembers anything has.
func (c *Client) Learns(roster *record.Roster, given, reports []Report) bool {
	if len(given) > len(roster.Members)-roster.Need() {
		return true
	}
	for _, p := range roster.Members {
		forgot := slices.ContainsFunc(reports, func(r Report) bool {
			id, ours := r.Place.Member, r.Place.Cluster == roster.Cluster
			if !ours && r.Place.Cluster == "" {
				id, ours = p.ID, c.Nodes[r.Node].endpoint() == p.Endpoint
			}
			return ours && id == p.ID && (r.Told() == nil || r.Register.Unlearned)
		})
		told := slices.ContainsFunc(given, func(r Report) bool { return r.Place.Member == p.ID })
		if !forgot && !told {
			return false
		}
	}
	return true
}

// Teach lets members take part in the choice that forgot, and rejoined when too few others were
// there to tell what they had accepted. What they learn is what the promises tell, and the promise
// that comes with it is to this ballot: it is over at the same time as theirs.
func (c *Client) Teach(roster *record.Roster, b Ballot, given, reports []Report) (asks []Change) {
	if !c.Learns(roster, given, reports) {
		return nil
	}
	for _, r := range reports {
		if c.Remembers(&r, roster) && r.Register.Unlearned {
			next := record.Register{Since: r.Register.Since, Told: roster, Promised: b.Number, Until: r.Now + b.Life}
			next.Ballot, next.Accepted = Found(given)
			asks = append(asks, Change{Of: r, Marker: r.Marker, Register: &next})
		}
	}
	return asks
}

// Unlearned returns the members of a version that are unlearned, as if they had promised: for a
// version that some were told, and so was chosen, there is nothing that they must learn before
// they accept it.
func (c *Client) Unlearned(roster *record.Roster, b Ballot, reports []Report) (as []Report) {
	for _, r := range reports {
		if r.Register.Unlearned && c.Remembers(&r, roster) {
			r.Register.Unlearned, r.Register.Promised, r.Register.Until = false, b.Number, r.Now+b.Life
			as = append(as, r)
		}
	}
	return as
}

// Telling tells a master a version that was chosen, until a time by its clock; 0 for any. To be
// told ends what it promised and accepted. A new member has joined and granted nothing, so it
// votes at once.
func Telling(r *Report, roster *record.Roster, latest int64) Change {
	m, p := r.Marker, r.Place
	m.State, m.MaxTTL = record.MarkerActive, Quarantine(roster.Longest()).Milliseconds()
	p.Version, p.Joined = roster.Version, 0
	told := record.Register{Told: roster, Unlearned: r.Register.Unlearned && r.Place.Joined == 0}
	return Change{Of: *r, Marker: m.At(p), Register: &told, Anew: true, Latest: latest}
}

// hides reports whether a master accepted another version of the same number than it is to be
// told, which it would hide then.
func (r *Report) hides(roster *record.Roster) bool {
	a := r.Register.Accepted
	return a != nil && a.Version.Number == roster.Version.Number && a.Version != roster.Version
}

// TellAll tells a chosen version to its members and to those that it has no more. A candidate that
// it does not have stays one: to be told would end that.
func TellAll(roster *record.Roster, reports []Report) (asks []Change) {
	for i := range reports {
		r := &reports[i]
		p := r.Place
		was := p.IsTold() || p.Joined != 0 && roster.Index(p.Member) >= 0
		if was && p.Cluster == roster.Cluster && p.Version.Number < roster.Version.Number && !r.hides(roster) {
			asks = append(asks, Telling(r, roster, 0))
		}
	}
	return asks
}
