package redlock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Hooks are functions that a [Locker] calls for what happens to its locks and nodes; each may be
// nil. One goroutine per Locker calls them, one at a time, in the order in which things happened.
// For one lock: Acquired, then Waited if Lock did not get it at once, then Renewed any number of
// times, and finally Lost or Released. Refused is called for each round that asked all nodes and
// did not get the lock. Where there is no lock, a name is the first of several, and for a permit
// that of the semaphore.
//
// No round waits for a hook. When more than 4,096 calls are outstanding, new ones are dropped and
// counted ([Stats.HooksDropped]). Close waits for the hooks, so a hook must not call it.
type Hooks struct {
	Acquired func(lock *Lock)                  // by TryLock, Lock, Do, Adopt and the like
	Waited   func(lock *Lock, d time.Duration) // d is from the call of Lock until it was acquired
	Waiting  func(name string)                 // Lock did not get it at once
	Refused  func(name string, err error)      // err as TryLock returns it

	// Failed: an attempt of Lock, or of what waits like it, failed, and the call goes on. Err is
	// what it would return if it ended now.
	Failed func(name string, err error)

	// Handed: a release of ours gave a node's vote to a waiter, here or elsewhere.
	Handed func(name string)

	Renewed  func(lock *Lock)            // by renewal or Extend
	Lost     func(lock *Lock, err error) // err as Lock.Err returns it
	Released func(lock *Lock)            // by Unlock or Close; the nodes may not have answered yet

	// Members: votes count by this version of the cluster's list from now on.
	Members func(Membership)
	// Node: err is nil if the node is up and its vote counts; otherwise it says why not.
	Node func(endpoint string, err error)
}

// maxEvents bounds the queue of hook calls.
const maxEvents = 4096

// events passes what happens to the hooks and the log, in order, on a goroutine of its own. A nil
// *events does nothing.
type events struct {
	hooks   Hooks
	logger  *slog.Logger // nil for none
	queue   chan func()
	done    chan struct{} // closed when the goroutine has ended
	dropped atomic.Uint64

	mu    sync.Mutex // guards the fields below, and sending to the queue
	ended bool
	nodes [quorum.MaxNodes]string // what was last reported of each node
}

// newEvents returns nil without hooks and logger.
func newEvents(cfg *config) *events {
	if cfg.hooks == nil && cfg.logger == nil {
		return nil
	}
	e := &events{logger: cfg.logger, queue: make(chan func(), maxEvents), done: make(chan struct{})}
	if cfg.hooks != nil {
		e.hooks = *cfg.hooks
	}
	go func() {
		defer close(e.done)
		for f := range e.queue {
			f()
		}
	}()
	return e
}

func (e *events) add(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addLocked(f)
}

func (e *events) addLocked(f func()) {
	if e.ended {
		return
	}
	select {
	case e.queue <- f:
	default:
		e.dropped.Add(1)
	}
}

// stop waits until everything that was added has been reported.
func (e *events) stop() {
	if e == nil {
		return
	}
	e.mu.Lock()
	if !e.ended {
		e.ended = true
		close(e.queue)
	}
	e.mu.Unlock()
	<-e.done
}

func (e *events) acquired(lock *Lock) {
	if e != nil && e.hooks.Acquired != nil && !lock.part {
		e.add(func() { e.hooks.Acquired(lock) })
	}
}

func (e *events) waited(lock *Lock, d time.Duration) {
	if e != nil && e.hooks.Waited != nil {
		e.add(func() { e.hooks.Waited(lock, d) })
	}
}

func (e *events) waiting(name string) {
	if e != nil && e.hooks.Waiting != nil {
		e.add(func() { e.hooks.Waiting(name) })
	}
}

func (e *events) handed(name string) {
	if e != nil && e.hooks.Handed != nil {
		e.add(func() { e.hooks.Handed(name) })
	}
}

func (e *events) refused(name string, err error) {
	if e != nil && e.hooks.Refused != nil {
		e.add(func() { e.hooks.Refused(name, err) })
	}
}

