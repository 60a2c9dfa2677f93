package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// A new cluster is formed by a client whose masters all remember, and belong to none. It lets them
// join, each with a compare-and-set, and where one is refused it gives up this cluster for ever.
// The first by run id joins before the others, so that of two clients with one list, one soon
// gives way. When all have joined, it tells them version 1. There is a time for joining and for
// being told, so that a master that was left behind can be set back: then its cluster will never
// count. So no master belongs to two clusters that both count. (S40, docs/safety.md)
//
// A master notes as the time of its joining when it was asked before, by its own clock: all were
// asked within AskTimeout. So each is told, if at all, within Forming/2 and AskTimeout of that
// time of any other one. Who sets one back after Forming has asked the others at most AskTimeout
// before that, which is later by two seconds at least.
const (
	joinShare = 4 // all join within Forming/4
	tellShare = 2 // and are told within Forming/2 of the time of their joining
)

// Forming is how long a master waits to be told that joined. No lock is held meanwhile, so it is
// for round trips alone, and MaxTTL gives a slow network more.
func Forming(maxTTL time.Duration) time.Duration { return max(maxTTL, 8*AskTimeout) }

// Joining is how long all masters have for joining.
func Joining(maxTTL time.Duration) time.Duration { return Forming(maxTTL) / joinShare }

// Formation is what a new cluster would be made of.
type Formation struct {
	Of      []Report // its masters, in the order in which they join
	Missing []string // the endpoints of those without which it cannot be formed
	May     bool     // all of them are there, remember, and belong to no cluster
}

// Formable returns what the masters of the list would form; with a roster that no member
// remembers, those of that one.
func (c *Client) Formable(reports []Report, roster *record.Roster) (f Formation) {
	f.May = c.Named == ""
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if roster == nil && !n.Listed || roster != nil && c.IndexOf(i, roster) < 0 {
			continue
		}
		if n.Duplicate && roster != nil {
			continue // another name of one of them
		}
		at := slices.IndexFunc(reports, func(r Report) bool { return r.Node == i })
		if at < 0 || n.Duplicate || !n.Up {
			f.Missing = append(f.Missing, n.endpoint())
			continue
		}
		f.Of = append(f.Of, reports[at])
		f.May = f.May && mayForm(&reports[at], roster)
	}
	missing, free := c.missingOf(f.Of, roster)
	f.Missing = append(f.Missing, missing...)
	f.May = f.May && free && len(f.Missing) == 0 && (roster == nil || len(f.Of) == len(roster.Members))
	slices.SortFunc(f.Of, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Marker.RunID, b.Marker.RunID), cmp.Compare(a.Marker.Incarnation, b.Marker.Incarnation))
	})
	return f
}

// mayForm reports whether a master remembers, and belongs to no cluster.
//
// In a list that we count by, a candidate is a member that was removed, and is added again. And
// the one member of a cluster may be on its way home to another one.
func mayForm(r *Report, roster *record.Roster) bool {
	p := r.Place
	if r.Marker.State != record.MarkerActive || p.IsTold() {
		return false
	}
	return roster == nil || p.Joined == 0 && (len(roster.Members) > 1 || p.MayBeOf(roster))
}

// missingOf returns the members that masters know by a register from before they forgot, if it is
// newer than the roster that we know: a part of a cluster does not become another one. (A master
// that lost the register, too, cannot tell.) Free says whether the candidates among them are of
// such a cluster, which is over if all of its members are here: then nobody will make them
// members.
func (c *Client) missingOf(of []Report, roster *record.Roster) (missing []string, free bool) {
	var newest []*record.Roster // one of each cluster
	for i := range of {
		t := of[i].Register.Told
		if t == nil || t.Cluster != of[i].Place.Cluster || of[i].Place.Joined != 0 || roster != nil && !t.Version.Above(roster.Version) {
			continue
		}
		at := slices.IndexFunc(newest, func(r *record.Roster) bool { return r.Cluster == t.Cluster })
		switch {
		case at < 0:
			newest = append(newest, t)
		case t.Version.Above(newest[at].Version):
			newest[at] = t
		}
	}
	for _, told := range newest {
		for i, p := range told.Members {
			here := slices.ContainsFunc(of, func(r Report) bool {
				return c.IndexOf(r.Node, told) == i || r.Place.Cluster == told.Cluster && r.Place.Member == p.ID
			})
			if !here {
				missing = append(missing, p.Endpoint)
			}
		}
	}
	return missing, !slices.ContainsFunc(of, func(r Report) bool {
		return r.Place.Joined != 0 && !slices.ContainsFunc(newest, func(t *record.Roster) bool { return t.Cluster == r.Place.Cluster })
	})
}

