package core

import (
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// What is here looks at a report, and returns a new place, swap or change. Nothing that it was
// given is changed.

// nextLife returns the place of a member that begins another life: later than all that this client
// knows of it. Two clients that know of different ones may begin the same number; the names of the
// incarnations tell these apart (record.Marker.Life).
func (c *Client) nextLife(roster *record.Roster, id string) record.Place {
	life := c.Lives[record.MemberID{Cluster: roster.Cluster, Member: id}].Number + 1
	return record.Place{Cluster: roster.Cluster, Member: id, Life: life}
}

// Claim returns which member a node is, as far as it is known: that goes into its marker when it
// forgets, so that it waits for as long as its cluster's locks may last, whoever looks at it.
func (c *Client) Claim(node int, roster *record.Roster) record.Place {
	if roster == nil {
		return record.Place{}
	}
	at := c.IndexOf(node, roster)
	if at < 0 {
		return record.Place{}
	}
	return c.nextLife(roster, roster.Members[at].ID)
}

// hasWaited reports whether a master that forgot has waited for as long as locks of this roster
// may last. Its marker says so: who wrote it knew the member, its life, and MaxTTL.
func hasWaited(r *Report, roster *record.Roster, id string) bool {
	p := r.Place
	return p.Cluster == roster.Cluster && p.Member == id && p.Life > 0 && r.Marker.MaxTTL >= Quarantine(roster.Longest()).Milliseconds()
}

// LetWait has a master wait that may have forgotten locks of this roster, from now on.
func (c *Client) LetWait(r *Report, roster *record.Roster, id string) wire.Swap {
	return waits(r.Marker.At(c.nextLife(roster, id)), Quarantine(roster.Longest()).Milliseconds())
}

// LetTornWait has a master wait that has lost a part of its keys. A quarantine is safe whatever
// was lost: so is what follows it, as for any master that forgot. A client that knows the cluster,
// by a roster, begins another life of the member; otherwise that is done when somebody does
// (Lives.Doubt).
func (c *Client) LetTornWait(r *Report, roster *record.Roster) wire.Swap {
	if roster != nil && roster.Cluster == r.Place.Cluster && roster.Index(r.Place.Member) >= 0 {
		return c.LetWait(r, roster, r.Place.Member)
	}
	return waits(r.Marker.At(r.Place.Forgotten()), max(r.Marker.MaxTTL, Quarantine(c.Longest).Milliseconds()))
}

// waits returns the change to a marker under a new incarnation, by which its server waits so long.
func waits(m record.Marker, maxTTL int64) wire.Swap {
	m.Incarnation, m.MaxTTL = record.NewIncarnation(), maxTTL
	return wire.Swap{Begin: record.WordLost, Rest: m.Rest(), Wait: maxTTL}
}

// LetRejoin has a master vote again that forgot and has waited, as the member that it was. One
// other that remembers the list is enough for that: without one, there is no change. In the choice
// of the next version it takes part if it can learn what it may have accepted (Learns).
func (c *Client) LetRejoin(who Rejoining, b Ballot, given []Report) (asks []Change) {
	r, roster := who.Of, who.Roster
	if len(given) == 0 && !c.Remembered(roster, who.Reports) {
		return nil
	}
	register := record.Register{Told: roster}
	if c.Learns(roster, given, who.Reports) {
		register.Promised, register.Until = b.Number, r.Now+b.Life
		register.Ballot, register.Accepted = Found(given)
	} else {
		register.Unlearned = true
	}
	m, p := r.Marker, record.Place{Cluster: roster.Cluster, Member: who.Member, Version: roster.Version, Life: r.Place.Life}
	m.MaxTTL = Quarantine(roster.Longest()).Milliseconds()
	return []Change{{Of: *r, Marker: m.At(p), Register: &register, Anew: true, Latest: r.Now + b.Life}}
}

// Show shows a member that counts the latest lives of the others, unless it knows them. Its vote
// says so from then on, to every client that counts it, and so takes the votes of earlier lives
// away from whoever had counted them in the same attempt.
func (c *Client) Show(r *Report, roster *record.Roster) (asks []Change) {
	p := r.Place
	if p.Lives = c.Lives.Of(roster, p.Member); p.Lives == r.Place.Lives {
		return nil
	}
	return []Change{{Of: *r, Marker: r.Marker.At(p)}}
}
