// Package redlock locks names across machines, on several independent Redis masters:
//
//	locker, err := redlock.New([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	if err != nil {
//		return err // a bad endpoint or option; nothing was dialed yet
//	}
//	defer locker.Close()
//
//	lock, err := locker.Lock(ctx, "orders/42") // waits; ctx bounds the wait only
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//	return settle(lock.Context(ctx)) // ends the moment the lock is no longer ours
//
// The lock is renewed while it is held. [Locker.TryLock] asks once and does not wait, and
// [Locker.Do] runs a function under the lock. [Locker.LockAll] takes several names,
// [Locker.LockAny] the first that is free, [Locker.RLock] shares a name with other readers, and a
// [Semaphore] has several holders. Waiters get a lock in order: a release hands it to the one that
// has waited longest. Branch on errors with errors.Is: [ErrTaken], [ErrNoQuorum] and the others.
//
// # What holds
//
// The algorithm is Redlock
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/). A lock is held when a
// majority of the masters has granted it. It is valid for its time to live, less the time that
// acquiring it took and an allowance for clock drift.
//
// The validity of two holders of one name does not overlap, as long as clocks drift less than
// allowed and a master that lost its keys stays away until they would have expired, which the
// clients see to. A holder that is paused beyond its validity learns of it when it next checks, not
// before. With [WithFencing] each acquisition has a number by which the protected resource can
// refuse an earlier holder ([Lock.Fence]). docs/safety.md has every claim and its limits.
//
// # In the source
//
// docs/design.md has the rooms and the journey of a lock. Here, from the ground up: what a Locker
// and a Lock are, and in what kinds of locks differ (locker.go, lock.go); how an attempt is undone
// and a lock ends (undo.go, state.go); fence, extend, release, acquire and wait; the kinds in files
// of their own (mutex, reader, names, choice, permit); and what package admin asks (cluster,
// inspect, records).
package redlock

