package redlock

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// Quarantine says what to do with a server that has not been up for long: it may have forgotten locks that it granted before
// it restarted. In quarantine a node gets every command, and its answers do not count, until all that it may have forgotten has
// expired ([WithMaxTTL] after its start). It is the delayed restart of the Redlock article, enforced by the client.
type Quarantine uint8

const (
	// QuarantineAuto: a server that restarted while this Locker knew it is quarantined. So is a young one on first
	// contact, unless a majority of the nodes is that young: that is a cluster that was just started.
	QuarantineAuto Quarantine = iota
	// QuarantineStrict: on first contact, too, every young server is quarantined.
	QuarantineStrict
	// QuarantineOff: every answer counts. For servers whose restart is delayed by other means.
	QuarantineOff
)

// electorate knows whose votes count. It learns from the identities that the nodes report when they connect.
type electorate struct {
	mode    Quarantine
	maxTTL  time.Duration
	clock   clock.Clock
	changed func() // called without mu when time has changed whose votes count

	present atomic.Pointer[roll] // never nil

	mu      sync.Mutex // guards the fields below
	nodes   []standing
	epoch   uint64 // counts restarts
	timer   *clock.Timer
	stopped bool
}

// roll says whose votes count at a moment, a bit per node.
type roll struct {
	barred      uint64 // does not count
	provisional uint64 // young, and not known yet whether the cluster is: counts when a majority turns out to be
	duplicates  uint64 // barred as the same server as another node: is not asked
}

// standing is what is known of a node's vote.
type standing struct {
	met       bool
	identity  pool.Identity
	until     clock.Instant // in quarantine until then; 0 for not at all
	young     bool          // on first contact, and not found to be of a young cluster
	restarted uint64        // the epoch of its restart; 0 where none was seen
	twin      int           // index of a node that is the same server; -1 for none
}

func newElectorate(mode Quarantine, maxTTL time.Duration, clk clock.Clock, nodes int) *electorate {
	e := &electorate{mode: mode, maxTTL: maxTTL, clock: clk, nodes: make([]standing, nodes)}
	for i := range e.nodes {
		e.nodes[i].twin = -1
	}
	e.present.Store(&roll{})
	return e
}

// meet takes the identity of a node, and reports whether its server restarted and forgot what it held.
func (e *electorate) meet(i int, id pool.Identity) (forgot bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := &e.nodes[i]
	if n.met && n.identity.RunID == id.RunID {
		return false
	}
	n.met, n.identity = true, id
	n.until, n.young = e.quarantine(id)
	if id.Previous != "" && id.RunID != "" && !id.Durable {
		e.epoch++
		n.restarted, forgot = e.epoch, true
	}
	e.decideLocked()
	return forgot
}

// quarantine returns until when a server's votes do not count, and whether that rests on its youth alone.
func (e *electorate) quarantine(id pool.Identity) (until clock.Instant, young bool) {
	if e.mode == QuarantineOff || id.RunID == "" || id.Durable {
		return 0, false
	}
	until = id.Started.Add(e.maxTTL)
	if id.Previous == "" {
		return until, e.mode == QuarantineAuto
	}
	if id.Started < id.LastContact {
		// Older than our last contact with its predecessor: a promoted replica, or another machine at this address. Its
		// start says nothing about what it knows.
		until = id.Connected.Add(e.maxTTL)
	}
	return until, false
}

// decideLocked finds out whose votes count now, and sets the timer for when that changes.
func (e *electorate) decideLocked() {
	now := e.clock.Now()
	need := quorum(len(e.nodes))
	e.findTwinsLocked()
	var young, unmet int
	for i := range e.nodes {
		switch n := &e.nodes[i]; {
		case !n.met:
			unmet++
		case n.young && n.until > now && n.twin < 0:
			young++
		}
	}
	var barred, provisional, duplicates uint64
	next := never
	for i := range e.nodes {
		n := &e.nodes[i]
		bit := uint64(1) << i
		switch {
		case n.twin >= 0:
			barred, duplicates = barred|bit, duplicates|bit
		case n.until <= now:
		case n.young && young >= need:
			// Never taken back: n.until stays, so that later nodes of the same start are counted with this one.
		case n.young && young+unmet >= need:
			provisional |= bit
			next = min(next, n.until)
		default:
			barred |= bit
			next = min(next, n.until)
		}
	}
	e.present.Store(&roll{barred, provisional, duplicates})
	e.setTimerLocked(now, next)
}

func (e *electorate) setTimerLocked(now, next clock.Instant) {
	switch {
	case next == never || e.stopped:
	case e.timer == nil:
		e.timer = e.clock.AfterFunc(next.Sub(now), e.tick)
	default:
		e.timer.Reset(next.Sub(now))
	}
}

func (e *electorate) tick() {
	e.mu.Lock()
	e.decideLocked()
	e.mu.Unlock()
	e.changed()
}

func (e *electorate) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// findTwinsLocked marks every node whose server is also an earlier node's.
func (e *electorate) findTwinsLocked() {
	first := make(map[string]int, len(e.nodes))
	for i := range e.nodes {
		n := &e.nodes[i]
		n.twin = -1
		if !n.met || n.identity.RunID == "" {
			continue
		}
		if j, seen := first[n.identity.RunID]; seen {
			n.twin = j
		} else {
			first[n.identity.RunID] = i
		}
	}
}

// count makes a tally of the votes of a round: bits of the nodes that granted, refused and failed. The votes of barred nodes count
// as failed. Those that may yet count are out until everything else is in, and failed then.
func (e *electorate) count(nodes int, granted, refused, failed uint64) tally {
	now := e.present.Load()
	barred, provisional := now.barred, now.provisional
	if granted|refused|failed == allNodes(nodes) {
		barred |= provisional
	}
	silent := barred | provisional
	return tally{
		nodes:   nodes,
		granted: bits.OnesCount64(granted &^ silent),
		refused: bits.OnesCount64(refused &^ silent),
		failed:  bits.OnesCount64(failed | (granted|refused)&barred),
	}
}

// counted returns those of the nodes whose votes count at present.
func (e *electorate) counted(nodes uint64) uint64 {
	now := e.present.Load()
	return nodes &^ (now.barred | now.provisional)
}

// now returns the present epoch: what a lock that begins now need not fear.
func (e *electorate) now() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}

// forgotten returns how many nodes have restarted since an epoch.
func (e *electorate) forgotten(since uint64) (nodes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.nodes {
		if e.nodes[i].restarted > since {
			nodes++
		}
	}
	return nodes
}

// why returns why a node's vote does not count, or nil where it does. Same tells the endpoint of a node.
func (e *electorate) why(i int, endpoint func(int) string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	bit := uint64(1) << i
	if now := e.present.Load(); (now.barred|now.provisional)&bit == 0 {
		return nil
	}
	n := e.nodes[i]
	if n.twin >= 0 {
		return fmt.Errorf("%w: the same server as %s (run_id %s)", pool.ErrRefused, endpoint(n.twin), n.identity.RunID)
	}
	now := e.clock.Now()
	left := max(n.until.Sub(now), 0).Round(time.Millisecond)
	cause := "its server started %v ago and may have forgotten locks"
	ago := max(now.Sub(n.identity.Started), 0).Round(time.Millisecond)
	if n.identity.Previous != "" && n.identity.Started < n.identity.LastContact {
		cause, ago = "another server answers there since %v, which may not know all locks", max(now.Sub(n.identity.Connected), 0).Round(time.Millisecond)
	}
	return fmt.Errorf("quarantined for another %v: "+cause, left, ago)
}