func (e *events) failed(name string, err error) {
	if e != nil && e.hooks.Failed != nil {
		e.add(func() { e.hooks.Failed(name, err) })
	}
}

func (e *events) renewed(lock *Lock) {
	if e != nil && e.hooks.Renewed != nil {
		e.add(func() { e.hooks.Renewed(lock) })
	}
}

// over reports the end of a lock.
func (e *events) over(lock *Lock, end state, err error) {
	switch {
	case e == nil || lock.part:
	case end == lost:
		e.add(func() {
			if e.logger != nil {
				e.logger.Warn("lock lost", "name", lock.Name(), "reason", err)
			}
			if e.hooks.Lost != nil {
				e.hooks.Lost(lock, err)
			}
		})
	case e.hooks.Released != nil:
		e.add(func() { e.hooks.Released(lock) })
	}
}

// cluster reports that votes count by another version of the cluster's list.
func (e *events) cluster(m Membership) {
	if e == nil {
		return
	}
	e.add(func() {
		if e.logger != nil {
			e.logger.Info("cluster", "id", m.Cluster, "version", m.Version, "members", len(m.Members), "max_ttl", m.MaxTTL)
		}
		if e.hooks.Members != nil {
			e.hooks.Members(m)
		}
	})
}

// undelivered reports what Close could not deliver.
func (e *events) undelivered(err error) {
	if e != nil && e.logger != nil && err != nil {
		e.add(func() { e.logger.Warn("closed with undelivered releases", "reason", err) })
	}
}

