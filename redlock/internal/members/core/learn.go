package core

import (
	"fmt"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Belief is the version by which a client counts votes, or why there is none. It is a value:
// [Client.Learn] and [Client.Concede] return the next one and change nothing.
type Belief struct {
	Roster   *record.Roster // nil while none is known
	Conflict error          // why no lock may be granted: the list has masters of two clusters
	Rival    string         // why none is known: this cluster may count as well, or may be meant
	Few      string         // or no more members of this cluster have answered than masters are unheard
}

// conflictError means that the list has masters of two clusters.
type conflictError struct{ one, other string }

// Error says what an operator can do: nobody else can end the conflict.
func (e conflictError) Error() string {
	return fmt.Sprintf("the list has the masters of two clusters, %s and %s: leave out those of one (WithCluster says which one is meant)", e.one, e.other)
}

// conflictOf returns the same error whichever of the two is ours.
func conflictOf(one, other string) error { return conflictError{min(one, other), max(one, other)} }

// Learn finds the newest version that counts: a majority of its members name it. (S38,
// docs/safety.md)
//
// A client that counts by a cluster stays with it for as long as one member of it remembers. Only
// the first entry, and the one after all have forgotten, choose a cluster.
func (c *Client) Learn(b Belief, reports []Report) Belief {
	counted := slices.DeleteFunc(countedIn(reports), func(r *record.Roster) bool { return c.Named != "" && r.Cluster != c.Named })
	known := b.Roster
	if next := newer(known, counted, reports); next != nil {
		b.Roster, b.Conflict = next, nil
	}
	// Nobody beside the list says which cluster is meant but members: no master that an operator is
	// about to add, and none that was asked because it may be a member (Unproven).
	reports = slices.DeleteFunc(slices.Clone(reports), func(r Report) bool {
		n := &c.Nodes[r.Node]
		return !n.Listed && (b.Roster == nil || b.Roster.Index(n.Of) < 0)
	})
	counted = slices.DeleteFunc(counted, func(r *record.Roster) bool { return NamedIn(reports, r) < r.Need() })
	all := slices.Clone(counted)
	counted = slices.DeleteFunc(counted, func(r *record.Roster) bool { return isSmall(r, all) || c.isAstray(r, all, reports) })
	if known != nil && slices.ContainsFunc(reports, func(r Report) bool { return r.Place.Cluster == known.Cluster && r.Told() != nil }) {
		return c.contest(b, reports, counted)
	}
	return c.enter(b, known, reports, counted)
}

// newer returns the version to count by after the known one; nil if that is the newest. Another
// one of the same number takes the place of the known one if it counts now: then a majority has
// forgotten the known one, and it counts no more.
func newer(known *record.Roster, counted []*record.Roster, reports []Report) *record.Roster {
	if known == nil {
		return nil
	}
	for _, r := range counted { // one version of each cluster
		if r.Cluster == known.Cluster && r.Version.Number >= known.Version.Number && r.Version != known.Version {
			return r
		}
	}
	// Told by a majority of the version that we know, the next one was chosen. Its quorum may
	// need a new member, which is not known to us before.
	if next, by := ToldNext(known, reports); next != nil && by >= known.Need() {
		return next
	}
	return nil
}

// Unproven returns the newest version that a master was told, if it may count without having been
// found to; nil if there is none. A client that counts by an older one asks the members of this
// one, too: it may have missed two changes or more, and then a majority of what counts may be none
// of the masters that it knows. (S38, docs/safety.md)
//
// So one master's word gives endpoints, and no more: the version counts once a majority of its own
// members names it (Learn), as any other. It is of our cluster, whose versions follow one another
// by the choice of their members. So a master that is stale leads to an older version, which is
// passed over, or to members that tell of a later one, which are asked for their part. Each member
// was told at least the first version that had it: so that ends with the newest.
//
// While a majority names our version, there is nothing to ask. It shares a master with any majority
// of the next one, and all members of that know it before another is chosen: so nothing later
// counts, and an operator that makes a change dials the new member itself.
func (c *Client) Unproven(ours *record.Roster, reports []Report) *record.Roster {
	newest := c.Newest(reports, ours, false)
	switch {
	case newest == nil || ours == nil:
		return newest
	case newest.Version == ours.Version || newest.Version.Number < ours.Version.Number || NamedIn(reports, ours) >= ours.Need():
		return nil
	default:
		return newest
	}
}

// enter chooses a cluster when no member of the known one remembers, or none is known.
//
// A cluster counts only if its members here outnumber the masters of which nothing is known.
// Otherwise a client that reaches only one master, which somebody has made a cluster of its own,
// would take that for the cluster.
func (c *Client) enter(b Belief, known *record.Roster, reports []Report, counted []*record.Roster) Belief {
	unheard := c.unheard(reports, known)
	b.Few, b.Rival = "", ""
	counted = slices.DeleteFunc(counted, func(r *record.Roster) bool {
		few := NamedIn(reports, r) <= unheard
		if few {
			b.Few = r.Cluster
		}
		return few
	})
	switch {
	case len(counted) > 1:
		b.Conflict = conflictOf(counted[0].Cluster, counted[1].Cluster)
	case len(counted) == 1 && (known == nil || counted[0].Cluster != known.Cluster):
		if c.Named == "" {
			b.Rival = c.rivalOf(counted[0], reports, unheard)
		}
		switch {
		case b.Rival == "":
			b.Roster, b.Conflict = counted[0], nil
		case unheard == 0:
			b.Conflict = conflictOf(counted[0].Cluster, b.Rival)
		}
	}
	return b
}

// rivalOf returns another cluster that may count for a client with the same list, or that may be
// the one that is meant by it, as far as is known; empty if there is none.
//
// So two clients with one list never enter two clusters, whichever masters answer them first. Each
// hears of more members of its own cluster than there are masters of which it hears nothing. The
// client that hears of no fewer members than the other one cannot have missed the other cluster
// altogether. If it has heard of one member of that cluster, and not of the rest by which that
// counts, then the rest are among the unheard.
//
// Nor does a list count by a server that somebody has used alone, where it has few members of the
// cluster that is meant: a cluster needs more masters in the list than another one has, also with
// all that are unheard.
//
// Each master is judged by the version that it was told, and not by the newest that is known. By
// that, a client would enter the cluster that the last member of a shrunken one has become. But
// masters that were removed do not tell what theirs became since: it may have grown elsewhere, and
// another client, whose list is the same, may count by that.
//
// A cluster of one master is no rival of a larger one. A client that enters it has heard of nobody
// else's master, and has heard of all. But a client that enters the larger one has heard of a
// majority of that.
func (c *Client) rivalOf(r *record.Roster, reports []Report, unheard int) string {
	own := NamedIn(reports, r)
	for i := range reports {
		one := &reports[i]
		if one.Place.Cluster == r.Cluster || !one.isOf(one.Place.Cluster) {
			continue
		}
		least, t := own, one.Told()
		if t != nil {
			least = min(own, t.Need())
		}
		other := []*record.Roster{r}
		if (t == nil || !isSmall(t, other) && !c.isAstray(t, other, reports)) && masters(reports, one.Place.Cluster)+unheard >= least {
			return one.Place.Cluster
		}
	}
	return ""
}

// contest finds out whether the list also has the majority of another cluster than ours. With the
// same list, another client may count by that one: so neither may grant anything. It does not
// matter which members of ours remember: while one of them forgot, a client that begins may enter
// the other cluster by the rest of the list, and we go on with the members that the list lacks.
func (c *Client) contest(b Belief, reports []Report, counted []*record.Roster) Belief {
	listed := c.listed(reports)
	if c.unheard(reports, nil) == 0 {
		b.Conflict = nil
	}
	for _, r := range counted {
		if c.Named == "" && r.Cluster != b.Roster.Cluster && NamedIn(listed, r) >= r.Need() && c.membersAmong(listed, b.Roster) >= b.Roster.Need() {
			b.Conflict = conflictOf(b.Roster.Cluster, r.Cluster)
		}
	}
	return b
}

// membersAmong counts the members of a version that have reported, also those that forgot it.
func (c *Client) membersAmong(reports []Report, roster *record.Roster) (n int) {
	for i, p := range roster.Members {
		if slices.ContainsFunc(reports, func(r Report) bool {
			return r.Place.Cluster == roster.Cluster && r.Place.Member == p.ID || r.Place.Cluster == "" && c.IndexOf(r.Node, roster) == i
		}) {
			n++
		}
	}
	return n
}

// Concede ends a conflict when those of the other cluster do not answer: a client that begins now
// with this list enters our cluster, or none. The reports are all that came: while masters are
// being asked, they may yet answer.
func (c *Client) Concede(b Belief, reports []Report) Belief {
	if b.Conflict == nil || b.Roster == nil {
		return b
	}
	listed := c.listed(reports)
	unheard, own := c.unheard(listed, nil), NamedIn(listed, b.Roster)
	if own >= b.Roster.Need() && own > unheard && c.rivalOf(b.Roster, listed, unheard) == "" {
		b.Conflict = nil
	}
	return b
}

// isSmall reports whether a cluster is a single master, beside a larger one. Somebody has used
// that master alone: no list of the larger cluster is meant for it.
func isSmall(r *record.Roster, among []*record.Roster) bool {
	return len(r.Members) == 1 && slices.ContainsFunc(among, func(other *record.Roster) bool { return len(other.Members) > 1 })
}

// isAstray reports whether a cluster is a single master that is a member of another one, by its
// endpoint or by the one at which it answers us: somebody has used it alone after it forgot,
// perhaps by another name.
func (c *Client) isAstray(r *record.Roster, among []*record.Roster, reports []Report) bool {
	return len(r.Members) == 1 && slices.ContainsFunc(among, func(other *record.Roster) bool {
		return other != r && slices.ContainsFunc(other.Members, func(p record.Peer) bool {
			return p.Endpoint == r.Members[0].Endpoint || slices.ContainsFunc(reports, func(one Report) bool {
				t, n := one.Told(), &c.Nodes[one.Node]
				return t != nil && t.Cluster == r.Cluster && (slices.Contains(n.Endpoints, p.Endpoint) || n.Of == p.ID)
			})
		})
	})
}

// unheard counts the members of a version of which nothing is known; without one, the masters of
// the list.
func (c *Client) unheard(reports []Report, roster *record.Roster) (n int) {
	if roster != nil {
		for _, p := range roster.Members {
			if !slices.ContainsFunc(reports, func(r Report) bool { return c.Nodes[r.Node].Of == p.ID }) {
				n++
			}
		}
		return n
	}
	for i, node := range c.Nodes {
		if node.Listed && !node.Duplicate && !node.Free && !slices.ContainsFunc(reports, func(r Report) bool { return r.Node == i }) {
			n++
		}
	}
	return n
}

// listed returns the reports of the masters of the list.
func (c *Client) listed(reports []Report) []Report {
	return slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return !c.Nodes[r.Node].Listed })
}
