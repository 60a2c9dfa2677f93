package members

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
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
func (ms *Membership) form(ctx context.Context, reports []report, roster *Roster) {
	began := ms.clock.Now()
	reports, may := ms.formable(reports, roster)
	if !may {
		ms.setBack(ctx, reports)
		return
	}
	slices.SortFunc(reports, func(a, b report) int {
		if a.marker.runID < b.marker.runID || a.marker.runID == b.marker.runID && a.marker.incarnation < b.marker.incarnation {
			return -1
		}
		return 1
	})
	nodes := ms.Nodes()
	var endpoints []string
	for i := range reports {
		endpoints = append(endpoints, nodes[reports[i].node].Listed())
	}
	maxTTL := ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	roster = newCluster(maxTTL, endpoints)
	joined := ms.join(ctx, reports[:1], roster)
	if len(joined) == 1 {
		joined = append(joined, ms.join(ctx, reports[1:], roster)...)
	}
	soFar, late := ms.learn, ms.clock.Now() > began.Add(forming(maxTTL)/joinShare)
	var asks []*inquiry
	for i := range joined {
		if r := joined[i]; late || len(joined) < len(reports) { // gives up
			soFar = nil
			asks = append(asks, ms.swapping(r, change{marker: r.marker.at(place{})}))
		} else {
			asks = append(asks, ms.telling(r, roster, r.place.joined+(forming(maxTTL)/tellShare).Milliseconds()))
		}
	}
	ms.ask(ctx, asks, soFar)
}

// FormAnyway makes a cluster of all masters of the list that are there and remember, whatever they
// belong to, unless a quorum votes: an operator knows that what they belong to is gone.
func (ms *Membership) FormAnyway(ctx context.Context) {
	if ms.View().Enough {
		return
	}
	var there []report
	for _, r := range ms.survey(ctx, ms.learn) {
		ms.mu.Lock()
		is := r.node < ms.listed && ms.members[r.node].duplicate < 0
		ms.mu.Unlock()
		if is && r.marker.state == markerActive {
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
	roster := newCluster(ms.maxTTL, endpoints)
	var asks []*inquiry
	for _, r := range ms.join(ctx, there, roster) {
		asks = append(asks, ms.telling(r, roster, 0))
	}
	told := ms.ask(ctx, asks, nil)
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
func (ms *Membership) join(ctx context.Context, reports []report, roster *Roster) (joined []report) {
	var asks []*inquiry
	for _, r := range reports {
		id := roster.at(ms.nodeOf(&r).Endpoint())
		p := place{cluster: roster.Cluster, member: id, version: roster.Version, joined: r.now}
		asks = append(asks, ms.swapping(r, change{marker: r.marker.at(p), register: &register{told: roster}, told: true}))
	}
	return slices.DeleteFunc(ms.ask(ctx, asks, nil), func(r report) bool {
		return r.place.cluster != roster.Cluster || r.place.joined == 0 || r.register.told == nil || r.register.told.Cluster != roster.Cluster
	})
}

// formable returns the reports of the masters of a new cluster, and whether it can be formed: all
// of them are there, remember, and belong to no cluster.
func (ms *Membership) formable(reports []report, roster *Roster) (of []report, may bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	k := &ms.keeper
	k.missing = nil
	may = ms.cluster == ""
	for i, node := range ms.Nodes() {
		n := &ms.members[i]
		if i >= ms.listed && roster == nil || roster != nil && ms.seatOfLocked(i, roster) < 0 {
			continue
		}
		if n.duplicate >= 0 && roster != nil {
			continue // another name of one of them
		}
		at := slices.IndexFunc(reports, func(r report) bool { return r.node == i })
		if at < 0 || n.duplicate >= 0 || node.State() != pipeline.Up {
			k.missing = append(k.missing, node.Endpoint())
			continue
		}
		r := reports[at]
		// In a list that we count by, a candidate is a member that was removed, and is added again.
		may = may && r.marker.state == markerActive && r.place.version == (Version{}) && (roster == nil || r.place.joined == 0)
		// And the one member of a cluster may be on its way home to another one (bringHome).
		may = may && (roster == nil || len(roster.Members) > 1 || r.place.cluster == "" || r.place.cluster == roster.Cluster)
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
func (ms *Membership) othersLocked(of []report, roster *Roster) (free bool) {
	newest := make(map[string]*Roster)
	for _, r := range of {
		t := r.register.told
		if t == nil || t.Cluster != r.place.cluster || r.place.joined != 0 {
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
			here := slices.ContainsFunc(of, func(r report) bool {
				return ms.seatOfLocked(r.node, told) == i || r.place.cluster == told.Cluster && r.place.member == p.ID
			})
			if !here {
				ms.keeper.missing = append(ms.keeper.missing, p.Endpoint)
			}
		}
	}
	return !slices.ContainsFunc(of, func(r report) bool { return r.place.joined != 0 && newest[r.place.cluster] == nil })
}

// setBack lets masters belong to no cluster that were left behind in one that will never count:
// they joined forming ago, and none of its masters was told it.
func (ms *Membership) setBack(ctx context.Context, reports []report) {
	for _, r := range reports {
		t := r.register.told
		if r.place.joined == 0 || t == nil || r.place.version != t.Version || t.Cluster != r.place.cluster || r.now <= r.place.joined+forming(t.MaxTTL).Milliseconds() {
			continue
		}
		asked, told := 0, false
		for _, other := range reports {
			told = told || other.place.cluster == t.Cluster && other.told() != nil
			if slices.ContainsFunc(t.Members, func(p Peer) bool {
				return p.Endpoint == ms.nodeOf(&other).Endpoint() || other.place.cluster == t.Cluster && other.place.member == p.ID
			}) {
				asked++
			}
		}
		switch {
		case told:
			ms.tell(ctx, r, t, false)
		case asked == len(t.Members):
			ms.swap(ctx, r, change{marker: r.marker.at(place{})})
		}
	}
}