// node reports a node's state if it has changed: up and voting (nil), or why not.
func (e *events) node(i int, stats *NodeStats) {
	if e == nil {
		return
	}
	now, err := "up", stats.Barred
	switch {
	case stats.State == pool.Down:
		now, err = "down", stats.Err
	case stats.State != pool.Up:
		return // on its way to one of the two
	case err != nil:
		now = "barred"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.nodes[i] == now {
		return
	}
	e.nodes[i] = now
	endpoint, runID, product, version := stats.Endpoint, stats.RunID, stats.Product, stats.Version
	unidentified := stats.Unidentified
	e.addLocked(func() {
		switch {
		case e.logger == nil:
		case err == nil && unidentified:
			e.logger.Warn("node up, but without INFO: it may forget unnoticed (redlock doctor says what to allow)", "endpoint", endpoint)
		case err == nil:
			e.logger.Info("node up", "endpoint", endpoint, "run_id", runID, "product", product, "version", version)
		default:
			e.logger.Warn("node "+now, "endpoint", endpoint, "reason", err)
		}
		if e.hooks.Node != nil {
			e.hooks.Node(endpoint, err)
		}
	})
}

// Tracer is told of the calls of a Locker and its locks, such as for spans of OpenTelemetry. Its
// methods are called from any goroutine, by the calls themselves: what a tracer takes, its caller
// waits for. See [WithTracer].
type Tracer interface {
	// Start is called when an operation begins. The operation goes on with the context that it
	// returns, and calls the function with its error (nil if it succeeded) when it ends.
	Start(ctx context.Context, op Operation) (context.Context, func(error))
}

// Operation is what a [Tracer] is told of.
type Operation struct {
	Kind OperationKind
	Name string // of the lock or semaphore; of several names the first
}

// OperationKind is the kind of an [Operation].
type OperationKind string

// The kinds of operations.
const (
	OperationAcquire OperationKind = "acquire" // TryLock, Lock, Adopt and the like
	OperationWait    OperationKind = "wait"    // within an acquisition that did not succeed at once
	OperationExtend  OperationKind = "extend"  // Extend by its caller, not renewals
	OperationRelease OperationKind = "release" // Unlock
)

// WithTracer sets a [Tracer]. Without one, tracing costs nothing.
func WithTracer(tracer Tracer) Option {
	return lockerOption(func(c *config) error {
		if tracer == nil {
			return invalid("tracer is nil")
		}
		c.tracer = tracer
		return nil
	})
}

// span ends an operation; nil if it is not traced.
type span func(error)

func (s span) end(err error) {
	if s != nil {
		s(err)
	}
}

func (l *Locker) trace(ctx context.Context, kind OperationKind, name string) (context.Context, span) {
	if l.config.tracer == nil || ctx == nil {
		return ctx, nil
	}
	return l.config.tracer.Start(ctx, Operation{kind, name})
}

// firstOf returns the first name, for a tracer.
func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Stats is what a Locker has done and the state of its nodes, at one moment.
type Stats struct {
	Held         int         // locks held now
	Acquired     uint64      // locks acquired, including those of Adopt
	Taken        uint64      // rounds that a quorum did not grant
	NoQuorum     uint64      // rounds that too few nodes answered
	NoValidity   uint64      // rounds that won too late
	Renewed      uint64      // extensions that won
	Lost         uint64      // locks that ended without being released
	Waiting      int         // calls of Lock, RLock, LockAll, LockAny, Do and Acquire that wait now
	Waits        uint64      // how many such calls did not get the lock at once
	HandedOver   uint64      // votes that our releases gave to waiters, here or elsewhere
	Woken        uint64      // how often a vote that was handed over woke a waiter of ours
	Polls        uint64      // how often a waiter asked again without being woken
	Split        uint64      // rounds that some nodes granted, but a quorum of nodes did not
	SecondRounds uint64      // fencing tokens that took a second round
	HooksDropped uint64      // calls of hooks dropped because too many were outstanding
	Cluster      string      // by whose list of members votes count; empty while none is known
	Version      int64       // of that list; 0 while none is known
	Members      int         // masters of which a majority is a quorum; without a cluster, the endpoints
	Nodes        []NodeStats // in the order of the endpoints; then members that the Locker's list lacks
}

// Quorum returns how many votes make a quorum.
func (s *Stats) Quorum() int { return quorum.Need(s.Members) }

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

type counts struct {
	acquired, taken, noQuorum, noValidity, renewed, lost atomic.Uint64
	handedOver, split, secondRounds                      atomic.Uint64
	parts                                                atomic.Int64
}

func (c *counts) notAcquired(reason error) {
	switch {
	case errors.Is(reason, ErrTaken):
		c.taken.Add(1)
	case errors.Is(reason, ErrNoQuorum):
		c.noQuorum.Add(1)
	case errors.Is(reason, ErrNoValidity):
		c.noValidity.Add(1)
	}
}

// Stats returns the current figures.
func (l *Locker) Stats() Stats {
	s := Stats{
		Held:         max(l.expiry.Len()-int(l.counts.parts.Load()), 0),
		Acquired:     l.counts.acquired.Load(),
		Taken:        l.counts.taken.Load(),
		NoQuorum:     l.counts.noQuorum.Load(),
		NoValidity:   l.counts.noValidity.Load(),
		Renewed:      l.counts.renewed.Load(),
		Lost:         l.counts.lost.Load(),
		Waiting:      int(l.desk.Counts.Waiting.Load()),
		Waits:        l.desk.Counts.Waits.Load(),
		HandedOver:   l.counts.handedOver.Load(),
		Woken:        l.desk.Counts.Woken.Load(),
		Polls:        l.desk.Counts.Polls.Load(),
		Split:        l.counts.split.Load(),
		SecondRounds: l.counts.secondRounds.Load(),
	}
	view := l.members.View()
	if s.Members = view.Seats(); view.Roster != nil {
		s.Cluster, s.Version = view.Roster.Cluster, view.Roster.Version.Number
	}
	for i := range l.nodes() {
		s.Nodes = append(s.Nodes, l.nodeStats(i))
	}
	if l.events != nil {
		s.HooksDropped = l.events.dropped.Load()
	}
	return s
}

func (l *Locker) nodeStats(i int) NodeStats {
	s := NodeStats{Stats: pool.Stats(l.nodes()[i].Stats()), Barred: l.members.Why(i), Memory: l.members.Memory(i), QuarantinedFor: l.members.QuarantinedFor(i)}
	s.Listed = l.members.Listed(i)
	s.Unidentified = s.State == pool.Up && s.RunID == ""
	return s
}
