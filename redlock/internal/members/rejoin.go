package members

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// tell tells a master a version that was chosen, unless it accepted another one of that number:
// then it would hide what it accepted. To be told ends what it promised and accepted.
//
// Counts says that the version counts. Then it also takes the place of another one of its number,
// which was chosen and forgotten by its majority, and counts no more.
func (ms *Membership) tell(ctx context.Context, r report, roster *Roster, counts bool) {
	if t := r.told(); t != nil && (t.Version.Number > roster.Version.Number || t.Version.Number == roster.Version.Number && !counts) {
		return
	}
	if a := r.register.accepted; a != nil && a.Version.Number == roster.Version.Number && a.Version != roster.Version {
		if t := r.told(); t != nil && t.Version == roster.Before {
			ms.finish(ctx, t)
		}
		return
	}
	ms.ask(ctx, []*inquiry{ms.telling(r, roster, 0)}, nil)
}

// telling returns the request that tells a master a version, until a time by its clock; 0 for any.
// A new member has joined and granted nothing, so it votes at once.
func (ms *Membership) telling(r report, roster *Roster, latest int64) *inquiry {
	m, p := r.marker, r.place
	m.state, m.maxTTL = markerActive, roster.quarantine().Milliseconds()
	p.version, p.joined = roster.Version, 0
	told := register{told: roster, unlearned: r.register.unlearned && r.place.joined == 0}
	return ms.swapping(r, change{marker: m.at(p), register: &told, told: true, latest: latest})
}

// bringHome does what a master needs that remembers and belongs to no cluster, or to another one.
func (ms *Membership) bringHome(ctx context.Context, r *report, roster *Roster, reports []report) {
	id, ours := ms.memberAt(r, roster, reports)
	t := r.register.told
	switch {
	case !ours:
		ms.estrange(r)
	case r.place.version == (Version{}) && r.place.joined == 0 && hasWaited(r, roster, id):
		ms.rejoin(ctx, r, roster, id, reports)
	case r.place.version == (Version{}) && (r.place.joined == 0 || r.place.cluster == roster.Cluster && ms.keeps(roster)):
		ms.letWait(r, roster, id) // it waited for a client that did not know how long, or that it is a member
	case t != nil && t.Cluster == r.place.cluster && len(t.Members) == 1 && r.told() != nil && ms.keeps(roster):
		// Somebody has used it alone after it forgot. It may have forgotten locks that it granted
		// as a member, so it waits, and then it rejoins.
		ms.letWait(r, roster, id)
	default:
		ms.estrange(r)
	}
}

// hasWaited reports whether a master that forgot has waited for as long as locks of this roster may
// last. Its marker says so: who wrote it knew the member, its life, and MaxTTL.
func hasWaited(r *report, roster *Roster, id string) bool {
	p := r.place
	return p.cluster == roster.Cluster && p.member == id && p.life > 0 && r.marker.maxTTL >= roster.quarantine().Milliseconds()
}

// letWait lets a master wait that may have forgotten locks of this roster, from now on.
func (ms *Membership) letWait(r *report, roster *Roster, id string) {
	ms.mu.Lock()
	m := r.marker.at(ms.nextLifeLocked(roster, id))
	ms.mu.Unlock()
	m.incarnation, m.maxTTL = newIncarnation(), roster.quarantine().Milliseconds()
	ms.letWaitBy(r, m)
}

func (ms *Membership) letWaitBy(r *report, m marker) {
	request := wire.Memory(r.text, wire.Swap{Begin: wordLost, Rest: m.rest(), Wait: m.maxTTL})
	ms.do(ms.nodeOf(r), ms.plain(&request))
}

// letTornWait lets the masters wait that have lost a part of their keys, and returns the reports of
// the others. A quarantine is safe whatever was lost: so is what follows it, as for any master that
// forgot. Whoever knows the cluster begins another life of the member; otherwise that is done when
// somebody does (lives.doubt).
func (ms *Membership) letTornWait(reports []report, roster *Roster) []report {
	if roster == nil {
		roster = ms.newestTold(reports, nil, true)
	}
	return slices.DeleteFunc(reports, func(r report) bool {
		switch {
		case !r.isTorn():
			return false
		case roster != nil && roster.Cluster == r.place.cluster && roster.Index(r.place.member) >= 0:
			ms.letWait(&r, roster, r.place.member)
		default:
			m := r.marker.at(r.place.forgotten())
			m.incarnation = newIncarnation()
			m.maxTTL = max(m.maxTTL, quarantine(ms.LongestTTL()).Milliseconds())
			ms.letWaitBy(&r, m)
		}
		return true
	})
}

// letWaitAnew lets a master wait whose marker may not be that of its present life.
func (ms *Membership) letWaitAnew(r *report, roster *Roster, reports []report) {
	if id, ours := ms.memberAt(r, roster, reports); ours {
		ms.letWait(r, roster, id)
	} else {
		ms.estrange(r)
	}
}

// keeps reports whether votes count by this roster.
func (ms *Membership) keeps(roster *Roster) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.keeper.roster == roster
}