import (
	"maps"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// New returns a Locker over independent Redis masters, given as redis://, rediss:// or unix:// URLs
// or as host:port. It returns at once and dials in the background; [Locker.Ready] waits for a
// quorum. One endpoint makes a lock on a single instance; five are usual, of which two may fail.
// The only error is [ErrInvalid]; passwords are never part of it.
func New(endpoints []string, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 || len(endpoints) > quorum.MaxNodes {
		return nil, invalid("%d endpoints, not 1 to %d", len(endpoints), quorum.MaxNodes)
	}
	if cfg.clock == nil {
		cfg.clock = clock.System()
	}
	poolOpts := append([]pipeline.Option{pipeline.WithClock(cfg.clock)}, cfg.pool...)
	if cfg.trustMembers {
		poolOpts = append(poolOpts, pipeline.WithMemberCredentials())
	}
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

// NewFromNodes returns a Locker over nodes that the caller made, and closes after the Locker.
// Several Lockers may share them. It connects to no other members of the cluster, as if
// [WithoutDiscovery] were given: list them all.
func NewFromNodes(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 0 || len(nodes) > quorum.MaxNodes:
		return nil, invalid("%d nodes, not 1 to %d", len(nodes), quorum.MaxNodes)
	case cfg.pool != nil:
		return nil, invalid("WithPool: the nodes exist already")
	case cfg.trustMembers:
		return nil, invalid("WithMemberCredentials: the nodes exist already")
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
	l := &Locker{config: cfg, owns: owns, clock: cfg.clock}
	l.life.init()
	l.history.locker = l
	l.members = members.New(members.Config{
		Mode: members.Mode(cfg.quarantine), MaxTTL: cfg.maxTTL, Cluster: cfg.cluster, Looks: cfg.looks, Clock: cfg.clock,
		Dial: l.dialer(nodes), Owns: owns,
	}, nodes, &members.Observer{
		VotesChanged: l.votesChanged, CountsAnew: l.countAnew, ServerForgot: l.serverForgot, RosterChanged: l.rosterChanged,
		HoldsLocks: func() bool { return l.expiry.Len() > 0 },
	})
	l.rounds = round.Rounds{Members: l.members, Began: l.life.enterRound, Counting: l.countRelease, Voted: l.released, Few: l.life.few}
	l.events = newEvents(cfg.hooks, cfg.logger)
	l.waiters = wait.NewWaiters(cfg.clock, l.members, &l.rounds, wire.WakeChannel, l.life.closing)
	l.expiry.Init(clock.WithAlarms(cfg.clock), (*Lock).expiryEntry, 0, func(locks []*Lock, now clock.Instant) {
		for _, lock := range locks {
			lock.expire(now)
		}
	})
	l.renewals.Init(cfg.clock, (*Lock).renewalEntry, maxRenewed, l.renew)
	l.members.Watch()
	return l
}

// votesChanged reports the state of the nodes, if there is a hook or a logger.
func (l *Locker) votesChanged() {
	if l.events == nil {
		return
	}
	for i := range l.nodes() {
		if why, known := l.members.Outcome(i); known {
			stats := l.nodes()[i].Stats()
			l.events.node(i, &stats, why)
		}
	}
}

// countAnew makes all rounds that nodes have not answered count their votes once more: those that
// are in may win them now. Of each, some node still has a call, and its Sink is the round.
func (l *Locker) countAnew() {
	rounds := map[pipeline.Sink]struct{}{}
	for _, node := range l.nodes() {
		maps.Copy(rounds, node.Unanswered())
	}
	for sink := range rounds {
		if r, counts := sink.(interface{ Recount() }); counts {
			r.Recount()
		}
	}
}

// serverForgot tells the locks that a server has forgotten what it held.
func (l *Locker) serverForgot() {
	for _, lock := range l.expiry.All() {
		lock.nodesForgot()
	}
}

// rosterChanged reports the change, if there is a hook or a logger.
func (l *Locker) rosterChanged(roster *record.Roster) {
	if roster != nil {
		l.events.cluster(roster)
	}
}

// dialer returns how to connect to members that the list lacks.
func (l *Locker) dialer(list []*pipeline.Node) func(endpoint string) (*pipeline.Node, error) {
	if !l.owns || l.config.withoutDiscovery {
		return nil
	}
	return func(endpoint string) (*pipeline.Node, error) { return pipeline.NewMember(list, endpoint) }
}

// checkNodes refuses a server that is listed twice, which would vote twice, nodes with different
// clocks, and different databases: one of the numbers is a slip, and whoever has it right excludes
// nobody who has it wrong.
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
		if node.Database() != nodes[0].Database() {
			return invalid("endpoints 1 and %d are in different databases: %s and %s", i+1, nodes[0].Endpoint(), node.Endpoint())
		}
		seen[node.Server()] = i
	}
	return nil
}

func closeNodes(nodes []*pipeline.Node) {
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { _ = node.Close() }) //nolint:errcheck // always nil
	}
	all.Wait()
}

// Stats is what a Locker has done and the state of its nodes, at one moment.
type Stats struct {
	Held           int           // locks held now
	OldestHold     time.Duration // of the one that is held for longest, but for elections; 0 without one
	Acquired       uint64        // locks acquired, including those of Adopt
	Taken          uint64        // rounds for a lock that a quorum did not grant, those of waiters included
	NoQuorum       uint64        // rounds for a lock that too few nodes answered
	NoValidity     uint64        // rounds for a lock that won too late
	Renewed        uint64        // extensions that won
	Lost           uint64        // locks that ended without being released
	Waiting        int           // calls of Lock, RLock, LockAll, LockAny, Do and Acquire that wait now
	OldestWait     time.Duration // of the one that waits for longest, but for elections; 0 without one
	Waits          uint64        // how many such calls did not get the lock at once
	HandedOver     uint64        // votes that our releases gave to waiters, here or elsewhere
	Woken          uint64        // how often a vote that was handed over woke a waiter of ours
	Polls          uint64        // how often a waiter asked again without being woken
	Split          uint64        // rounds that some nodes granted, but a quorum of nodes did not
	SecondRounds   uint64        // rounds that raised masters to a fencing token
	HooksDropped   uint64        // calls of hooks dropped because too many were outstanding
	HistoryDropped uint64        // notes of WithHistory that were dropped, or that no quorum of nodes took
	Cluster        string        // by whose list of members votes count; empty while none is known
	Version        int64         // of that list; 0 while none is known
	Members        int           // masters of which a majority is a quorum; without a cluster, the endpoints
	Quorum         int           // how many votes make a quorum
	Nodes          []NodeStats   // in the order of the endpoints; then members that the Locker's list lacks
}

