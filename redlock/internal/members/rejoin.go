package members

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// bringHome does what a master needs that remembers and belongs to no cluster, or to another one.
func (ms *Membership) bringHome(ctx context.Context, r *core.Report, roster *record.Roster, reports []core.Report) {
	id, ours := ms.memberOf(r, roster, reports)
	t := r.Register.Told
	switch {
	case !ours:
		ms.estrange(r)
	case r.Place.Version == (record.Version{}) && r.Place.Joined == 0 && hasWaited(r, roster, id):
		ms.rejoin(ctx, r, roster, id, reports)
	case r.Place.Version == (record.Version{}) && (r.Place.Joined == 0 || r.Place.Cluster == roster.Cluster && ms.keeps(roster)):
		ms.letWait(r, roster, id) // it waited for a client that did not know how long, or that it is a member
	case t != nil && t.Cluster == r.Place.Cluster && len(t.Members) == 1 && r.Told() != nil && ms.keeps(roster):
		// Somebody has used it alone after it forgot. It may have forgotten locks that it granted
		// as a member, so it waits, and then it rejoins.
		ms.letWait(r, roster, id)
	default:
		ms.estrange(r)
	}
}

// hasWaited reports whether a master that forgot has waited for as long as locks of this roster may
// last. Its marker says so: who wrote it knew the member, its life, and MaxTTL.
func hasWaited(r *core.Report, roster *record.Roster, id string) bool {
	p := r.Place
	return p.Cluster == roster.Cluster && p.Member == id && p.Life > 0 && r.Marker.MaxTTL >= core.Quarantine(roster.Longest()).Milliseconds()
}

// letWait lets a master wait that may have forgotten locks of this roster, from now on.
func (ms *Membership) letWait(r *core.Report, roster *record.Roster, id string) {
	ms.mu.Lock()
	m := r.Marker.At(ms.nextLifeLocked(roster, id))
	ms.mu.Unlock()
	m.Incarnation, m.MaxTTL = record.NewIncarnation(), core.Quarantine(roster.Longest()).Milliseconds()
	ms.letWaitBy(r, m)
}

func (ms *Membership) letWaitBy(r *core.Report, m record.Marker) {
	request := wire.Memory(r.Text, wire.Swap{Begin: record.WordLost, Rest: m.Rest(), Wait: m.MaxTTL})
	ms.do(ms.nodeOf(r), ms.plain(&request))
}

// letTornWait lets the masters wait that have lost a part of their keys, and returns the reports of
// the others. A quarantine is safe whatever was lost: so is what follows it, as for any master that
// forgot. Whoever knows the cluster begins another life of the member; otherwise that is done when
// somebody does (Lives.Doubt).
func (ms *Membership) letTornWait(reports []core.Report, roster *record.Roster) []core.Report {
	if roster == nil {
		roster = ms.client().Newest(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r core.Report) bool {
		switch {
		case !r.IsTorn():
			return false
		case roster != nil && roster.Cluster == r.Place.Cluster && roster.Index(r.Place.Member) >= 0:
			ms.letWait(&r, roster, r.Place.Member)
		default:
			m := r.Marker.At(r.Place.Forgotten())
			m.Incarnation = record.NewIncarnation()
			m.MaxTTL = max(m.MaxTTL, core.Quarantine(ms.LongestTTL()).Milliseconds())
			ms.letWaitBy(&r, m)
		}
		return true
	})
}

// letWaitAnew lets a master wait whose marker may not be that of its present life.
func (ms *Membership) letWaitAnew(r *core.Report, roster *record.Roster, reports []core.Report) {
	if id, ours := ms.memberOf(r, roster, reports); ours {
		ms.letWait(r, roster, id)
	} else {
		ms.estrange(r)
	}
}

// keeps reports whether votes count by this roster.
func (ms *Membership) keeps(roster *record.Roster) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.keeper.roster == roster
}

func (ms *Membership) nodeOf(r *core.Report) *pipeline.Node { return ms.Nodes()[r.Node] }

// plain completes a request whose answer nobody needs: the next look at the marker shows it.
func (ms *Membership) plain(request *pipeline.Request) *pipeline.Request {
	request.Deadline, request.Sink = ms.clock.Now().Add(askTimeout), ignored{ms}
	return request
}

type ignored struct{ membership *Membership }

func (i ignored) asks() *Membership { return i.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (ignored) Complete(int, any, error) {}

// estrange notes that there is nothing to do for a master that is no member.
func (ms *Membership) estrange(r *core.Report) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.members[r.Node].stranger = r.Text
}

// isStrangeLocked reports whether there is nothing to do for a master, as was found by what it says
// and by the member that it is without that. The latter changes when it turns out to answer at
// another endpoint, too.
func (ms *Membership) isStrangeLocked(i int, c *core.Client) bool {
	n, roster := &ms.members[i], ms.keeper.roster
	return n.stranger == n.text && (n.text == "" || roster == nil || n.seat == c.IndexOf(i, roster))
}

// memberOf returns which member a master is that has forgotten it. One that was found strange is
// judged anew.
func (ms *Membership) memberOf(r *core.Report, roster *record.Roster, reports []core.Report) (id string, ours bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	c := ms.clientLocked()
	ms.members[r.Node].stranger, ms.members[r.Node].seat = "", c.IndexOf(r.Node, roster)
	return c.MemberOf(r, roster, reports)
}

// rejoin lets a master vote again that forgot and has waited, as the member that it was. One other
// that remembers the list is enough for that. In the choice of the next version it takes part if it
// can learn what it may have accepted (learns).
func (ms *Membership) rejoin(ctx context.Context, r *core.Report, roster *record.Roster, id string, reports []core.Report) {
	b := ms.newBallot(reports)
	given := ms.promises(ctx, roster, b, reports)
	if len(given) == 0 && !ms.client().Remembered(roster, reports) {
		return
	}
	register := record.Register{Told: roster}
	if ms.client().Learns(roster, given, reports) {
		register.Promised, register.Until = b.Number, r.Now+b.Life
		register.Ballot, register.Accepted = core.Found(given)
	} else {
		register.Unlearned = true
	}
	m, p := r.Marker, record.Place{Cluster: roster.Cluster, Member: id, Version: roster.Version, Life: r.Place.Life}
	m.MaxTTL = core.Quarantine(roster.Longest()).Milliseconds()
	// Nobody rejoins later by what the others said now: they may have been told more since.
	if now := ms.clock.Now(); now < b.Over && now < core.FirstAsked(reports).Add(core.Fresh(roster.MaxTTL)) {
		ms.apply(ctx, []core.Change{{Of: *r, Marker: m.At(p), Register: &register, Anew: true, Latest: r.Now + b.Life}}, nil)
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