// AskToJoin asks masters to join a new cluster. Each notes the time at which it was seen to belong
// to none, by its own clock, and not the one at which it joins: from the former, all are within
// AskTimeout of one another, however late the request arrives.
func (c *Client) AskToJoin(reports []Report, roster *record.Roster) (asks []Change) {
	for _, r := range reports {
		p := record.Place{Cluster: roster.Cluster, Member: roster.At(c.Nodes[r.Node].endpoint()), Version: roster.Version, Joined: r.Now}
		asks = append(asks, Change{Of: r, Marker: r.Marker.At(p), Register: &record.Register{Told: roster}, Anew: true})
	}
	return asks
}

// Joined returns those of the answers whose masters have joined a new cluster. The answers are its
// to use up. A master that has been told it by now, by another client, is in none: that one goes
// on.
func Joined(answers []Report, roster *record.Roster) []Report {
	return slices.DeleteFunc(answers, func(r Report) bool {
		return r.Place.Cluster != roster.Cluster || r.Place.Joined == 0 || r.Register.Told == nil || r.Register.Told.Cluster != roster.Cluster
	})
}

// TellFirst tells masters that have joined a new cluster that all of its members have, for as long
// as they may be told; or if not all have joined in time, it sets them back, and that cluster is
// given up for ever.
func TellFirst(joined []Report, inTime bool, roster *record.Roster) (asks []Change, all bool) {
	all = inTime && len(joined) == len(roster.Members)
	for i := range joined {
		r := &joined[i]
		if all {
			asks = append(asks, Telling(r, roster, r.Place.Joined+(Forming(roster.MaxTTL)/tellShare).Milliseconds()))
		} else {
			asks = append(asks, leave(r))
		}
	}
	return asks, all
}

// ToForm returns the task of forming a cluster of masters that may (Formable).
func ToForm(of []Report, roster *record.Roster) Task {
	return func(c *Client, began clock.Instant, _ []Report) Step {
		return Step{Asks: c.AskToJoin(of[:1], roster), Then: func(c *Client, _ clock.Instant, answers []Report) Step {
			first := Joined(answers, roster)
			if len(first) == 0 {
				return Step{}
			}
			return Step{Asks: c.AskToJoin(of[1:], roster), Then: func(_ *Client, now clock.Instant, answers []Report) Step {
				asks, _ := TellFirst(append(first, Joined(answers, roster)...), now <= began.Add(Joining(roster.MaxTTL)), roster)
				return Step{Asks: asks}
			}}
		}}
	}
}

// leave has a master belong to no cluster. Its register stays, and says nothing without a marker
// that names its version.
func leave(r *Report) Change { return Change{Of: *r, Marker: r.Marker.At(record.Place{})} }

// SetBack has masters belong to no cluster that were left behind in one that will never count:
// they joined Forming ago, and all masters of it were asked, of which none was told it. If one
// was, they are told, too.
func (c *Client) SetBack(reports []Report) (asks []Change) {
	for i := range reports {
		r := &reports[i]
		t := r.Register.Told
		if r.Place.Joined == 0 || t == nil || r.Place.Version != t.Version || t.Cluster != r.Place.Cluster || r.Now <= r.Place.Joined+Forming(t.MaxTTL).Milliseconds() {
			continue
		}
		asked, told := 0, false
		for _, other := range reports {
			ours := other.Place.Cluster == t.Cluster
			told = told || ours && other.Told() != nil
			if slices.ContainsFunc(t.Members, func(p record.Peer) bool {
				return p.Endpoint == c.Nodes[other.Node].endpoint() || ours && other.Place.Member == p.ID
			}) {
				asked++
			}
		}
		switch {
		case told:
			asks = append(asks, Telling(r, t, 0))
		case asked == len(t.Members):
			asks = append(asks, leave(r))
		}
	}
	return asks
}
