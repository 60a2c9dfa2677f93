package core

import (
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Need is what a master needs of a client that looks after a version.
type Need uint8

// What a master may need.
const (
	Nothing Need = iota // it waits until its locks have expired, and then others see to it
	Wait                // to wait from now on, as a member: it may have forgotten locks of this version
	Rejoin              // to vote again, as a member: it has waited
	Show                // to be shown the latest lives of the others: it knows this version
	Tell                // to be told this version
	Ahead               // nothing of this version: it was told a later one
	Finish              // a look at whether this version was accepted, before it is told that
	Leave               // nothing, while it says this: it is no member
)

// Care is a version that a client looks after, and the look by which it does. Reports are those of
// all masters that answered, and in none of them has a part of the keys gone (Client.LetTornWait).
type Care struct {
	Roster  *record.Roster
	Counts  bool // a majority of its members names it
	Mine    bool // the client counts votes by it
	Reports []Report
}

// CareFor returns the care for a version by a look. Mine says if the client counts votes by it.
func CareFor(roster *record.Roster, mine bool, reports []Report) Care {
	return Care{Roster: roster, Counts: NamedIn(reports, roster) >= roster.Need(), Mine: mine, Reports: reports}
}

// Todo is what there is to do for a version. All of it follows from one look, and no master does
// anything if it says something else by now: so the parts may be done in any order, at once, or
// not at all, and by several clients. It is its caller's, but for the reports and rosters that it
// points to: nobody changes these.
type Todo struct {
	Waits   []Waiting      // masters that must wait from now on
	Rejoins []Rejoining    // masters that may vote again, once others promise
	Changes []Change       // what others are told or shown
	Finish  *record.Roster // the version before, if the change after it may not be complete
	Ahead   *record.Roster // this version, if a master was told a later one: the change may not be complete
	Left    []*Report      // masters for which there is nothing to do, while they say this
	Members []*Report      // masters that are members, whatever was found before
}

// Waiting is a master that must wait, and the marker by which it does.
type Waiting struct {
	Of   *Report
	Swap wire.Swap
}

// Rejoining is a master that forgot and has waited, and by whose word it votes again.
type Rejoining struct {
	Of      *Report
	Member  string
	Roster  *record.Roster
	Reports []Report
}

// Todo returns what there is to do for a version that a client looks after.
func (c *Client) Todo(of Care) (t Todo) {
	for i := range of.Reports {
		r := &of.Reports[i]
		switch need, id := c.NeedOf(r, of); need {
		case Wait:
			t.Waits = append(t.Waits, Waiting{r, c.LetWait(r, of.Roster, id)})
			t.Members = append(t.Members, r)
		case Rejoin:
			t.Rejoins = append(t.Rejoins, Rejoining{r, id, of.Roster, of.Reports})
			t.Members = append(t.Members, r)
		case Show:
			t.Changes = append(t.Changes, c.Show(r, of.Roster)...)
		case Tell:
			t.Changes = append(t.Changes, Telling(r, of.Roster, 0))
		case Finish:
			t.Finish = r.Told()
		case Ahead:
			t.Ahead = of.Roster
		case Leave:
			t.Left = append(t.Left, r)
		case Nothing:
		}
	}
	return t
}

// NeedOf returns what a master needs so that it votes by a version, if it may, and the member that
// it is to be where it must wait or rejoin.
//
// While the version does not count, a master that was told the one before is not told this one
// without a look at whether a majority of that one's members has accepted it. (S39,
// docs/safety.md)
//
// Nor is a member that was told an older one: it forgot, and rejoined by the word of a removed
// master. A lock that it granted since may stand on others like it, and is over when it has waited.
// (S38)
func (c *Client) NeedOf(r *Report, of Care) (need Need, member string) {
	roster, p := of.Roster, r.Place
	remembers := r.Marker.State == record.MarkerActive
	switch ours := p.Cluster == roster.Cluster; {
	case p.MayBeOf(roster) && c.Lives.Doubt(r.Marker, p): // its marker may not be that of its present life
		if id, is := c.MemberOf(r, roster, of.Reports); is {
			return Wait, id
		}
		return Leave, ""
	case ours && p.Version == roster.Version && p.Joined == 0:
		return Show, ""
	case ours && p.Joined != 0 && roster.Index(p.Member) >= 0 && (remembers || !p.IsTold()):
		return needsTelling(r, roster, of.Counts), ""
	case !remembers:
		return Nothing, ""
	case ours && p.Version.Number > roster.Version.Number:
		return Ahead, ""
	case ours && !of.Counts && p.Version == roster.Before && r.Told() != nil:
		return Finish, ""
	case ours && !of.Counts && p.Version.Number < roster.Before.Number && r.Told() != nil && roster.Index(p.Member) >= 0:
		return Wait, p.Member
	case ours && p.IsTold():
		return needsTelling(r, roster, of.Counts), ""
	default:
		return c.needsOfMember(r, of)
	}
}

// needsTelling returns whether a master needs to be told a version that was chosen, unless it
// knows one that is as new, or accepted another one of that number. A version that counts also
// takes the place of another one of its number, which was chosen and forgotten by its majority,
// and counts no more. (S39, docs/safety.md)
func needsTelling(r *Report, roster *record.Roster, counts bool) Need {
	switch t := r.Told(); {
	case t != nil && (t.Version.Number > roster.Version.Number || t.Version.Number == roster.Version.Number && !counts):
		return Nothing
	case !r.hides(roster):
		return Tell
	case t != nil && t.Version == roster.Before:
		return Finish
	default:
		return Nothing
	}
}

// needsOfMember returns what a master needs that remembers, and belongs to no cluster, or to
// another one.
func (c *Client) needsOfMember(r *Report, of Care) (need Need, member string) {
	id, is := c.MemberOf(r, of.Roster, of.Reports)
	p := r.Place
	switch {
	case !is:
		return Leave, ""
	case !p.IsTold() && p.Joined == 0 && hasWaited(r, of.Roster, id):
		return Rejoin, id
	case !p.IsTold() && (p.Joined == 0 || p.Cluster == of.Roster.Cluster && of.Mine):
		return Wait, id // it waited for a client that did not know how long, or that it is a member
	case r.isAlone() && of.Mine:
		// Somebody has used it alone after it forgot, or was about to. It may have forgotten locks
		// that it granted as a member, so it waits, and then it rejoins.
		return Wait, id
	default:
		return Leave, ""
	}
}
