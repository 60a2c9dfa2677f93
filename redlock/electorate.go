package redlock

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// electorate knows whose votes count: those of servers that prove that they remember (marker.go).
// It learns who they are when the nodes connect, and admits them by itself (admission.go).
type electorate struct {
	mode      Quarantine
	maxTTL    time.Duration
	clock     clock.Clock
	nodes     []*pipeline.Node
	changed   func()      // called without mu when time or a server has changed whose votes count
	forgotten func()      // called without mu when a server has forgotten what it held
	holding   func() bool // whether there are locks that must not be forgotten unnoticed

	present atomic.Pointer[roll] // never nil

	mu        sync.Mutex // guards the fields below; never held while a node is called
	standings []standing
	epoch     uint64       // counts servers that forgot
	census    *census      // the second look at a new cluster; nil while there is none
	outbox    []*admission // to be sent when mu is free
	timer     *clock.Timer
	patrols   *clock.Timer  // looks for servers that forgot
	hurried   bool          // it does so often, for locks are held
	waiting   chan struct{} // closed at the next change; nil while nobody waits for that
	stopped   bool
}

// roll says whose votes count at a moment, a bit per node.
type roll struct {
	voting     uint64   // counts
	duplicates uint64   // the same server as another node: is not asked
	proofless  uint64   // votes without proof, for its user may not read the marker
	undecided  uint64   // is being found out
	markers    []string // by which a node votes; empty where it does not
	enough     bool     // a quorum votes
}

// standing is what is known of a node's vote.
type standing struct {
	met       bool
	identity  pipeline.Identity
	before    pipeline.Identity // of the connection before
	phase     phase
	restarted uint64 // the epoch in which it forgot; 0 where it never did
	twin      int    // index of a node that is the same server; -1 for none

	server   server
	text     string // the marker as it was read last
	marker   marker
	known    string // the incarnation under which it was last known as active
	told     string // the one of which it was told that it is forgotten
	pardoned string // the incarnation that Init made active: nothing is held against it

	trusted    clock.Instant // before, no incarnation is that is not the known one
	distrusted string        // the known one that this was said of

	asking  *admission    // under way; nil while there is none
	retryAt clock.Instant // when to ask again
	pause   clock.Backoff // between two looks at a marker that others may change
	looks   int           // since it connected
	err     error         // why the last one failed
	lost    clock.Instant // until then its next connection is awaited, after one on which it had forgotten
	early   bool          // whether it has come back with all that it held shows when the others have said what they are
	heard   uint64        // those that have, since its marker was read

	objections clock.Instant // until then a new marker may be objected to by those who knew the server as active

	until clock.Instant // in quarantine until then, as far as is known; 0 for not at all
	young bool          // proofless, on first contact, and not found to be of a young cluster
}

// prooflessMemory stands for the incarnation of a node that could not prove anything.
const prooflessMemory = "proofless"

// phase is how far a node has come.
//
//	unmet ──▶ quarantined ◀──▶ voting
//	  └──▶ proofless (the marker is out of reach: see proofless.go)
type phase uint8

const (
	phaseUnmet phase = iota
	phaseQuarantined
	phaseVoting
	phaseProofless
)

func newElectorate(cfg *config, nodes []*pipeline.Node) *electorate {
	e := &electorate{mode: cfg.quarantine, maxTTL: cfg.maxTTL, clock: cfg.clock, nodes: nodes, standings: make([]standing, len(nodes))}
	for i := range e.standings {
		e.standings[i].twin, e.standings[i].retryAt = -1, never
	}
	e.present.Store(&roll{markers: make([]string, len(nodes)), undecided: allNodes(len(nodes))})
	return e
}

// proves reports whether votes must be proven.
func (e *electorate) proves() bool { return e.mode != QuarantineOff }

