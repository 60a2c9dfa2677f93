// Package members knows whose votes count: those of servers that prove that they remember. It
// learns who they are when the nodes connect, and admits them on its own.
//
// What to make of what masters said is decided in package core, by values. This package is what
// lies around it: it asks the masters, reads the clock, and keeps what is known.
//
//	handshake of a node ──▶ connected ──▶ readLocked ──────┐  (admission.go)
//	proof behind a vote ──▶ reconsider ──▶ readLocked ─────┤  (proof.go)
//	answers about a cluster ──▶ learn ─────────────────────┤  (reconciler.go)
//	time ──▶ tick ──▶ readLocked ──────────────────────────┴──▶ endLocked ──▶ View
//
// Rounds only load the View, without a mutex: so a vote costs no more than a comparison of texts.
//
// Who may do what:
//
//	handshakes and readers of nodes  connected, Complete, Proven   take mu, decide, and are done
//	timers of the clock              tick, checkTick               the same
//	the reconciler, operators        survey, ask, apply            await answers, while mu is free
//
// A method whose name ends in Locked needs mu. None of them waits, sends anything or calls the
// observer: what they have to send goes into the outbox, and endLocked sends it when mu is free.
// So mu is held for one decision at a time, and whoever holds it may call any of them.
package members

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Mode says how to treat a server that may have forgotten locks.
type Mode uint8

// The modes.
const (
	Auto   Mode = iota // if all nodes are connected and none has a marker, they vote at once
	Strict             // the servers of a new cluster wait, too
	Off                // every answer counts
)

// Observer is told of changes. No mutex of this package is held during its calls, so they may ask
// the Membership. They come on the goroutine that brought the change, which may be the reader of a
// node: they must not wait for an answer of a node.
type Observer struct {
	VotesChanged  func()               // time or a server may have changed whose votes count
	CountsAnew    func()               // votes that are in count in another way than before
	ServerForgot  func()               // a server has forgotten what it held
	HoldsLocks    func() bool          // are there locks that must not be forgotten unnoticed?
	RosterChanged func(*record.Roster) // votes count by another version of the cluster's list from now on
}

// Config is what a [Membership] is made with.
type Config struct {
	Mode    Mode
	MaxTTL  time.Duration // of a new cluster
	Cluster string        // the only one whose members vote; empty for any
	Clock   clock.Clock
	Looks   bool // nothing is written to any master: votes count as far as others have seen to it
	// Dial returns a node for a member that the list lacks; nil if there must be none.
	Dial func(endpoint string) (*pipeline.Node, error)
	Owns bool // the nodes of the list may be closed
}

// Membership knows whose votes count. See record.Marker and record.Roster for what decides that,
// and admission.go and reconciler.go for how it comes about.
//
// It is the door for rounds and Lockers, and takes what happens: connections, proofs, answers and
// time. What is known is its state; what it asks of masters to keep a cluster going is the part of
// its Reconciler. Whatever happens takes mu, changes the state, and ends with endLocked.
type Membership struct {
	state
	reconciler Reconciler

	timer  *clock.Timer   // for tick; guarded by mu
	checks *clock.Timer   // for looking for servers that forgot; guarded by mu
	work   sync.WaitGroup // the reconciler, and calls that are being made; none begins once stopped is set
}

// state is what is known, and what follows from it. Its methods send nothing and tell nobody.
// Those whose names end in Locked need mu; the others may be called by anybody.
type state struct {
	// These never change.
	mode     Mode
	maxTTL   time.Duration // of a new cluster
	looks    bool
	clock    clock.Clock
	dial     func(endpoint string) (*pipeline.Node, error)
	listed   int // how many of the nodes are those of the list: the first
	owns     bool
	observer *Observer

	// These three are read by anybody, and written under mu. What they point to never changes.
	nodes atomic.Pointer[[]*pipeline.Node] // by position; never fewer
	view  atomic.Pointer[View]             // never nil
	epoch atomic.Uint64                    // how many times a server forgot

	hurried atomic.Bool // health checks are frequent, because locks are held; written under mu

	mu         sync.Mutex // guards the fields below; never held while a node is called
	cluster    string     // the only one whose members vote; empty for any, also once an operator gave it up
	members    table      // by position, as many as nodes
	belief     belief
	runs       pace
	lives      record.Lives     // only grows: a life that is over stays over
	stirred    bool             // a marker has changed since the reconciler ran
	undialable []string         // endpoints of members that cannot be dialed: they are not tried again
	secondRead *secondRead      // the second read of a new cluster; nil while there is none
	outbox     []*markerRequest // to be sent when mu is free
	waiting    chan struct{}    // closed at the next change; nil while not awaited
	stopped    bool             // nothing begins any more; never unset
}

// table is what is known of the nodes, by position. Its methods need mu, and only look, but for
// findDuplicates.
type table []member

