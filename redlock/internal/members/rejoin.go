package members

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// letWait has a master wait that may have forgotten locks.
func (ms *Membership) letWait(r *core.Report, change wire.Swap) {
	request := wire.Memory(r.Text, change)
	request.Deadline, request.Sink = ms.clock.Now().Add(askTimeout), ignored{ms}
	ms.do(ms.Nodes()[r.Node], &request)
}

// ignored is for a request whose answer nobody needs: the next look at the marker shows it.
type ignored struct{ membership *Membership }

func (i ignored) asks() *Membership { return i.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (ignored) Complete(int, any, error) {}

// letTornWait has the masters wait that have lost a part of their keys, and returns the reports of
// the others.
func (ms *Membership) letTornWait(reports []core.Report, roster *record.Roster) []core.Report {
	c, longest := ms.client(), ms.LongestTTL()
	if roster == nil {
		roster = c.Newest(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r core.Report) bool {
		torn := r.IsTorn()
		if torn {
			ms.letWait(&r, c.LetTornWait(&r, roster, longest))
		}
		return torn
	})
}

// rejoin has a master vote again that forgot and has waited.
func (ms *Membership) rejoin(ctx context.Context, r *core.Report, roster *record.Roster, id string, reports []core.Report) {
	b := ms.newBallot(reports)
	given := ms.promises(ctx, roster, b, reports)
	asks := ms.client().LetRejoin(r, roster, id, b, given, reports)
	// Nobody rejoins later by what the others said now: they may have been told more since.
	if now := ms.clock.Now(); now < b.Over && now < core.FirstAsked(reports).Add(core.Fresh(roster.MaxTTL)) {
		ms.apply(ctx, asks, nil)
	}
}

// waitsToBeKnownLocked reports whether it is not known yet if a server is the member whose marker
// it has, and says in what is known of it that this may be a copy.
func (ms *Membership) waitsToBeKnownLocked(i int, v *core.Knowledge) bool {
	if !ms.isElsewhereLocked(i) {
		return false
	}
	ms.members[i].early = ms.members[i].early || ms.keeper.undecided()
	v.Own = false
	return !v.Watched || v.Claim == (record.Place{})
}

// isElsewhereLocked reports whether a server seems to have come back with all that it held as a
// member, and not at the endpoint at which that member was added, as far as is known. It may be the
// member by another name, or have a copy of its data. So it is believed when the list of members
// says that this is its endpoint, or when it turns out to be the server that answers there, or when
// somebody who knew that has written its new process into the marker. Otherwise it is taken for one
// that forgot, once whoever knows had the time to do so.
func (ms *Membership) isElsewhereLocked(i int) bool {
	k, n := &ms.keeper, &ms.members[i]
	p := n.place
	if !p.IsTold() || n.known == n.marker.Incarnation || k.byList || n.forbids || !n.server.IsRestart(n.marker) {
		return false
	}
	return k.roster == nil || k.roster.Cluster != p.Cluster || !ms.clientLocked().IsAt(i, k.roster, p.Member)
}
