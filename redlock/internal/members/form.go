package members

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// A new cluster is formed by a client whose masters all remember, and belong to none. It lets them
// join, each with a compare-and-set, and where one is refused it gives up this cluster for ever.
// The first by run id joins before the others, so that of two clients with one list, one soon gives
// way. When all have joined, it tells them version 1. There is a time for joining and for being
// told, so that a master that was left behind can be set back: then its cluster will never count.
// So no master belongs to two clusters that both count. (ExploreForming in
// internal/proof/search/members.)
//
// A master notes as the time of its joining when it was asked before, by its own clock: all were
// asked within askTimeout. So each is told, if at all, within forming/2 and askTimeout of that time
// of any other one. Who sets one back after forming has asked the others at most askTimeout before
// that, which is later by two seconds at least.
const (
	joinShare = 4 // all join within forming/4
	tellShare = 2 // and are told within forming/2 of the time of their joining
)

// forming is how long a master waits to be told that joined. No lock is held meanwhile, so it is
// for round trips alone, and MaxTTL gives a slow network more.
func forming(maxTTL time.Duration) time.Duration { return max(maxTTL, 8*askTimeout) }

// form lets masters form a cluster, if all of them can: those of the list, or of a roster that none
// of its members remembers.
func (ms *Membership) form(ctx context.Context, reports []core.Report, roster *record.Roster) {
	began := ms.clock.Now()
	reports, may := ms.formable(reports, roster)
	if !may {
		ms.setBack(ctx, reports)
		return
	}
	slices.SortFunc(reports, func(a, b core.Report) int {
		if a.Marker.RunID < b.Marker.RunID || a.Marker.RunID == b.Marker.RunID && a.Marker.Incarnation < b.Marker.Incarnation {
			return -1
		}
		return 1
	})
	nodes := ms.Nodes()
	var endpoints []string
	for i := range reports {
		endpoints = append(endpoints, nodes[reports[i].Node].Listed())
	}
	maxTTL := ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	roster = record.NewCluster(maxTTL, endpoints)
	joined := ms.join(ctx, reports[:1], roster)
	if len(joined) == 1 {
		joined = append(joined, ms.join(ctx, reports[1:], roster)...)
	}
	soFar, late := ms.learn, ms.clock.Now() > began.Add(forming(maxTTL)/joinShare)
	var asks []core.Change
	for i := range joined {
		if r := &joined[i]; late || len(joined) < len(reports) { // gives up
			soFar = nil
			asks = append(asks, core.Change{Of: *r, Marker: r.Marker.At(record.Place{})})
		} else {
			asks = append(asks, core.Telling(r, roster, r.Place.Joined+(forming(maxTTL)/tellShare).Milliseconds()))
		}
	}
	ms.apply(ctx, asks, soFar)
}

// FormAnyway makes a cluster of all masters of the list that are there and remember, whatever they
// belong to, unless a quorum votes: an operator knows that what they belong to is gone.
func (ms *Membership) FormAnyway(ctx context.Context) {
	if ms.View().Enough {
		return
	}
	var there []core.Report
	for _, r := range ms.survey(ctx, ms.learn) {
		ms.mu.Lock()
		is := r.Node < ms.listed && ms.members[r.Node].duplicate < 0
		ms.mu.Unlock()
		if is && r.Marker.State == record.MarkerActive {
			there = append(there, r)
		}
	}
	if len(there) == 0 || ms.View().Enough || ctx.Err() != nil {
		return
	}
	var endpoints []string
	for i := range there {
		endpoints = append(endpoints, ms.nodeOf(&there[i]).Listed())
	}
	roster := record.NewCluster(ms.maxTTL, endpoints)
	var asks []core.Change
	for _, r := range ms.join(ctx, there, roster) {
		asks = append(asks, core.Telling(&r, roster, 0))
	}
	told := ms.apply(ctx, asks, nil)
	ms.mu.Lock()
	if ctx.Err() == nil {
		ms.cluster = "" // that cluster is gone
	}
	if len(told) == len(there) {
		ms.adoptLocked(roster)
	}
	ms.endLocked(false)
}

