package members

import (
	"cmp"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// The mutex of the Membership, mu, guards what is known of a node (member), the second read and
// the outbox. Complete and reconsider take it, on the goroutine that brings an answer. All else
// here is called under it, and neither waits nor sends.

// Limits of asking for markers. How long a quarantine or a request of the members' protocol may
// last is in package core, because what is safe rests on that; these only say how soon something
// is noticed.
const (
	askTimeout = core.AskTimeout

	// A marker that keeps a node from voting is read again after these pauses, because others may
	// change it: clients that make a new cluster active, and operators ("redlock init").
	rereadMin  = 2 * time.Millisecond
	rereadMax  = time.Second
	quickReads = 8 // the first pauses add up to half a second

	// A server that has been up for long and has no marker was never used before, or its keys were
	// deleted while the clients that knew it stayed connected. Their health checks find out, and
	// they have this time to object.
	objectionTime = checkPause + 2*askTimeout/10

	// How often servers are asked for their marker: while locks are held, and otherwise.
	checkPause = 800 * time.Millisecond
	checkRest  = 4500 * time.Millisecond // before an idle connection is PINGed
)

// markerRequest is a request for a server's marker, or for a change of it. Whoever puts it into the
// outbox owns it until mu is free; then it belongs to whoever sends it, and then to the node,
// whose reader completes it once.
type markerRequest struct {
	membership *Membership // once it is sent
	node       int
	secondRead *secondRead // that it is part of; nil for none
	request    pipeline.Request
}

func (a *markerRequest) asks() *Membership { return a.membership }

// readLocked applies what a node's marker says. Now is the server's time, 0 if unknown. It reports
// whether the server forgot. One that we never knew as active has no vote for a lock of ours; but
// if it forgets, it is one less that could have a lock that the others forget as well.
func (st *state) readLocked(i int, text string, now int64) (forgot bool) {
	n := &st.members[i]
	if n.text != text {
		n.text, n.marker, n.said = text, record.ParseMarker(text), 0
		n.place, st.stirred = n.marker.Place(), true
		st.lives.Meet(n.marker, n.place)
	}
	waits := st.waitsForOthersLocked(i)
	v := st.knowledgeLocked(i, now)
	waits = st.waitsToBeKnownLocked(i, &v) || waits
	waits = n.waitsToBeRead() || waits
	j := n.server.Judge(n.marker, v)
	// Each loss is told once: it may be found by a proof, by a read, and at the next connection.
	if j.Forgot && n.reported != n.known || n.known == "" && n.met != "" && n.met != n.marker.Incarnation {
		n.reported = n.known
		st.forgotLocked(n)
		forgot = true
	}
	n.met = n.marker.Incarnation
	n.phase = phaseQuarantined // it votes by this marker or not at all
	if j.Votes {
		n.phase, n.known, n.until = phaseVoting, n.marker.Incarnation, 0
	}
	st.planLocked(i, &j, &v, waits, now)
	return forgot
}

// planLocked plans what is written to a master, and when its marker is read again. Unless it votes,
// every way through this ends with a request, or with a time at which tick comes back to it: so no
// node is forgotten that could vote one day.
func (st *state) planLocked(i int, j *core.Judgement, v *core.Knowledge, waits bool, now int64) {
	n := &st.members[i]
	if n.marker.State == record.MarkerLater && now == 0 {
		st.sendLocked(i, nil, nil) // it may be one that we know again
		return
	}
	if waits || n.marker.State == record.MarkerLater {
		n.retryAt = st.clock.Now().Add(n.pause.Next())
		return
	}
	if n.unnamed() && !v.Watched {
		n.until = n.watchedAt(st.quarantineLocked())
		n.retryAt = n.until
		return
	}
	// The marker is active, and its memory is not the one that we knew before the connection
	// broke.
	if v.Early && n.marker.State == record.MarkerActive && n.server.Is(n.marker) {
		n.until, n.retryAt = n.trusted, n.trusted
		return
	}
	switch left := j.TimeLeft(now, st.looks); {
	case j.Change == nil, st.looks && j.Votes:
	case st.looks && now == 0:
		st.sendLocked(i, nil, nil) // only to learn the time
	case st.looks && left == 0: // a client would write now
		n.until, n.retryAt = 0, st.clock.Now().Add(n.pause.Next())
	case now == 0 || left == 0:
		st.sendLocked(i, j.Change, nil)
	default:
		here := st.clock.Now()
		n.until = here.Add(left + time.Millisecond) // both times are truncated to milliseconds
		n.retryAt = min(n.until, here.Add(n.pause.Next()))
		n.reads++
		if n.marker.State == record.MarkerNew && n.identity.RunID != "" && n.identity.Started.Add(st.quarantineLocked()) < here {
			written := n.until.Add(-time.Duration(n.marker.MaxTTL) * time.Millisecond)
			n.objections = written.Add(objectionTime)
			if here < n.objections {
				n.retryAt = min(n.retryAt, n.objections)
			}
		}
	}
}

// unnamed reports whether the server says who it is, and its marker does not say which process it
// was written about: its writers may not use INFO. Then the server may have restarted since, with
// data from a disk that may be old. It votes for those clients, by what they can see, and this one
// neither believes it at once nor quarantines it for all.
func (n *member) unnamed() bool {
	return n.server.Named() && !n.marker.Named() && n.marker.State != record.MarkerAbsent &&
		n.marker.State != record.MarkerUnreadable && n.marker.State != record.MarkerLater
}

// watchedAt is when all has expired that the server can have forgotten before we connected to it.
func (n *member) watchedAt(maxTTL time.Duration) clock.Instant {
	return n.identity.Connected.Add(max(maxTTL, time.Duration(n.marker.MaxTTL)*time.Millisecond))
}

// knowledgeLocked returns what is known besides a node's marker, for core.Server.Judge. Own is
// said only if every other node has told its marker since this one's was read, and none has the
// same: a marker that two servers have does not say which of them holds what the other one was
// given.
func (st *state) knowledgeLocked(i int, now int64) core.Knowledge {
	n := &st.members[i]
	v := core.Knowledge{
		Known: n.known, Own: st.members.taken().Minus(n.said.Or(quorum.Only(i))).Empty(), MaxTTL: st.quarantineLocked().Milliseconds(), Now: now,
	}
	if n.place.Cluster != "" && !n.place.IsCandidate() && st.belief.Roster == nil { // its cluster says
		v.MaxTTL = max(n.marker.MaxTTL, core.Quarantine(0).Milliseconds())
	}
	v.Claim = st.clientLocked().Claim(i, st.belief.Roster)
	if n.pardoned != "" && n.pardoned == n.marker.Incarnation {
		v.Known = ""
	}
	v.Watched = st.clock.Now() >= n.watchedAt(st.quarantineLocked())
	v.Early = v.Known != "" && n.marker.Incarnation != v.Known && st.clock.Now() < n.trusted
	for k := range st.members {
		same := st.members[k].identity.RunID == n.identity.RunID && n.server.Named() // by another name
		v.Own = v.Own && (same || st.members[k].marker.Incarnation != n.marker.Incarnation || k == i)
	}
	return v
}

// waitsForOthersLocked reports whether other nodes must first tell whether one of them has the
// incarnation of this one, which may have come back with all that it held. It asks them. Each
// answer brings this node's retryAt no nearer: it looks again by its own pauses, which begin at 2
// ms.
func (st *state) waitsForOthersLocked(i int) bool {
	n := &st.members[i]
	out := st.members.taken().Minus(n.said.Or(quorum.Only(i)))
	// It does not wait longer than the quarantine that it could save.
	late := st.clock.Now() >= n.identity.Connected.Add(st.quarantineLocked())
	if n.early = false; out.Empty() || late || n.known != "" || !n.server.IsRestart(n.marker) {
		return false
	}
	for k := range st.members {
		switch other := &st.members[k]; {
		case !out.Has(k) || st.Nodes()[k].State() == pipeline.Down:
		case !other.seen:
			n.early = n.early || st.Nodes()[k].State() == pipeline.Connecting
		case other.asking == nil && other.phase != phaseProofless:
			n.early = true
			st.sendLocked(k, nil, nil)
		default:
			n.early = n.early || other.asking != nil
		}
	}
	return n.early
}

// waitsToBeRead reports whether a server, which may have come back with all that it held, must
// first show that it has the list that its marker names: it may have a part of its keys (IsTorn).
// The reconciler reads the list, and before that no client writes the new process into the marker,
// by which all would believe it.
func (n *member) waitsToBeRead() bool {
	waits := !n.read && !n.forbids && n.place.IsTold() && n.server.IsRestart(n.marker)
	n.early = n.early || waits
	return waits
}

// saidLocked notes that a node has told its marker, for those that wait for the others' word. It
// must be called before the marker is judged: the judgement may ask the others again.
func (st *state) saidLocked(i int) {
	for k := range st.members {
		if st.members[k].early {
			st.members[k].said.Add(i)
		}
	}
}

// sendLocked puts a change of a node's marker into the outbox; a nil change only reads it. The
// change is made only if the marker is still n.text: so it may be based on all that is known now,
// however late it arrives. Nothing else may be asking, unless its answer is not wanted any more.
func (st *state) sendLocked(i int, change *wire.Swap, of *secondRead) {
	n := &st.members[i]
	if change == nil {
		change = &wire.Swap{} // only reads
	}
	a := &markerRequest{node: i, secondRead: of}
	a.request = wire.Memory(n.text, *change)
	a.request.Deadline, a.request.Sink = st.clock.Now().Add(askTimeout), a
	n.asking = a
	st.outbox = append(st.outbox, a)
}

// Complete takes the answer. It implements pipeline.Sink.
func (a *markerRequest) Complete(_ int, reply any, err error) {
	ms := a.membership
	ms.mu.Lock()
	n := &ms.members[a.node]
	if ms.stopped || n.asking != a {
		ms.mu.Unlock() // it belongs to an earlier connection
		return
	}
	n.asking, n.err = nil, err
	if err != nil {
		ms.secondRead = nil
		ms.failedLocked(n, err)
		ms.endLocked(false)
		return
	}
	text, now, _ := wire.ReadMemory(reply)
	m := record.ParseMarker(text)
	if m.State == record.MarkerLost {
		n.server.Hides = false // the marker now says so
	}
	if text != n.text && m.RunID != "" && !n.server.Fits(m) {
		// The client that wrote it was told something else about this server than we were. The
		// next handshake shows which of the two is true now. If instead each client wrote what it
		// believes, the two would overwrite each other for ever.
		ms.mismatchLocked(n)
		ms.endLocked(false)
		ms.Nodes()[a.node].Reconnect(errMismatch)
		return
	}
	forgot := false
	ms.saidLocked(a.node)
	if c := a.secondRead; c == nil {
		forgot = ms.readLocked(a.node, text, now)
	} else {
		c.equal = c.equal && text == n.text
		c.out--
		// Also plans the next read, in case the second read is abandoned.
		forgot = ms.readLocked(a.node, text, now)
		if c == ms.secondRead && c.out == 0 {
			ms.endSecondReadLocked()
		}
	}
	ms.endLocked(forgot)
}

// errMismatch is why a connection ends on which the marker does not match the handshake.
var errMismatch = errors.New("a different server answers than when the connection began, or it has been a replica since")

// mismatchLocked takes away a node's vote until its next connection, which the caller sees to. For
// a moment, callers are told to wait for that (undecidedLocked), because it mostly comes at once.
func (st *state) mismatchLocked(n *member) {
	st.secondRead = nil
	n.phase, n.retryAt, n.lost = phaseQuarantined, never, st.clock.Now().Add(askTimeout/2)
}

// failedLocked plans the next request after one that failed. If the user may not write the marker,
// there is none.
func (st *state) failedLocked(n *member, err error) {
	switch {
	case n.phase == phaseVoting: // the request was to update the marker; the next connection will
		return
	case isForbidden(err):
		st.judgeProoflessLocked(n)
		return
	}
	n.retryAt = st.clock.Now().Add(n.pause.Next())
}

// serverOf returns what a server said about itself at the connect.
func serverOf(id pipeline.Identity, maxTTL time.Duration) core.Server {
	s := core.Server{RunID: id.RunID, ReplID: id.ReplID, Promoted: id.Promoted, Tells: id.TellsDurable}
	s.Recalls, s.MaxTTL = id.BacklogTTL.Milliseconds(), maxTTL.Milliseconds()
	// A restart erases that it was a replica. So a server that has replicas, and might be made a
	// replica of one of them that knows less, is not trusted to come back with all that it held.
	s.Durable = id.Durable && !id.Replicated && !id.Promoted
	// What the server says of itself becomes a word of its marker. What could not be read back as
	// one is as if it said nothing, which counts against it.
	if !record.IsWord(s.RunID) {
		s.RunID = record.Unknown
	}
	if !record.IsWord(s.ReplID) {
		s.ReplID = record.Unknown
	}
	return s
}

// waitsToBeKnownLocked reports whether it is not known yet if a server is the member whose marker
// it has, and says in what is known of it that this may be a copy.
func (st *state) waitsToBeKnownLocked(i int, v *core.Knowledge) bool {
	if !st.isElsewhereLocked(i) {
		return false
	}
	st.members[i].early = st.members[i].early || st.runs.undecided()
	v.Own = false
	return !v.Watched || v.Claim == (record.Place{})
}

// isElsewhereLocked reports whether a server seems to have come back with all that it held as a
// member, and not at the endpoint at which that member was added, as far as is known. It may be
// the member by another name, or have a copy of its data. So it is believed when the list of
// members says that this is its endpoint, or when it turns out to be the server that answers
// there, or when somebody who knew that has written its new process into the marker. Otherwise it
// is taken for one that forgot, once whoever knows had the time to do so.
func (st *state) isElsewhereLocked(i int) bool {
	k, n := &st.belief, &st.members[i]
	p := n.place
	if !p.IsTold() || n.known == n.marker.Incarnation || k.byList || n.forbids || !n.server.IsRestart(n.marker) {
		return false
	}
	return k.Roster == nil || k.Roster.Cluster != p.Cluster || !st.clientLocked().IsAt(i, k.Roster, p.Member)
}

// secondRead is the second read of the nodes of a new cluster; the first is what each of them
// said when it connected. With one read, a client with old knowledge of four nodes and fresh
// knowledge of the fifth, which has forgotten a lock since, would make that one active. With two,
// there was a moment between them in which all were new, so no lock rests on what any of them
// remembers.
type secondRead struct {
	out   int  // how many have not answered
	equal bool // all answers so far are as in the first read
}

// startSecondReadLocked starts the second read if all nodes were new in the first and nothing is
// under way. While it lasts, no other request is made (tick), so each node's next answer is the
// one that is compared; whatever happens to a node ends it (secondRead = nil), and another
// begins when all are new again.
func (st *state) startSecondReadLocked() {
	if st.mode != Auto || st.secondRead != nil || st.stopped {
		return
	}
	now := st.clock.Now()
	for i := range st.members {
		switch n := &st.members[i]; {
		case !n.seen || n.duplicate >= 0 || n.asking != nil || n.err != nil || !n.server.Fits(n.marker) || n.unnamed():
			return
		case now < n.objections:
			return // retryAt is no later
		case n.phase != phaseQuarantined || n.marker.State != record.MarkerNew || n.known != "":
			return
		}
	}
	st.secondRead = &secondRead{out: len(st.members), equal: true}
	for i := range st.members {
		st.members[i].retryAt = never
		st.sendLocked(i, nil, st.secondRead)
	}
}

// endSecondReadLocked makes the nodes of a new cluster active if all answers were the same
// again. Otherwise some nodes are active by now; the others will be in a moment, and are read
// again.
func (st *state) endSecondReadLocked() {
	equal := st.secondRead.equal
	st.secondRead = nil
	for i := range st.members {
		n := &st.members[i]
		switch {
		case n.phase != phaseQuarantined || n.asking != nil:
		case equal:
			st.sendLocked(i, &wire.Swap{Begin: record.WordActive, Rest: n.marker.Rest()}, nil)
		default:
			n.retryAt = min(n.retryAt, st.clock.Now().Add(n.pause.Next()))
			n.reads++
		}
	}
}

// If the user may not read and write the marker, a server's memory is judged by what the server
// says about itself: its run id and its uptime. This is weaker (docs/operations.md, ACL, says what
// it misses), and stricter than it looks: whatever a server does not say counts against it.

// judgeProoflessLocked handles the connection of a node that cannot prove anything, and reports
// whether it forgot what it held.
func (st *state) judgeProoflessLocked(n *member) (forgot bool) {
	id, before := n.identity, n.before
	first := before.Connection == 0
	replaced := !first && id.RunID != before.RunID
	n.phase, n.asking, n.retryAt, n.text, n.marker = phaseProofless, nil, never, "", record.Marker{}
	switch {
	case n.known != "": // it could prove what it remembers, and no longer can
		n.until, n.young, forgot = id.Connected.Add(st.quarantineLocked()), false, true
		n.known, n.reported = "", ""
	case first && id.RunID == "":
		n.until = 0 // unidentified: nothing to judge it by
	case first:
		n.until = id.Started.Add(st.quarantineLocked())
		n.young = st.mode == Auto && n.until > st.clock.Now()
	case !replaced || id.Durable && before.Durable && id.RunID != "":
	case before.RunID == "": // it had not said who it is, and now does
		n.until, n.young = id.Started.Add(st.quarantineLocked()), false
	default:
		// A server that restarted, a promoted replica, another machine at this address, or a
		// server that no longer says who it is: when it started says nothing about what it knows.
		n.until, n.young, forgot = id.Connected.Add(st.quarantineLocked()), false, true
	}
	if st.mode == Off {
		n.until = 0
	}
	if forgot {
		st.forgotLocked(n)
	}
	return forgot
}

// allYoung reports whether no node can prove anything and all were started just now. That is
// taken for a new cluster.
func (t table) allYoung() bool {
	for i := range t {
		if n := &t[i]; n.phase != phaseProofless || !n.young || n.duplicate >= 0 {
			return false
		}
	}
	return true
}

// reconsider handles a marker other than the one with which a node was admitted, and reports
// whether the node votes by it. It does if another client has activated the incarnation that we
// know, or has only refreshed the marker. Otherwise the server has forgotten what it held, or it
// is a different one: the connection ends, and the next one finds out.
func (ms *Membership) reconsider(i int, text string) bool {
	m := record.ParseMarker(text)
	ms.mu.Lock()
	n := &ms.members[i]
	switch {
	case ms.stopped || n.duplicate >= 0 || n.phase == phaseUnseen || n.phase == phaseProofless:
		ms.mu.Unlock()
		return false
	case m.State == record.MarkerLater, m.State == record.MarkerActive && m.Incarnation == n.marker.Incarnation && n.server.Fits(m):
		if n.text != text {
			ms.readLocked(i, text, 0)
		}
		ms.endLocked(false)
		return ms.View().votesBy(i, text)
	case text == n.text:
		ms.mu.Unlock()
		return ms.View().votesBy(i, text)
	case n.phase == phaseQuarantined && n.asking != nil: // our own change came first
		ms.mu.Unlock()
		return false
	}
	// Not if only the rest of the marker is new, as when a replica that is long gone was
	// forgotten.
	forgot := n.known != "" && n.reported != n.known && (m.State != record.MarkerActive || m.Incarnation != n.known)
	if forgot {
		n.reported = n.known
		ms.forgotLocked(n)
	}
	ms.mismatchLocked(n)
	ms.endLocked(forgot)
	ms.Nodes()[i].Reconnect(ErrUnproven.Err)
	return false
}

// forgotLocked notes that a server has forgotten. Locks that began before this epoch may rest on
// what it held (ForgottenSince), so it must come before the observer is told.
func (st *state) forgotLocked(n *member) {
	n.restarted, n.forgotten = st.epoch.Add(1), cmp.Or(n.known, n.met)
}