// View says whose votes count at a moment. It never changes, so a round may keep one for as long
// as it likes; but it should count with the newest, because a vote that is taken away later counts
// no more in any tally. Its slices are by position, as many as nodes were known.
type View struct {
	Voting     quorum.NodeSet // the nodes whose votes count
	Duplicates quorum.NodeSet // the same server as another node: asked for a release only
	NonMembers quorum.NodeSet // no members: not asked
	Free       quorum.NodeSet // of these, those whose connection was ended: their masters were removed, or not added
	Enough     bool           // a quorum votes
	Roster     *record.Roster // by which votes count; nil if none is known, or they count by the list
	Conflict   error          // why no lock may be granted: the list has majorities of two clusters

	members quorum.NodeSet // the nodes of members
	size    int            // how many members there are
	maxTTL  time.Duration  // of locks

	proofless quorum.NodeSet // nodes without proof, because their user may not read the marker
	markers   []string       // by which each node votes; empty if it does not
	hashes    []uint64
}

// member is what is known of a node's vote. All of it is guarded by the mutex of the Membership. A
// pointer to one is good while mu is held, and no longer: a new node moves them all (addNode).
// What was learned on a connection goes with it (connected). What was known of the master's memory
// outlives it (known, met, reported, pardoned): by that we notice what it forgot meanwhile.
type member struct {
	position position
	unwatch  func() // ends the watch of the node; nil while there is none

	// Of the server, from its handshake (connected), and what was made of its marker since.
	seen      bool // it has connected
	identity  pipeline.Identity
	before    pipeline.Identity // on the connection before
	phase     phase
	restarted uint64 // the epoch in which it last forgot; 0 if it never did
	forgotten string // the incarnation that it forgot then; empty if that is not known
	duplicate int    // index of an earlier node that is the same server; -1 for none

	// Of the marker and the register, as they were last read. The first four are one thing: only
	// readLocked sets them, and connected, when the connection is new.
	server    core.Server
	text      string // the marker
	marker    record.Marker
	place     record.Place // what the marker says of the cluster
	id        string       // the member that it was last; empty for none
	nonMember string       // the marker by which it belongs to no cluster of ours
	index     int          // the index of the member that it was when that was found, without its marker; -1 for none
	forbids   bool         // the user may not use its register, as far as is known on this connection
	unread    error        // why the register could not be read the last time; nil if it was, or was not tried
	read      bool         // the register was read on this connection, or is forbidden
	torn      bool         // it has lost a part of its keys, as far as that was read
	known     string       // the incarnation under which it was last active to us; empty for none
	reported  string       // the one that was last reported as forgotten
	met       string       // the incarnation that its marker named last, in whatever state
	pardoned  string       // the incarnation that Initialize made active: trusted whatever we know

	// A server that comes back may be given the data of another one at once. So for a quarantine
	// after the connection broke, it is believed only by what it was known by.
	trusted    clock.Instant // until then only the known incarnation is trusted
	distrusted string        // the known incarnation that trusted was set for

	// Of the requests for the marker. One is under way at a time, so an answer that is not that of
	// asking is one to an earlier connection, and is dropped.
	asking  *markerRequest // under way; nil if none is
	retryAt clock.Instant  // when to ask again
	pause   clock.Backoff  // between two reads of a marker that others may change
	reads   int            // reads of such a marker since it connected
	err     error          // why the last request failed
	lost    clock.Instant  // until then, its reconnection is awaited after a mismatch
	said    quorum.NodeSet // nodes that have told their marker since this one's was read

	// early means that the markers of the other nodes are awaited. They will show whether this one
	// has come back with all that it held.
	early bool

	// objections is until when clients that knew the server as active may object to a new marker.
	objections clock.Instant

	until clock.Instant // end of the quarantine, as far as is known; 0 for none
	young bool          // proofless; its server had just started when we first connected
}

// prooflessMemory stands for the incarnation of a node that could not prove anything.
const prooflessMemory = "proofless"

// phase is how far a node has come. It is of the present connection: readLocked and
// judgeProoflessLocked decide it anew, and a loss of memory that is noticed meanwhile takes it
// back to quarantined (expelCopiesLocked, mismatchLocked).
//
//	unseen ──▶ quarantined ◀──▶ voting
//	  └──▶ proofless (the marker is out of reach: see admission.go)
type phase uint8

const (
	phaseUnseen phase = iota
	phaseQuarantined
	phaseVoting
	phaseProofless
)

const never = core.Never

