package core

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Client is what a client knows before it reads what masters say. It is a copy: nothing in it
// changes while a decision is made.
type Client struct {
	Named   string // the only cluster by which votes may count; empty for any
	Nodes   []Node // by the index that a [Report] names
	Lives   record.Lives
	Longest time.Duration // how long any lock may last, as far as it is known
}

// Node is what is known of a node besides what its master says now.
type Node struct {
	Listed    bool     // it is one of the client's list
	Duplicate bool     // it is the same server as an earlier node
	Free      bool     // its connection was ended, because its master was removed, or not added
	Met       bool     // it has connected
	Up        bool     // it is connected
	Of        string   // the member that its master was last; empty if it never was one
	ID        string   // the member that it was said to be last, by its marker
	Endpoints []string // at which its master answers: its own first, and those of its duplicates
}

// endpoint returns the endpoint of a node, by which its client knows it. Other clients may know
// the master by another one.
func (n *Node) endpoint() string { return n.Endpoints[0] }

// answersAt reports whether a node answers at the endpoint at which a member was added.
func (c *Client) answersAt(node int, p record.Peer) bool {
	return slices.Contains(c.Nodes[node].Endpoints, p.Endpoint)
}

// IsAt reports whether a node answers at the endpoint of the member with this ID.
func (c *Client) IsAt(node int, roster *record.Roster, id string) bool {
	at := roster.Index(id)
	return at >= 0 && c.answersAt(node, roster.Members[at])
}

// IndexOf returns the index of the member that a node is as far as can be told without its marker,
// which may be another one's; -1 if it cannot.
func (c *Client) IndexOf(node int, roster *record.Roster) int {
	at := slices.IndexFunc(roster.Members, func(p record.Peer) bool { return c.answersAt(node, p) })
	if at < 0 {
		at = c.SaidToBe(node, roster, c.Nodes[node].ID)
	}
	return at
}

// SaidToBe returns the index of the member that a marker says a node is, whatever its endpoint; -1
// if another master answers at that member's endpoint. Then the marker came from there, with a
// copy of the data.
func (c *Client) SaidToBe(node int, roster *record.Roster, id string) int {
	at := roster.Index(id)
	if at < 0 || c.answersAt(node, roster.Members[at]) {
		return at
	}
	for other := range c.Nodes {
		if c.Nodes[other].Met && c.answersAt(other, roster.Members[at]) {
			return -1
		}
	}
	return at
}

// MemberOf returns which member a master is that has forgotten it: by the endpoint at which the
// member was added, by what was known of this node, or by what others who knew it wrote into its
// marker; never because a member is missing. Of two that are said to be one member, it is the one
// that votes as that, or began its wait last. (S38, docs/safety.md)
func (c *Client) MemberOf(r *Report, roster *record.Roster, reports []Report) (id string, ours bool) {
	at := c.IndexOf(r.Node, roster)
	surely := at >= 0 && c.answersAt(r.Node, roster.Members[at])
	if at < 0 && r.Place.Cluster == roster.Cluster {
		at = c.SaidToBe(r.Node, roster, r.Place.Member)
	}
	if at < 0 {
		return "", false
	}
	id = roster.Members[at].ID
	taken := slices.ContainsFunc(reports, func(other Report) bool {
		p := other.Place
		if other.Node == r.Node || p.Cluster != roster.Cluster || p.Member != id {
			return false
		}
		later := !surely && p.Life > 0 && other.Marker.Life(p).Above(r.Marker.Life(r.Place))
		return later || other.Told() != nil && !c.Lives.Over(other.Marker, p)
	})
	return id, !taken
}

// Remembers reports whether a master remembers that it was told this version as a member. That
// takes all of it: an active marker, the register that the marker names, an ID that the version
// has, and a life that is not over, as far as it is known. Who remembers may promise and let
// others rejoin.
func (c *Client) Remembers(r *Report, roster *record.Roster) bool {
	t := r.Told()
	return t != nil && t.Cluster == roster.Cluster && t.Version == roster.Version &&
		roster.Index(r.Place.Member) >= 0 && !c.Lives.Over(r.Marker, r.Place)
}

// Remembered reports whether a member remembers that it was told a version. One is enough: what
// one was told was chosen.
func (c *Client) Remembered(roster *record.Roster, reports []Report) bool {
	return slices.ContainsFunc(reports, func(r Report) bool { return c.Remembers(&r, roster) })
}

// Newest returns the newest version that a master was told and remembers; with byMember, that one
// of its members remembers. It is of our cluster, if there is one: nil stands for none. What only
// those masters remember that were removed is nobody's list any more.
func (c *Client) Newest(reports []Report, ours *record.Roster, byMember bool) (newest *record.Roster) {
	for i := range reports {
		t := reports[i].Told()
		switch {
		case t == nil || ours == nil && !c.Nodes[reports[i].Node].Listed: // an operator is about to add the latter
		case byMember && t.Index(reports[i].Place.Member) < 0 || c.Named != "" && t.Cluster != c.Named || ours != nil && t.Cluster != ours.Cluster:
		case newest == nil || t.Version.Number > newest.Version.Number:
			newest = t
		}
	}
	return newest
}

// LookAfter returns the version that a client looks after: the one by which it counts votes, or
// the newest that a member of it remembers, if too few members of the former could choose another
// one: they forgot, were told more, or are away. It returns nil if none is remembered: then a new
// cluster may be formed.
//
// Otherwise a master that forgot would rejoin at an older version by the word of a removed master,
// which was not told so, beside members of the newest that count without both. (S38,
// docs/safety.md)
func (c *Client) LookAfter(ours *record.Roster, reports []Report) *record.Roster {
	newest := c.Newest(reports, ours, true)
	switch {
	case newest == nil || ours == nil:
		return newest
	case newest.Version.Number > ours.Version.Number && choosers(c, ours, reports) < ours.Need(),
		newest.Version.Above(ours.Version) && !c.Remembered(ours, reports):
		return newest
	default:
		return ours
	}
}

// choosers counts the members that could choose the version after one.
func choosers(c *Client, roster *record.Roster, reports []Report) (n int) {
	for i := range reports {
		if r := &reports[i]; c.Remembers(r, roster) && !r.Register.Unlearned {
			n++
		}
	}
	return n
}
