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

// decideLocked determines whose votes count now, and returns when that changes by time alone.
//
// The View is built anew each time, from all that is known, and never changes once it is stored.
// Rounds load it for each tally, so whoever has lost the vote counts in none that comes after. It
// is determined in the order in which one thing rests on another: which nodes are one server, then
// who the members are, then who votes.
func (st *state) decideLocked() (next clock.Instant) {
	now := st.clock.Now()
	// A duplicate is none of what follows, so it comes first. The second read comes before the
	// votes, because it takes none away: it only begins while nobody has one.
	st.members.findDuplicates()
	st.startSecondReadLocked()
	allYoung := st.members.allYoung()
	next = never
	v := &View{markers: make([]string, len(st.members)), hashes: make([]uint64, len(st.members))}
	st.findMembersLocked(v)
	for i := range st.members {
		n := &st.members[i]
		if next = min(next, n.retryAt); n.position.ends > now {
			next = min(next, n.position.ends)
		}
		v.hashes[i] = Hash(st.nameLocked(i))
		switch {
		case n.duplicate >= 0:
			v.Duplicates.Add(i)
		case v.NonMembers.Has(i):
		case n.phase == phaseVoting:
			if st.countsLocked(i, v) {
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
	next = min(next, st.runs.retryAt)
	v.Enough, v.Conflict = v.Voting.Len() >= v.Need(), st.belief.Conflict
	// From here on v belongs to whoever loads it: what is found out later is in the next one.
	st.view.Store(v)
	st.wakeLocked()
	return next
}

// findMembersLocked determines who the members are: those of the roster, or if there is none all
// nodes of the list. A node is the member that its marker says, as long as nobody else is more
// surely that one. No member has two nodes: otherwise one server, or a copy of its data, had two
// votes.
//
// It also writes down what outlasts the marker: id, which says who a master was once it has
// forgotten, and by removedLocked when a position becomes free. Both depend on the roster alone
// and on what masters said, so it does not matter how often this is called.
func (st *state) findMembersLocked(v *View) {
	v.Roster = st.belief.Roster
	if st.members.provesNothing() {
		v.Roster = nil
	}
	if v.maxTTL = st.belief.longestOf(v.Roster); v.Roster == nil {
		v.members, v.size = quorum.All(st.listed), st.listed
		return
	}
	v.size = len(v.Roster.Members)
	nodeOf, c := make(map[string]int, v.size), st.clientLocked()
	for i := range st.members {
		n := &st.members[i]
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
		removed := st.removedLocked(i, c)
		switch other, taken := nodeOf[n.id]; {
		case n.duplicate >= 0:
		case n.id == "" || v.Roster.Index(n.id) < 0:
			if removed || n.nonMember == n.text && n.text != "" || n.place.Version != (record.Version{}) {
				v.NonMembers.Add(i)
			}
		case !taken:
			v.members.Add(i)
			nodeOf[n.id] = i
		case n.isTold(st.lives) && st.members[other].isTold(st.lives): // two say that they are it
			v.members.Remove(other)
		case st.members[other].isTold(st.lives):
		case n.isTold(st.lives), n.place.Cluster != "" && st.members[other].place.Cluster == "": // the other one was it
			v.members.Remove(other)
			v.members.Add(i)
			nodeOf[n.id] = i
		}
	}
}

// isTold reports whether the marker says that it was told as a member, in a life that is
// not known to be over: then a copy of it says so, or an import.
func (n *member) isTold(lives record.Lives) bool {
	return n.place.IsTold() && !lives.Over(n.marker, n.place)
}

// provesNothing reports whether the user may read no master's marker.
func (t table) provesNothing() bool {
	any := false
	for i := range t {
		switch t[i].phase {
		case phaseProofless:
			any = true
		case phaseQuarantined, phaseVoting:
			return false
		case phaseUnseen:
		}
	}
	return any
}

// nameLocked returns what stands for a node in the choice of coordinators. All clients must come
// to the same name, whatever they call the master, or their waiters queue at different ones: that
// costs order and not safety. So it is the member's ID, where one is known.
func (st *state) nameLocked(i int) string {
	if id := st.members[i].id; st.belief.Roster != nil && id != "" {
		return id
	}
	if nodes := st.Nodes(); i < len(nodes) { // otherwise it is being added
		return nodes[i].Endpoint()
	}
	return ""
}

// NodeOf returns the node of a member, by its ID or the endpoint at which it was added. Of two
// that are said to be it, it is the one that was told so. Another master may be the member a
// moment later; the position stays one of a node, because there are never fewer.
func (ms *Membership) NodeOf(id, endpoint string) (node int, found bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	is := func(n member) bool { return n.id == id && n.duplicate < 0 }
	if node = slices.IndexFunc(ms.members, func(n member) bool { return is(n) && n.isTold(ms.lives) }); node < 0 {
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

// countsLocked reports whether the vote of a node that remembers counts: without a roster, none
// does, unless it cannot be known. (S38, docs/safety.md) Who is the member is decided before
// (v.members), and that its life is not over, by what any marker has told so far. (S41)
func (st *state) countsLocked(i int, v *View) bool {
	if st.mode == Off || st.belief.byList {
		return true
	}
	n := &st.members[i]
	return v.Roster != nil && v.members.Has(i) && v.Roster.Counts(n.place) && !st.lives.Over(n.marker, n.place)
}

// votesBy reports whether a node votes by a marker. The decision may be another one by then, as for
// any vote.
func (v *View) votesBy(i int, marker string) bool { return marker != "" && v.markers[i] == marker }

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

// countsAs reports whether votes count the same by both Views, whichever they are.
func (v *View) countsAs(other *View) bool {
	return v.size == other.size && v.members == other.members && v.Voting == other.Voting && v.Duplicates == other.Duplicates
}

// CountRelease is Count for a release. A server that was found listed twice is expected once.
func (v *View) CountRelease(b *quorum.Ballot, asked, expected quorum.NodeSet) quorum.Tally {
	return b.CountRelease(v.size, v.members.And(asked), v.Voting, expected.Minus(v.Duplicates))
}

// wakeLocked makes callers that wait for a quorum to vote check again. Each waits on the channel
// that there was when it looked, so a change that comes between its look and its wait is not
// missed.
func (st *state) wakeLocked() {
	if st.waiting != nil {
		close(st.waiting)
		st.waiting = nil
	}
}

// changedLocked returns a channel that is closed at the next change. It must be asked for while
// what is waited for is looked at, under the same mu.
func (st *state) changedLocked() <-chan struct{} {
	if st.waiting == nil {
		st.waiting = make(chan struct{})
	}
	return st.waiting
}

// Undecided returns a channel that is closed at the next change, if for some node it will be known
// in a moment whether it votes, or whether all members know a longer MaxTTL; otherwise nil. A call
// that needs a quorum waits for it, for as long as its context lasts, and does not fail by what a
// moment would change.
func (ms *Membership) Undecided() <-chan struct{} {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.stopped {
		return nil
	}
	if ms.runs.undecided() && ms.settlesLocked() {
		return ms.changedLocked()
	}
	for i := range ms.members {
		if ms.undecidedLocked(i, ms.View()) {
			return ms.changedLocked()
		}
	}
	return nil
}

// undecidedLocked reports whether it will be known in a moment if the node votes. A quarantine is
// none of that: nobody should wait for it without being told.
func (st *state) undecidedLocked(i int, v *View) bool {
	n := &st.members[i]
	switch {
	case !n.seen:
		return st.Nodes()[i].State() == pipeline.Connecting
	case n.phase == phaseVoting && n.duplicate < 0:
		return st.runs.undecided() && n.nonMember != n.text && !v.Voting.Has(i)
	case n.phase != phaseQuarantined || n.duplicate >= 0:
		return false
	case st.secondRead != nil || n.asking != nil && n.err == nil || n.early || n.lost > st.clock.Now():
		return true
	default: // others may be making it active
		return st.mode == Auto && n.marker.State == record.MarkerNew && n.reads < quickReads
	}
}

// setTimerLocked has tick called at a time. There is one timer, for the first of all times: tick
// looks at every node, and whoever changes a time ends with endLocked, which sets it anew.
func (ms *Membership) setTimerLocked(next clock.Instant) {
	in := max(next.Sub(ms.clock.Now()), 0)
	switch {
	case next == never || ms.stopped:
	case ms.timer == nil:
		ms.timer = ms.clock.AfterFunc(in, ms.tick)
	default:
		ms.timer.Reset(in)
	}
}

// tick reads the markers that are due again, and updates whose time has passed. It may come late
// or once too often: what is due is decided by the clock, and not by which timer ran.
func (ms *Membership) tick() {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		return
	}
	now, forgot := ms.clock.Now(), false
	for i := range ms.members {
		if n := &ms.members[i]; n.retryAt <= now {
			if ms.secondRead != nil { // a second read asks, and then needs the node free of other requests
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
// one that never was a member does not: it never had a vote. One that was removed meanwhile does,
// because it may have granted the lock that is asked about.
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
		if n.restarted > epoch && !never && !ms.members.forgotWithTwin(n) {
			nodes++
		}
	}
	return nodes
}

// forgotWithTwin reports whether what a node has forgotten is what the node has that is the
// same server, however much later the second of them noticed it.
func (t table) forgotWithTwin(n *member) bool {
	if n.duplicate < 0 {
		return false
	}
	twin := &t[n.duplicate]
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
func (st *state) expelCopiesLocked() (forgot bool) {
	for i := range st.members {
		for k := range i {
			a, b := &st.members[i], &st.members[k]
			if a.phase != phaseVoting || b.phase != phaseVoting || a.marker.Incarnation != b.marker.Incarnation ||
				a.server.RunID == record.Unknown || b.server.RunID == record.Unknown || a.server.RunID == b.server.RunID {
				continue
			}
			for _, j := range [...]int{i, k} {
				n := &st.members[j]
				n.phase, n.reported = phaseQuarantined, n.known
				st.forgotLocked(n)
				forgot = true
				if st.looks {
					n.until = st.clock.Now().Add(st.quarantineLocked())
					continue
				}
				st.sendLocked(j, n.server.Quarantine(record.WordLost, max(st.quarantineLocked().Milliseconds(), n.marker.MaxTTL), n.marker, st.clientLocked().Claim(j, st.belief.Roster)), nil)
			}
		}
	}
	return forgot
}

// findDuplicates finds nodes that are the same server as an earlier one, by its run id, or if
// that is unknown by the incarnation of its marker.
func (t table) findDuplicates() {
	first := make(map[string]int, len(t))
	for i := range t {
		n := &t[i]
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
func (v *View) MaxTTL() time.Duration { return v.maxTTL }

// longestOf returns how long a lock may last that counts by a roster; nil for none.
func (b *belief) longestOf(r *record.Roster) time.Duration {
	switch {
	case r == nil:
		return time.Duration(math.MaxInt64)
	case b.settled == r.Version:
		return r.MaxTTL
	default:
		return min(r.MaxTTL, r.Earlier)
	}
}