// New returns the membership of some nodes, of which nothing is known yet. It takes nodes over as
// the first positions, and the caller must not change it. Nobody has a vote in the first View, and
// no lock is too long for it: whether one is, is known when its masters are.
func New(config Config, nodes []*pipeline.Node, observer *Observer) *Membership {
	ms := &Membership{state: state{
		mode: config.Mode, maxTTL: config.MaxTTL, cluster: config.Cluster, looks: config.Looks, clock: config.Clock, dial: config.Dial,
		listed: len(nodes), owns: config.Owns, observer: observer, runs: pace{retryAt: never}, lives: record.Lives{},
	}}
	ms.reconciler.ms = ms
	for range nodes {
		ms.members = append(ms.members, newMember())
	}
	ms.nodes.Store(&nodes)
	ms.view.Store(&View{
		markers: make([]string, len(nodes)), hashes: make([]uint64, len(nodes)), members: quorum.All(len(nodes)), size: len(nodes),
		maxTTL: math.MaxInt64,
	})
	return ms
}

// newMember returns what is known of a node that has never connected: also of one that takes the
// position of another.
func newMember() member {
	return member{duplicate: -1, retryAt: never, position: position{ends: never, reusable: never}}
}

// Watch watches the nodes until Stop. It is called once.
func (ms *Membership) Watch() {
	ms.CheckHealth()
	for i := range ms.Nodes() {
		ms.watch(i)
	}
}

// watch watches one node. A Stop that came between the call and here did not see unwatch, so it is
// left to this goroutine; one that comes later finds it.
func (ms *Membership) watch(i int) {
	stop := ms.Nodes()[i].Observe(func() { ms.nodeChanged(i) })
	ms.mu.Lock()
	stopped := ms.stopped
	ms.members[i].unwatch = stop
	ms.mu.Unlock()
	if stopped {
		stop()
		return
	}
	ms.nodeChanged(i) // it may be connected already
}

// nodeChanged checks a node whose state or identity may have changed. Who votes is decided only if
// there is a new identity: a connection that ended takes no vote away, as what was counted on it
// was proven. But the reconciler may have something to do, and whoever waits for a node asks its
// state.
func (ms *Membership) nodeChanged(i int) {
	if id, met := ms.Nodes()[i].Identity(); met {
		ms.connected(i, id)
	}
	ms.mu.Lock()
	ms.reconcileLocked()
	ms.wakeLocked()
	ms.mu.Unlock()
	ms.observer.VotesChanged()
}

// Nodes returns the nodes: those of the list, and then those of members that the list lacks. The
// slice must not be changed.
func (st *state) Nodes() []*pipeline.Node { return *st.nodes.Load() }

// View returns whose votes count now. It must not be changed.
func (st *state) View() *View { return st.view.Load() }

// Reconciler returns what changes the cluster for an operator.
func (ms *Membership) Reconciler() *Reconciler { return &ms.reconciler }

// Proves reports whether votes must be proven.
func (ms *Membership) Proves() bool { return ms.mode != Off }

// connected takes the identity of a node that has connected. It ignores an identity that is older
// than the last one: two goroutines may deliver them.
//
// The node has no vote until its marker was read anew. An answer that was asked for on the
// connection before is no answer of this server: asking is nil now, so Complete drops it.
func (ms *Membership) connected(i int, id pipeline.Identity) {
	ms.mu.Lock()
	n := &ms.members[i]
	if ms.stopped || n.free() || n.seen && id.Connection <= n.identity.Connection {
		ms.mu.Unlock()
		return
	}
	n.seen, n.identity, n.before = true, id, n.identity
	n.asking, n.err, n.reads, n.objections, n.lost = nil, nil, 0, 0, 0
	n.text, n.marker, n.place, n.said, n.forbids, n.unread = "", record.Marker{}, record.Place{}, 0, false, nil
	n.read, n.torn = false, false
	n.retryAt, n.pause = never, clock.Backoff{Shortest: rereadMin, Longest: rereadMax}
	ms.saidLocked(i)
	ms.secondRead = nil // its answers may come from another server
	proofless := ms.mode == Off || id.Memory == nil
	if n.phase == phaseProofless && !proofless {
		n.known = prooflessMemory // no marker says what it held then
	}
	if n.known != "" && n.distrusted != n.known {
		// Once for each memory that was known: it gave its last vote before the connection broke.
		n.distrusted, n.trusted = n.known, id.Broke.Add(ms.quarantineLocked())
	}
	var forgot bool
	if proofless {
		forgot = ms.judgeProoflessLocked(n)
	} else {
		hid := n.server.Hides
		n.server = serverOf(id, ms.quarantineLocked())
		n.server.Hides = id.RunID == "" && (hid || n.before.RunID != "")
		forgot = ms.readLocked(i, id.Memory.Marker, 0)
	}
	ms.endLocked(forgot)
}

