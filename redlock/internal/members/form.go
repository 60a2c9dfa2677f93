package members

import (
	"context"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// form has masters form a cluster, if all of them can: those of the list, or of a roster that none
// of its members remembers.
func (ms *Membership) form(ctx context.Context, reports []core.Report, roster *record.Roster) {
	began := ms.clock.Now()
	f := ms.formable(reports, roster)
	if !f.May {
		ms.apply(ctx, ms.client().SetBack(f.Of), nil)
		return
	}
	maxTTL := ms.maxTTL
	if roster != nil {
		maxTTL = roster.MaxTTL
	}
	roster = record.NewCluster(maxTTL, ms.endpointsOf(f.Of))
	joined := ms.join(ctx, f.Of[:1], roster)
	if len(joined) == 1 {
		joined = append(joined, ms.join(ctx, f.Of[1:], roster)...)
	}
	soFar, all := ms.learn, len(joined) == len(f.Of) && ms.clock.Now() <= began.Add(core.Joining(maxTTL))
	if !all {
		soFar = nil
	}
	ms.apply(ctx, core.TellFirst(joined, all, roster), soFar)
}

// formable returns what the masters would form, and notes what is missing.
func (ms *Membership) formable(reports []core.Report, roster *record.Roster) core.Formation {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	f := ms.clientLocked().Formable(reports, roster)
	ms.keeper.missing = f.Missing
	return f
}

// endpointsOf returns the endpoints of masters with the names that their certificates must have.
func (ms *Membership) endpointsOf(reports []core.Report) (endpoints []string) {
	for i := range reports {
		endpoints = append(endpoints, ms.Nodes()[reports[i].Node].Listed())
	}
	return endpoints
}

// join has masters join a cluster, and returns the reports of those that did.
func (ms *Membership) join(ctx context.Context, reports []core.Report, roster *record.Roster) []core.Report {
	return core.Joined(ms.apply(ctx, ms.client().AskToJoin(reports, roster), nil), roster)
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
	roster := record.NewCluster(ms.maxTTL, ms.endpointsOf(there))
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
