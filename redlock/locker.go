// Package redlock gives mutual exclusion from N independent Redis masters, by the Redlock algorithm
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/): a lock is held when a majority of the masters has
// granted it, for its time to live less the time that this took and an allowance for clock drift.
//
// A [Locker] speaks to the masters, a [Lock] is one acquisition. What is promised: the validity of two holders of
// one name does not overlap, as long as clocks drift less than allowed, and a master that lost its keys stays away until
// they would have expired. A holder that is paused beyond its validity learns of it when it next looks, and not before.
//
// Those who wait for a lock get it in their order: a release hands it to the one who has waited longest ([Locker.Lock]). With
// [WithFencing] each acquisition has a number by which the protected resource can refuse an earlier holder ([Lock.Fence]).
//
// In a file each: the round (send, count, decide), its rules (tally), acquire, wait, fence, extend, verify, release.
package redlock

import (
	"sync"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// Locker acquires locks from a fixed set of Redis masters. Its methods may be called from any goroutine. It must
// not be copied.
type Locker struct {
	config   config
	nodes    []*pipeline.Node
	owns     bool // the nodes are ours to close
	clock    clock.Clock
	voters   *electorate
	events   *events // nil where nobody listens
	expiry   agenda
	renewals agenda
	renewing sync.Mutex // held by renew while it holds the mutexes of a batch; before those
	counts   counts
	hashes   []uint64 // of the endpoints, for pilot
	lines    lines
	ears     *ears
	shunned  shunned
	others   sightings
	graceArg any      // of the default TTL, boxed once
	unwatch  []func() // ends what newLocker began at each node

	closing chan struct{} // closed by Close
	mu      sync.Mutex    // guards the fields below; never held over a call to a node
	closed  bool
	running int           // calls and rounds under way
	idle    chan struct{} // closed when closed is set and running is 0

	ending      sync.Once // the rest of Close
	undelivered error     // what Close returns; written in ending
}

// New returns a Locker over independent Redis masters: redis://, rediss:// and unix:// URLs, or host:port. It returns at once
// and dials in the background; [Locker.Ready] waits for a quorum. One endpoint makes a lock of a single instance,
// five are usual: two may fail. The error is [ErrInvalid]; passwords are never part of it.
func New(endpoints []string, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 || len(endpoints) > maxNodes {
		return nil, invalid("%d endpoints, not 1 to %d", len(endpoints), maxNodes)
	}
	if cfg.clock == nil {
		cfg.clock = clock.System()
	}
	poolOpts := append([]pipeline.Option{pipeline.WithClock(cfg.clock)}, cfg.pool...)
	var nodes []*pipeline.Node
	for i, endpoint := range endpoints {
		node, nodeErr := pipeline.NewNode(endpoint, poolOpts...)
		if nodeErr != nil {
			err = invalid("endpoint %d: %w", i+1, nodeErr)
			break
		}
		nodes = append(nodes, node)
	}
	if err == nil {
		err = checkNodes(nodes, cfg.clock)
	}
	if err != nil {
		closeNodes(nodes)
		return nil, err
	}
	return newLocker(cfg, nodes, true), nil
}

// NewFromNodes returns a Locker over nodes that the caller made, and closes after the Locker. Several Lockers may share them.
func NewFromNodes(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 0 || len(nodes) > maxNodes:
		return nil, invalid("%d nodes, not 1 to %d", len(nodes), maxNodes)
	case cfg.pool != nil:
		return nil, invalid("WithPool: the nodes are made already")
	case nodes[0] == nil:
		return nil, invalid("node 1 is nil")
	case cfg.clock == nil:
		cfg.clock = nodes[0].Clock()
	}
	inner := make([]*pipeline.Node, len(nodes))
	for i, node := range nodes {
		inner[i] = (*pipeline.Node)(node)
	}
	if err := checkNodes(inner, cfg.clock); err != nil {
		return nil, err
	}
	return newLocker(cfg, inner, false), nil
}

func newLocker(cfg config, nodes []*pipeline.Node, owns bool) *Locker {
	l := &Locker{
		config: cfg, nodes: nodes, owns: owns, clock: cfg.clock,
		closing: make(chan struct{}), idle: make(chan struct{}),
	}
	l.voters = newElectorate(&cfg, nodes)
	l.voters.changed, l.voters.forgotten, l.voters.holding = l.tellNodes, l.nodesForgot, func() bool { return l.expiry.len() > 0 }
	l.events = newEvents(&cfg, len(nodes))
	l.lines.clock = cfg.clock
	l.ears = newEars(l)
	l.shunned.nodes = make([]shunning, len(nodes))
	l.graceArg = cfg.grace(cfg.timeout(cfg.lock.ttl)).Milliseconds()
	l.expiry.init(slotExpiry, clock.WithAlarms(cfg.clock), func(locks []*Lock, now clock.Instant) {
		for _, lock := range locks {
			lock.expire(now)
		}
	})
	l.voters.patrol()
	l.renewals.init(slotRenewal, cfg.clock, l.renew)
	l.renewals.burst = maxRenewed
	for i, node := range nodes {
		l.hashes = append(l.hashes, hash(node.Endpoint()))
		l.unwatch = append(l.unwatch, node.Observe(func() { l.nodeChanged(i) }))
		l.nodeChanged(i) // it may be connected already
	}
	return l
}

// nodeChanged looks at a node whose state or identity may have changed.
func (l *Locker) nodeChanged(i int) {
	if id, met := l.nodes[i].Identity(); met {
		l.voters.meet(i, id)
	}
	l.voters.wake()
	l.tellNodes()
}

// nodesForgot tells the locks that a server has forgotten what it held.
func (l *Locker) nodesForgot() {
	for _, lock := range l.expiry.all() {
		lock.nodesForgot()
	}
}

// tellNodes tells how the nodes are, where somebody listens.
func (l *Locker) tellNodes() {
	if l.events == nil {
		return
	}
	undecided := l.voters.present.Load().undecided
	for i := range l.nodes {
		if undecided>>i&1 == 1 {
			continue // whether its vote counts is known once the others are met
		}
		stats := l.nodeStats(i)
		l.events.node(i, &stats)
	}
}

// checkNodes refuses what would make one master vote twice, and nodes that count time differently.
func checkNodes(nodes []*pipeline.Node, clk clock.Clock) error {
	seen := make(map[string]int, len(nodes))
	for i, node := range nodes {
		if node == nil {
			return invalid("node %d is nil", i+1)
		}
		if node.Clock() != clk {
			return invalid("node %d (%s) has a clock of its own", i+1, node.Endpoint())
		}
		if first, again := seen[node.Server()]; again {
			return invalid("endpoints %d and %d are the same server: %s", first+1, i+1, node.Endpoint())
		}
		seen[node.Server()] = i
	}
	return nil
}

// enter counts a call, and reports false once the Locker is closed. Every call that entered leaves.
func (l *Locker) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running++
	return true
}

func (l *Locker) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// enterAnyway counts what has to be done also while the Locker is closing: releases.
func (l *Locker) enterAnyway() {
	l.mu.Lock()
	l.running++
	l.mu.Unlock()
}

func (l *Locker) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running > 0 || !l.closed {
		return
	}
	select {
	case <-l.idle: // a late Unlock of a lost lock
	default:
		close(l.idle)
	}
}

func closeNodes(nodes []*pipeline.Node) {
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { _ = node.Close() }) //nolint:errcheck // always nil: a node is closed or was
	}
	all.Wait()
}