// endLocked decides whose votes count, unlocks the mutex, and then sends what is in the outbox and
// tells the observer.
//
// Whoever changes what is known of a master ends with it, so the View is never older than what is
// known when the mutex is free. The calls come after: a node that is down completes its call at
// once, on this goroutine, and that takes the mutex again.
func (ms *Membership) endLocked(forgot bool) {
	forgot = ms.expelCopiesLocked() || forgot
	before := ms.View()
	ms.reconcileLocked()
	ms.setTimerLocked(ms.decideLocked())
	view := ms.View()
	outbox := ms.outbox
	ms.outbox = nil
	ms.mu.Unlock()
	ms.send(outbox)
	if forgot {
		ms.observer.ServerForgot()
	}
	if !view.countsAs(before) {
		ms.observer.CountsAnew()
	}
	if view.Roster != before.Roster {
		ms.observer.RosterChanged(view.Roster)
	}
	ms.observer.VotesChanged()
}

// send makes the calls, each of which was taken from the outbox by this goroutine alone. mu is not
// held, because one may complete at once.
func (ms *Membership) send(outbox []*markerRequest) {
	for _, a := range outbox {
		a.membership = ms
		ms.do(ms.Nodes()[a.node], &a.request)
	}
}

// do makes a call, but for one that comes after Stop: its Sink is told so.
func (ms *Membership) do(node *pipeline.Node, request *pipeline.Request) {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		request.Sink.Complete(0, nil, pipeline.ErrWithdrawn)
		return
	}
	ms.work.Add(1) // in one step with the look at stopped, so that Stop waits for it
	ms.mu.Unlock()
	defer ms.work.Done()
	node.Do(pipeline.Call{Request: request})
}

// sink is a Sink of a Membership's requests.
type sink interface{ asks() *Membership }

// Stop undoes Watch, stops all that is under way, and waits for it. Then nothing more is sent to
// any node, also of those that stay open.
//
// The order is what makes it complete. Once stopped is set, nothing begins: do and the timers look
// at it under the mutex. Then the reconciler ends, which may be waiting for an answer, and last
// the requests are withdrawn that are still in the queues of nodes.
func (ms *Membership) Stop() {
	ms.mu.Lock()
	var unwatch []func()
	for i := range ms.members {
		if stop := ms.members[i].unwatch; stop != nil {
			unwatch = append(unwatch, stop)
		}
	}
	ms.stopped = true
	if ms.runs.stop != nil {
		ms.runs.stop()
	}
	for _, timer := range []*clock.Timer{ms.timer, ms.checks} {
		if timer != nil {
			timer.Stop() // none is set again: who does looks at stopped first
		}
	}
	ms.mu.Unlock()
	for _, stop := range unwatch {
		stop()
	}
	ms.work.Wait()
	for _, node := range ms.Nodes() {
		node.Withdraw(func(of pipeline.Sink) bool {
			s, ok := of.(sink)
			return ok && s.asks() == ms
		})
	}
}

// client returns what is known besides what masters say, for a decision of package core. It is a
// copy, so that a decision is made on one state of affairs, and needs no mutex. What changes until
// the decision is carried out is found by the master, which makes a change only if it still says
// what was reported.
func (st *state) client() *core.Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.clientLocked()
}

// clientLocked is client where mu is held. It asks the nodes for their states, which takes a mutex
// of each: theirs are never held while ours is awaited.
func (st *state) clientLocked() *core.Client {
	c := &core.Client{
		Named: st.cluster, Nodes: make([]core.Node, len(st.members)), Lives: maps.Clone(st.lives), Longest: st.longestLocked(),
	}
	for i := range st.members {
		n := &st.members[i]
		c.Nodes[i] = core.Node{
			Listed: i < st.listed, Duplicate: n.duplicate >= 0, Free: n.free(), Met: n.seen, Of: n.position.of, ID: n.id,
		}
	}
	for i, node := range st.Nodes() {
		c.Nodes[i].Up = node.State() == pipeline.Up
		c.Nodes[i].Endpoints = append(c.Nodes[i].Endpoints, node.Endpoint())
		if of := st.members[i].duplicate; of >= 0 { // an earlier one, which has its own by now
			c.Nodes[of].Endpoints = append(c.Nodes[of].Endpoints, node.Endpoint())
		}
	}
	return c
}

// LongestTTL is how long any lock may last, as far as it is known: also under the version before
// the one that counts. Before a cluster is known, it is what a new one of ours would have.
func (ms *Membership) LongestTTL() time.Duration {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.longestLocked()
}

// longestLocked is LongestTTL where mu is held.
func (st *state) longestLocked() time.Duration {
	if r := st.belief.Roster; r != nil {
		return r.Longest()
	}
	return st.maxTTL
}

// quarantineLocked returns how long a server waits that may have forgotten, as far as we know now.
// One that already waits does so for what its marker says, if that is longer.
func (st *state) quarantineLocked() time.Duration { return core.Quarantine(st.longestLocked()) }
