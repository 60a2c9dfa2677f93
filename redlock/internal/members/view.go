package members

import (
	"math"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// decideLocked determines whose votes count now, and sets the timer for when that changes.
//
// The View is built anew each time, from all that is known, and never changes once it is stored.
// Rounds load it for each tally, so whoever has lost the vote counts in none that comes after. It
// is determined in the order in which one thing rests on another: which nodes are one server, then
// who the members are, then who votes.
func (ms *Membership) decideLocked() {
	now := ms.clock.Now()
	ms.findDuplicatesLocked()
	ms.startConfirmationLocked()
	allYoung := ms.allYoungLocked()
	next := never
	v := &View{markers: make([]string, len(ms.members)), hashes: make([]uint64, len(ms.members))}
	ms.findMembersLocked(v)
	for i := range ms.members {
		n := &ms.members[i]
		if next = min(next, n.retryAt); n.position.ends > now {
			next = min(next, n.position.ends)
		}
		v.hashes[i] = Hash(ms.nameLocked(i))
		switch {
		case n.duplicate >= 0:
			v.Duplicates.Add(i)
		case v.NonMembers.Has(i):
		case n.phase == phaseVoting:
			if ms.countsLocked(i, v) {
				v.Voting.Add(i)
				v.markers[i] = n.text
			}
		case n.phase == phaseProofless && v.Roster != nil: // what it cannot prove is not said elsewhere
		case n.phase == phaseProofless && (n.until <= now || allYoung):
			v.Voting.Add(i)
			v.proofless.Add(i)
		case n.phase == phaseProofless:
			v.proofless.Add(i)
			next = min(next, n.until)
		}
	}
	next = min(next, ms.reconciler.retryAt)
	v.Enough, v.Conflict = v.Voting.Len() >= v.Need(), ms.reconciler.conflict
	ms.view.Store(v)
	ms.wakeLocked()
	ms.setTimerLocked(now, next)
}

// findMembersLocked determines who the members are: those of the roster, or if there is none all
// nodes of the list.
func (ms *Membership) findMembersLocked(v *View) {
	v.Roster = ms.reconciler.roster
	if ms.provesNothingLocked() {
		v.Roster = nil
	}
	if v.maxTTL = ms.maxTTLLocked(v.Roster); v.Roster == nil {
		v.members, v.size = quorum.All(ms.listed), ms.listed
		return
	}
	v.size = len(v.Roster.Members)
	nodeOf, c := make(map[string]int, v.size), ms.clientLocked()
	for i := range ms.members {
		n := &ms.members[i]
		if n.free() {
			v.NonMembers.Add(i)
			v.Free.Add(i)
			continue
		}
		if p := n.place; p.Cluster != "" {
			n.id = ""
			if p.Cluster == v.Roster.Cluster && (p.IsTold() || c.SaidToBe(i, v.Roster, p.Member) >= 0) {
				n.id = p.Member
			}
		}
		c.Nodes[i].ID = n.id
		removed := ms.removedLocked(i, c)
		switch other, taken := nodeOf[n.id]; {
		case n.duplicate >= 0:
		case n.id == "" || v.Roster.Index(n.id) < 0:
			if removed || n.nonMember == n.text && n.text != "" || n.place.Version != (record.Version{}) {
				v.NonMembers.Add(i)
			}
		case !taken:
			v.members.Add(i)
			nodeOf[n.id] = i
		case ms.isToldLocked(n) && ms.isToldLocked(&ms.members[other]): // two say that they are it
			v.members.Remove(other)
		case ms.isToldLocked(&ms.members[other]):
		case ms.isToldLocked(n), n.place.Cluster != "" && ms.members[other].place.Cluster == "": // the other one was it
			v.members.Remove(other)
			v.members.Add(i)
			nodeOf[n.id] = i
		}
	}
}

// isToldLocked reports whether a node's marker says that it was told as a member, in a life that is
// not known to be over: then a copy of it says so, or an import.
func (ms *Membership) isToldLocked(n *member) bool {
	return n.place.IsTold() && !ms.lives.Over(n.marker, n.place)
}

// provesNothingLocked reports whether the user may read no master's marker.
func (ms *Membership) provesNothingLocked() bool {
	any := false
	for i := range ms.members {
		switch ms.members[i].phase {
		case phaseProofless:
			any = true
		case phaseQuarantined, phaseVoting:
			return false
		case phaseUnseen:
		}
	}
	return any
}

// nameLocked returns what stands for a node in the choice of coordinators.
func (ms *Membership) nameLocked(i int) string {
	if id := ms.members[i].id; ms.reconciler.roster != nil && id != "" {
		return id
	}
	if nodes := ms.Nodes(); i < len(nodes) { // otherwise it is being added
		return nodes[i].Endpoint()
	}
	return ""
}

// NodeOf returns the node of a member, by its ID or the endpoint at which it was added. Of two that
// are said to be it, it is the one that was told so.
func (ms *Membership) NodeOf(id, endpoint string) (node int, found bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	is := func(n member) bool { return n.id == id && n.duplicate < 0 }
	if node = slices.IndexFunc(ms.members, func(n member) bool { return is(n) && ms.isToldLocked(&n) }); node < 0 {
		node = slices.IndexFunc(ms.members, is)
	}
	for i, n := range ms.Nodes() {
		if node < 0 && n.Endpoint() == endpoint && !ms.members[i].free() {
			node = i
		}
	}
	if node >= 0 && ms.members[node].duplicate >= 0 {
		node = ms.members[node].duplicate
	}
	return node, node >= 0
}

// Listed reports whether a node is one of the list, and not of a member that the list lacks.
func (ms *Membership) Listed(node int) bool { return node < ms.listed }

// List returns the nodes of the list.
func (ms *Membership) List() []*pipeline.Node { return ms.Nodes()[:ms.listed] }

// countsLocked reports whether the vote of a node that remembers counts.
func (ms *Membership) countsLocked(i int, v *View) bool {
	if ms.mode == Off || ms.reconciler.byList {
		return true
	}
	n := &ms.members[i]
	return v.Roster != nil && v.members.Has(i) && v.Roster.Counts(n.place) && !ms.lives.Over(n.marker, n.place)
}

// Need returns how many votes make a quorum.
func (v *View) Need() int { return quorum.Need(v.size) }

// Permits reports whether a quorum votes and a lock may last for so long.
func (v *View) Permits(life time.Duration) bool { return v.Enough && life <= v.maxTTL }

// Members returns the nodes of members.
func (v *View) Members() quorum.NodeSet { return v.members }

// Hash returns a hash of the member that a node is: the same for all clients, however they spell
// its endpoint. Without a roster it is one of the endpoint.
func (v *View) Hash(node int) uint64 { return v.hashes[node] }

// Size returns how many members there are.
func (v *View) Size() int { return v.size }

// None returns the tally of no votes.
func (v *View) None() quorum.Tally { return quorum.Tally{Nodes: v.size} }

// Count returns the tally of a ballot. Asked are the nodes that the round asks: a member without
// one has failed.
func (v *View) Count(b *quorum.Ballot, asked quorum.NodeSet) quorum.Tally {
	return b.Count(v.size, v.members.And(asked), v.Voting)
}

// CountRelease is Count for a release. A server that was found listed twice is expected once.
func (v *View) CountRelease(b *quorum.Ballot, asked, expected quorum.NodeSet) quorum.Tally {
	return b.CountRelease(v.size, v.members.And(asked), v.Voting, expected.Minus(v.Duplicates))
}

// wakeLocked makes callers that wait for a quorum to vote check again.
func (ms *Membership) wakeLocked() {
	if ms.waiting != nil {
		close(ms.waiting)
		ms.waiting = nil
	}
}

// changedLocked returns a channel that is closed at the next change.
func (ms *Membership) changedLocked() <-chan struct{} {
	if ms.waiting == nil {
		ms.waiting = make(chan struct{})
	}
	return ms.waiting
}

// Undecided returns a channel that is closed at the next change, if for some node it will be known
// in a moment whether it votes, or whether all members know a longer MaxTTL; otherwise nil.
func (ms *Membership) Undecided() <-chan struct{} {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.stopped {
		return nil
	}
	if ms.reconciler.undecided() && ms.settlesLocked() {
		return ms.changedLocked()
	}
	for i := range ms.members {
		if ms.undecidedLocked(i, ms.View()) {
			return ms.changedLocked()
		}
	}
	return nil
}

// undecidedLocked reports whether it will be known in a moment if the node votes.
func (ms *Membership) undecidedLocked(i int, v *View) bool {
	n := &ms.members[i]
	switch {
	case !n.seen:
		return ms.Nodes()[i].State() == pipeline.Connecting
	case n.phase == phaseVoting && n.duplicate < 0:
		return ms.reconciler.undecided() && n.nonMember != n.text && !v.Voting.Has(i)
	case n.phase != phaseQuarantined || n.duplicate >= 0:
		return false
	case ms.confirmation != nil || n.asking != nil && n.err == nil || n.early || n.lost > ms.clock.Now():
		return true
	default: // others may be making it active
		return ms.mode == Auto && n.marker.State == record.MarkerNew && n.reads < quickReads
	}
}

func (ms *Membership) setTimerLocked(now, next clock.Instant) {
	switch {
	case next == never || ms.stopped:
	case ms.timer == nil:
		ms.timer = ms.clock.AfterFunc(max(next.Sub(now), 0), ms.tick)
	default:
		ms.timer.Reset(max(next.Sub(now), 0))
	}
}

// tick reads the markers that are due again, and updates whose time has passed.
func (ms *Membership) tick() {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		return
	}
	now, forgot := ms.clock.Now(), false
	for i := range ms.members {
		if n := &ms.members[i]; n.retryAt <= now {
			if ms.confirmation != nil { // a confirmation asks, and then needs the node free of other requests
				n.retryAt = now.Add(n.pause.Next())
				continue
			}
			n.retryAt = never
			if n.asking == nil && n.phase == phaseQuarantined {
				forgot = ms.readLocked(i, n.text, 0) || forgot
			}
		}
	}
	ms.endLocked(forgot)
}