// join lets masters join a cluster, and returns the reports of those that did.
func (ms *Membership) join(ctx context.Context, reports []core.Report, roster *record.Roster) (joined []core.Report) {
	var asks []core.Change
	for _, r := range reports {
		id := roster.At(ms.nodeOf(&r).Endpoint())
		p := record.Place{Cluster: roster.Cluster, Member: id, Version: roster.Version, Joined: r.Now}
		asks = append(asks, core.Change{Of: r, Marker: r.Marker.At(p), Register: &record.Register{Told: roster}, Anew: true})
	}
	return slices.DeleteFunc(ms.apply(ctx, asks, nil), func(r core.Report) bool {
		return r.Place.Cluster != roster.Cluster || r.Place.Joined == 0 || r.Register.Told == nil || r.Register.Told.Cluster != roster.Cluster
	})
}

// formable returns the reports of the masters of a new cluster, and whether it can be formed: all
// of them are there, remember, and belong to no cluster.
func (ms *Membership) formable(reports []core.Report, roster *record.Roster) (of []core.Report, may bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	k, c := &ms.keeper, ms.clientLocked()
	k.missing = nil
	may = ms.cluster == ""
	for i, node := range ms.Nodes() {
		n := &ms.members[i]
		if i >= ms.listed && roster == nil || roster != nil && c.IndexOf(i, roster) < 0 {
			continue
		}
		if n.duplicate >= 0 && roster != nil {
			continue // another name of one of them
		}
		at := slices.IndexFunc(reports, func(r core.Report) bool { return r.Node == i })
		if at < 0 || n.duplicate >= 0 || node.State() != pipeline.Up {
			k.missing = append(k.missing, node.Endpoint())
			continue
		}
		r := reports[at]
		// In a list that we count by, a candidate is a member that was removed, and is added again.
		may = may && r.Marker.State == record.MarkerActive && r.Place.Version == (record.Version{}) && (roster == nil || r.Place.Joined == 0)
		// And the one member of a cluster may be on its way home to another one (bringHome).
		may = may && (roster == nil || len(roster.Members) > 1 || r.Place.Cluster == "" || r.Place.Cluster == roster.Cluster)
		of = append(of, r)
	}
	may = ms.othersLocked(of, roster) && may
	return of, may && len(k.missing) == 0 && (roster == nil || len(of) == len(roster.Members))
}

// othersLocked adds to those that are missing the members that masters know by a register from
// before they forgot, if it is newer than the roster that we know: a part of a cluster does not
// become another one. Who lost the register, too, cannot tell. It reports whether the candidates
// among them are of such a cluster, which is over if all of its members are here: then nobody will
// make them members.
func (ms *Membership) othersLocked(of []core.Report, roster *record.Roster) (free bool) {
	newest, c := make(map[string]*record.Roster), ms.clientLocked()
	for _, r := range of {
		t := r.Register.Told
		if t == nil || t.Cluster != r.Place.Cluster || r.Place.Joined != 0 {
			continue
		}
		if roster != nil && !t.Version.Above(roster.Version) {
			continue
		}
		if newest[t.Cluster] == nil || t.Version.Above(newest[t.Cluster].Version) {
			newest[t.Cluster] = t
		}
	}
	for _, told := range newest {
		for i, p := range told.Members {
			here := slices.ContainsFunc(of, func(r core.Report) bool {
				return c.IndexOf(r.Node, told) == i || r.Place.Cluster == told.Cluster && r.Place.Member == p.ID
			})
			if !here {
				ms.keeper.missing = append(ms.keeper.missing, p.Endpoint)
			}
		}
	}
	return !slices.ContainsFunc(of, func(r core.Report) bool { return r.Place.Joined != 0 && newest[r.Place.Cluster] == nil })
}

// setBack lets masters belong to no cluster that were left behind in one that will never count:
// they joined forming ago, and none of its masters was told it.
func (ms *Membership) setBack(ctx context.Context, reports []core.Report) {
	for _, r := range reports {
		t := r.Register.Told
		if r.Place.Joined == 0 || t == nil || r.Place.Version != t.Version || t.Cluster != r.Place.Cluster || r.Now <= r.Place.Joined+forming(t.MaxTTL).Milliseconds() {
			continue
		}
		asked, told := 0, false
		for _, other := range reports {
			told = told || other.Place.Cluster == t.Cluster && other.Told() != nil
			if slices.ContainsFunc(t.Members, func(p record.Peer) bool {
				return p.Endpoint == ms.nodeOf(&other).Endpoint() || other.Place.Cluster == t.Cluster && other.Place.Member == p.ID
			}) {
				asked++
			}
		}
		switch {
		case told:
			ms.apply(ctx, []core.Change{core.Telling(&r, t, 0)}, nil)
		case asked == len(t.Members):
			ms.apply(ctx, []core.Change{{Of: r, Marker: r.Marker.At(record.Place{})}}, nil)
		}
	}
}