func (ms *Membership) nodeOf(r *report) *pipeline.Node { return ms.Nodes()[r.node] }

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
func (ms *Membership) estrange(r *report) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.members[r.node].stranger = r.text
}

// isStrangeLocked reports whether there is nothing to do for a master, as was found by what it says
// and by the member that it is without that. The latter changes when it turns out to answer at
// another endpoint, too.
func (ms *Membership) isStrangeLocked(i int) bool {
	n, roster := &ms.members[i], ms.keeper.roster
	return n.stranger == n.text && (n.text == "" || roster == nil || n.seat == ms.seatOfLocked(i, roster))
}

// memberAt returns which member a master is that has forgotten it: by the endpoint at which the
// member was added, by what we knew of this node, or by what others who knew it wrote into its
// marker; never because a member is missing. Of two that are said to be one member, it is the one
// that votes as that, or was let wait last. A master that was found strange is judged anew.
func (ms *Membership) memberAt(r *report, roster *Roster, reports []report) (id string, ours bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	at := ms.seatOfLocked(r.node, roster)
	ms.members[r.node].stranger, ms.members[r.node].seat = "", at // judged anew
	surely := at >= 0 && ms.isAtLocked(r.node, roster.Members[at])
	if at < 0 && r.place.cluster == roster.Cluster {
		at = ms.saidToBeLocked(r.node, roster, r.place.member)
	}
	if at < 0 {
		return "", false
	}
	id = roster.Members[at].ID
	there := slices.ContainsFunc(reports, func(other report) bool {
		p := other.place
		later := !surely && p.life > 0 && other.marker.life(p).Above(r.marker.life(r.place))
		return other.node != r.node && (other.told() != nil && !ms.lives.over(other.marker, p) || later) && p.cluster == roster.Cluster && p.member == id
	})
	return id, !there
}

// seatOfLocked returns the index of the member that a node is as far as can be told without its
// marker, which may be another one's; -1 if it cannot.
func (ms *Membership) seatOfLocked(i int, roster *Roster) (at int) {
	at = slices.IndexFunc(roster.Members, func(p Peer) bool { return ms.isAtLocked(i, p) })
	if at < 0 {
		at = ms.saidToBeLocked(i, roster, ms.members[i].id)
	}
	return at
}

// isAtLocked reports whether a node answers at the endpoint at which a member was added.
func (ms *Membership) isAtLocked(i int, p Peer) bool {
	for k, node := range ms.Nodes() {
		if (k == i || ms.members[k].duplicate == i) && node.Endpoint() == p.Endpoint {
			return true
		}
	}
	return false
}

// saidToBeLocked returns the index of the member that a marker says a node is, and not its
// endpoint; -1 if another master answers at that member's endpoint: then the marker came from that
// one, with a copy of its data.
func (ms *Membership) saidToBeLocked(i int, roster *Roster, id string) int {
	at := roster.Index(id)
	for k, node := range ms.Nodes() {
		if n := &ms.members[k]; at >= 0 && k != i && n.seen && n.duplicate != i && node.Endpoint() == roster.Members[at].Endpoint {
			return -1
		}
	}
	return at
}

// rejoin lets a master vote again that forgot and has waited, as the member that it was. One other
// that remembers the list is enough for that. In the choice of the next version it takes part if it
// can learn what it may have accepted (learns).
func (ms *Membership) rejoin(ctx context.Context, r *report, roster *Roster, id string, reports []report) {
	b := ms.newBallot(reports)
	given := ms.promises(ctx, roster, b, reports)
	if len(given) == 0 && !ms.remembered(roster, reports) {
		return
	}
	register := register{told: roster}
	if ms.learns(roster, given, reports) {
		register.promised, register.until = b.number, r.now+b.life
		register.ballot, register.accepted = found(given)
	} else {
		register.unlearned = true
	}
	m, p := r.marker, place{cluster: roster.Cluster, member: id, version: roster.Version, life: r.place.life}
	m.maxTTL = roster.quarantine().Milliseconds()
	// Nobody rejoins later by what the others said now: they may have been told more since.
	if now := ms.clock.Now(); now < b.over && now < asked(reports).Add(fresh(roster.MaxTTL)) {
		ms.swap(ctx, *r, change{marker: m.at(p), register: &register, told: true, latest: r.now + b.life})
	}
}

// waitsToBeKnownLocked reports whether it is not known yet if a server is the member whose marker
// it has, and says in what is known of it that this may be a copy.
func (ms *Membership) waitsToBeKnownLocked(i int, v *knowledge) bool {
	if !ms.isElsewhereLocked(i) {
		return false
	}
	ms.members[i].early = ms.members[i].early || ms.keeper.undecided()
	v.own = false
	return !v.watched || v.claim == (place{})
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
	if !p.isTold() || n.known == n.marker.incarnation || k.byList || n.forbids || !n.server.isRestart(n.marker) {
		return false
	}
	at := -1
	if k.roster != nil && k.roster.Cluster == p.cluster {
		at = k.roster.Index(p.member)
	}
	return at < 0 || !ms.isAtLocked(i, k.roster.Members[at])
}