// NodeStats is the state of a node, and whether its vote counts.
type NodeStats struct {
	pool.Stats
	Unidentified bool // answers, but does not say who it is; its vote counts
	Listed       bool // in the Locker's own list; otherwise it is a member that the list lacks, or was one

	// Barred is why its vote does not count, pool.ErrQuarantined, pool.ErrDuplicate, ErrNotMember
	// or ErrOtherCluster; nil if it does.
	Barred error

	// Memory is what the node's memory marker says: "active", "new" or "lost"; empty if it is not
	// known, or may not be read.
	Memory string

	// QuarantinedFor is for how long its vote will not count, as far as is known; 0 if it counts.
	QuarantinedFor time.Duration
}

// Stats returns the current figures.
func (l *Locker) Stats() Stats {
	s := Stats{
		Held:         max(l.expiry.Len()-int(l.counts.parts.Load()), 0),
		OldestHold:   l.oldestHold(),
		OldestWait:   l.waiters.Counts.Begun.Oldest(l.clock.Now()),
		Acquired:     l.counts.acquired.Load(),
		Taken:        l.counts.taken.Load(),
		NoQuorum:     l.counts.noQuorum.Load(),
		NoValidity:   l.counts.noValidity.Load(),
		Renewed:      l.counts.renewed.Load(),
		Lost:         l.counts.lost.Load(),
		Waiting:      int(l.waiters.Counts.Waiting.Load()),
		Waits:        l.waiters.Counts.Waits.Load(),
		HandedOver:   l.counts.handedOver.Load(),
		Woken:        l.waiters.Counts.Woken.Load(),
		Polls:        l.waiters.Counts.Polls.Load(),
		Split:        l.counts.split.Load(),
		SecondRounds: l.counts.secondRounds.Load(),
	}
	view := l.members.View()
	if s.Members, s.Quorum = view.Size(), view.Need(); view.Roster != nil {
		s.Cluster, s.Version = view.Roster.Cluster, view.Roster.Version.Number
	}
	for i := range l.nodes() {
		s.Nodes = append(s.Nodes, l.nodeStats(i))
	}
	s.HistoryDropped = l.history.Dropped()
	if l.events != nil {
		s.HooksDropped = l.events.dropped.Load()
	}
	return s
}

// oldestHold looks at each lock: 100,000 of them take some milliseconds.
func (l *Locker) oldestHold() (oldest time.Duration) {
	now := l.clock.Now()
	for _, lock := range l.expiry.All() {
		lock.mu.Lock()
		if !lock.part && !lock.office && lock.state == held {
			oldest = max(oldest, now.Sub(lock.acquired))
		}
		lock.mu.Unlock()
	}
	return oldest
}

func (l *Locker) nodeStats(i int) NodeStats {
	s := NodeStats{Stats: pool.Stats(l.nodes()[i].Stats()), Barred: l.members.Why(i), Memory: l.members.Memory(i), QuarantinedFor: l.members.QuarantinedFor(i)}
	s.Listed = l.members.Listed(i)
	s.Unidentified = s.State == pool.Up && s.RunID == ""
	return s
}
