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
	"sync"

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
		VotesChanged: l.votesChanged, ServerForgot: l.serverForgot, RosterChanged: l.rosterChanged,
		HoldsLocks: func() bool { return l.expiry.Len() > 0 },
	})
	l.rounds = round.Rounds{Members: l.members, Counting: l.countRelease, Voted: l.released, Few: l.life.few}
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