// Epoch returns the current epoch: what was forgotten before it does not affect a lock that begins
// now.
func (ms *Membership) Epoch() uint64 {
	return ms.epoch.Load()
}

// ForgottenSince returns how many nodes have forgotten since an epoch. A server counts once, and
// one that never was a member does not: it never had a vote.
func (ms *Membership) ForgottenSince(epoch uint64) (nodes int) {
	if ms.epoch.Load() == epoch {
		return 0
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	v := ms.View()
	for i := range ms.members {
		n := &ms.members[i]
		never := v.Roster != nil && n.duplicate < 0 && n.position.of == "" && !v.members.Has(i)
		if n.restarted > epoch && !never && !ms.forgotWithTwinLocked(n) {
			nodes++
		}
	}
	return nodes
}

// forgotWithTwinLocked reports whether what a node has forgotten is what the node has that is the
// same server, however much later the second of them noticed it.
func (ms *Membership) forgotWithTwinLocked(n *member) bool {
	if n.duplicate < 0 {
		return false
	}
	twin := &ms.members[n.duplicate]
	return n.forgotten != "" && n.forgotten == twin.forgotten
}

// Hash is FNV-1a.
func Hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// expelCopiesLocked takes the vote from two servers whose markers have the same incarnation,
// although each marker names its own server: one has what the other held, and was trusted to have
// come back with its own data. It is no longer possible to tell which one.
func (ms *Membership) expelCopiesLocked() (forgot bool) {
	for i := range ms.members {
		for k := range i {
			a, b := &ms.members[i], &ms.members[k]
			if a.phase != phaseVoting || b.phase != phaseVoting || a.marker.Incarnation != b.marker.Incarnation ||
				a.server.RunID == record.Unknown || b.server.RunID == record.Unknown || a.server.RunID == b.server.RunID {
				continue
			}
			for _, j := range [...]int{i, k} {
				n := &ms.members[j]
				n.phase, n.reported = phaseQuarantined, n.known
				ms.forgotLocked(n)
				forgot = true
				if ms.looks {
					n.until = ms.clock.Now().Add(ms.quarantineLocked())
					continue
				}
				ms.sendLocked(j, n.server.Quarantine(record.WordLost, max(ms.quarantineLocked().Milliseconds(), n.marker.MaxTTL), n.marker, ms.clientLocked().Claim(j, ms.reconciler.roster)), nil)
			}
		}
	}
	return forgot
}

// findDuplicatesLocked finds nodes that are the same server as an earlier one, by its run id, or if
// that is unknown by the incarnation of its marker.
func (ms *Membership) findDuplicatesLocked() {
	first := make(map[string]int, len(ms.members))
	for i := range ms.members {
		n := &ms.members[i]
		n.duplicate = -1
		if !n.seen {
			continue
		}
		name := n.identity.RunID
		if name == "" {
			name = n.marker.Incarnation
		}
		if name == "" {
			continue
		}
		if j, seen := first[name]; seen {
			n.duplicate = j
		} else {
			first[name] = i
		}
	}
}

// MaxTTL is how long a lock may last: the cluster's MaxTTL, or as long as none is known any.
//
// A longer one than before is in force once all members were told it. Until then, one that forgets
// such a lock could rejoin at the version before, by the word of another one that was told no
// other, when it has waited for the shorter MaxTTL.
func (ms *Membership) MaxTTL() time.Duration { return ms.View().maxTTL }

func (ms *Membership) maxTTLLocked(r *record.Roster) time.Duration {
	switch {
	case r == nil:
		return time.Duration(math.MaxInt64)
	case ms.reconciler.settled == r.Version:
		return r.MaxTTL
	default:
		return min(r.MaxTTL, r.Earlier)
	}
}