// meet takes the identity of a node: it has connected. An identity that is older than the last one
// is passed over, for they may come from two goroutines.
func (e *electorate) meet(i int, id pipeline.Identity) {
	e.mu.Lock()
	n := &e.standings[i]
	if e.stopped || n.met && id.Connection <= n.identity.Connection {
		e.mu.Unlock()
		return
	}
	n.met, n.identity, n.before = true, id, n.identity
	n.asking, n.err, n.looks, n.objections, n.lost = nil, nil, 0, 0, 0
	n.text, n.marker, n.heard = "", marker{}, 0
	n.retryAt, n.pause = never, clock.Backoff{Shortest: lookMin, Longest: lookMax}
	e.heardLocked(i)
	e.census = nil // its answers may be of another server
	proofless := e.mode == QuarantineOff || id.Memory == nil
	if n.phase == phaseProofless && !proofless {
		n.known = prooflessMemory // what it held then, no marker tells of
	}
	if n.known != "" && n.distrusted != n.known {
		// Once for each memory that was known: it gave its last vote before the connection broke.
		n.distrusted, n.trusted = n.known, id.Broke.Add(e.maxTTL)
	}
	var forgot bool
	if proofless {
		forgot = e.meetProoflessLocked(n)
	} else {
		hid := n.server.hides
		n.server = serverOf(id, e.maxTTL)
		n.server.hides = id.RunID == "" && (hid || n.before.RunID != "")
		forgot = e.readLocked(i, id.Memory.Marker, 0)
	}
	e.endLocked(forgot)
}

// endLocked finds out whose votes count, lets go of the mutex, and sends and tells what there is to
// be sent and told.
func (e *electorate) endLocked(forgot bool) {
	forgot = e.partCopiesLocked() || forgot
	e.decideLocked()
	outbox := e.outbox
	e.outbox = nil
	e.mu.Unlock()
	e.send(outbox)
	if forgot {
		e.forgotten()
	}
	e.changed()
}

// send makes calls; mu is not held, since one may end at once.
func (e *electorate) send(outbox []*admission) {
	for _, a := range outbox {
		e.nodes[a.node].Do(&a.call)
	}
}

// decideLocked finds out whose votes count now, and sets the timer for when that changes.
func (e *electorate) decideLocked() {
	now := e.clock.Now()
	e.findTwinsLocked()
	e.startCensusLocked()
	allYoung := e.allYoungLocked()
	next := never
	r := &roll{markers: make([]string, len(e.standings))}
	for i := range e.standings {
		n := &e.standings[i]
		bit := uint64(1) << i
		next = min(next, n.retryAt)
		switch {
		case n.twin >= 0:
			r.duplicates |= bit
		case n.phase == phaseVoting:
			r.voting |= bit
			r.markers[i] = n.text
		case n.phase == phaseProofless && (n.until <= now || allYoung):
			r.voting, r.proofless = r.voting|bit, r.proofless|bit
		case n.phase == phaseProofless:
			r.proofless |= bit
			next = min(next, n.until)
		}
		if e.undecidedLocked(i) {
			r.undecided |= bit
		}
	}
	r.enough = bits.OnesCount64(r.voting) >= quorum(len(e.standings))
	e.present.Store(r)
	e.wakeLocked()
	e.setTimerLocked(now, next)
}

// wake makes those who wait for a quorum to vote look again: the state of a node has changed.
func (e *electorate) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakeLocked()
}

func (e *electorate) wakeLocked() {
	if e.waiting != nil {
		close(e.waiting)
		e.waiting = nil
	}
}

// undecidedLocked reports whether it will be known in a moment if the node votes.
func (e *electorate) undecidedLocked(i int) bool {
	n := &e.standings[i]
	switch {
	case !n.met:
		return e.nodes[i].State() == pool.Connecting
	case n.phase != phaseQuarantined || n.twin >= 0:
		return false
	case e.census != nil || n.asking != nil && n.err == nil || n.early || n.lost > e.clock.Now():
		return true
	default: // others may be making it active
		return e.mode == QuarantineAuto && n.marker.state == markerNew && n.looks < quickLooks
	}
}

func (e *electorate) setTimerLocked(now, next clock.Instant) {
	switch {
	case next == never || e.stopped:
	case e.timer == nil:
		e.timer = e.clock.AfterFunc(max(next.Sub(now), 0), e.tick)
	default:
		e.timer.Reset(max(next.Sub(now), 0))
	}
}

// tick asks the servers that are to be asked again, and finds out whose time has passed.
func (e *electorate) tick() {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return
	}
	now, forgot := e.clock.Now(), false
	for i := range e.standings {
		if n := &e.standings[i]; n.retryAt <= now {
			if e.census != nil { // it asks, and what it decides must find the node free
				n.retryAt = now.Add(n.pause.Next())
				continue
			}
			n.retryAt = never
			if n.asking == nil && n.phase == phaseQuarantined {
				forgot = e.readLocked(i, n.text, 0) || forgot
			}
		}
	}
	e.endLocked(forgot)
}

func (e *electorate) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, timer := range []*clock.Timer{e.timer, e.patrols} {
		if timer != nil {
			timer.Stop()
		}
	}
}
