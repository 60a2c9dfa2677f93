package core

import "github.com/redquorum/redquorum/redlock/internal/members/record"

// Need is what a master needs of a client that looks after the cluster.
type Need uint8

// What a master may need.
const (
	Nothing   Need = iota // it waits until its locks have expired, and then others see to it
	WaitAnew              // to wait from now on: its marker may not be that of its present life
	Show                  // to be shown the latest lives of the others: it knows this version
	Tell                  // to be told this version
	Ahead                 // nothing of this version: it was told a later one
	Finish                // a look at whether this version was accepted, before it is told that
	BringHome             // to rejoin, or to be left alone: it names no version of this cluster
)

// NeedOf returns what a master needs so that it votes by this version, if it may. Doubted says that
// its marker may not be that of its present life ([record.Lives.Doubt]), and counts that a majority
// of the members names the version.
//
// While the version does not count, a master that was told the one before is not told this one
// without a look at whether a majority of that one's members has accepted it. (S39, docs/safety.md)
func NeedOf(r *Report, roster *record.Roster, doubted, counts bool) Need {
	p, remembers := r.Place, r.Marker.State == record.MarkerActive
	switch ours := p.Cluster == roster.Cluster; {
	case p.MayBeOf(roster) && doubted:
		return WaitAnew
	case ours && p.Version == roster.Version && p.Joined == 0:
		return Show
	case ours && p.Joined != 0 && roster.Index(p.Member) >= 0 && (remembers || !p.IsTold()):
		return needsTelling(r, roster, counts)
	case !remembers:
		return Nothing
	case ours && p.Version.Number > roster.Version.Number:
		return Ahead
	case ours && !counts && p.Version == roster.Before && r.Told() != nil:
		return Finish
	case ours && p.IsTold():
		return needsTelling(r, roster, counts)
	default:
		return BringHome
	}
}

// needsTelling returns whether a master needs to be told a version that was chosen, unless it knows
// one that is as new, or accepted another one of that number. A version that counts also takes the
// place of another one of its number, which was chosen and forgotten by its majority, and counts no
// more. (S39, docs/safety.md)
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
