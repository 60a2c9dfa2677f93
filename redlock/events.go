package redlock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Hooks are functions that a [Locker] calls for what happens to its locks and nodes; each may be
// nil. One goroutine per Locker calls them, one at a time, in the order in which things happened.
// For one lock: Acquired, then Waited if Lock did not get it at once, then Renewed any number of
// times, or Unrenewed, and finally Lost or Released. Refused is called for each round that asked
// all nodes and did not get the lock, also for those of a call that waits (but not for a first
// round that left it to a second one, for a permit or one of several names, nor where another wait
// of LockAny got its lock). Where there is no lock, a name is the first of several, and for a
// permit that of the semaphore.
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

	Renewed func(lock *Lock) // by renewal or Extend
	// Unrenewed: an extension, by renewal or Extend, got no quorum, and the lock is still held. Err
	// is a *QuorumError with what each node said. Renewal, unless it is off, tries again.
	Unrenewed func(lock *Lock, err error)
	Lost      func(lock *Lock, err error) // err as Lock.Err returns it
	Released  func(lock *Lock)            // by Unlock or Close; the nodes may not have answered yet

	// Members: votes count by this version of the cluster's list from now on, with so many members.
	Members func(cluster string, version int64, members int)
	// Node: err is nil if the node is up and its vote counts; otherwise it says why not.
	Node func(endpoint string, err error)
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

// span ends an operation; nil if it is not traced.
type span func(error)

func (s span) end(err error) {
	if s != nil {
		s(err)
	}
}

// firstOf returns the first name, for a tracer.
func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
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
	nodes [quorum.MaxNodes]reported
}

// reported is what was last reported of the node at a position, which another may take later.
type reported struct{ endpoint, state string }

// newEvents returns nil without hooks and logger.
func newEvents(hooks *Hooks, logger *slog.Logger) *events {
	if hooks == nil && logger == nil {
		return nil
	}
	e := &events{logger: logger, queue: make(chan func(), maxEvents), done: make(chan struct{})}
	if hooks != nil {
		e.hooks = *hooks
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
	if e != nil && e.hooks.Acquired != nil {
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

// wantsUnrenewed reports whether somebody is told of renewals that fail. The reason costs more to
// tell than the rest of a failure.
func (e *events) wantsUnrenewed() bool { return e != nil && e.hooks.Unrenewed != nil }

func (e *events) unrenewed(lock *Lock, err error) {
	e.add(func() { e.hooks.Unrenewed(lock, err) })
}

func (e *events) released(lock *Lock) {
	if e != nil && e.hooks.Released != nil {
		e.add(func() { e.hooks.Released(lock) })
	}
}

func (e *events) lost(lock *Lock, err error) {
	if e == nil {
		return
	}
	e.add(func() {
		if e.logger != nil {
			e.logger.Warn("lock lost", "name", lock.Name(), "reason", err)
		}
		if e.hooks.Lost != nil {
			e.hooks.Lost(lock, err)
		}
	})
}

// cluster reports that votes count by another version of the cluster's list.
func (e *events) cluster(r *record.Roster) {
	if e == nil {
		return
	}
	e.add(func() {
		if e.logger != nil {
			e.logger.Info("cluster", "id", r.Cluster, "version", r.Version.Number, "members", len(r.Members), "max_ttl", r.MaxTTL)
		}
		if e.hooks.Members != nil {
			e.hooks.Members(r.Cluster, r.Version.Number, len(r.Members))
		}
	})
}

// undelivered reports what Close could not deliver.
func (e *events) undelivered(err error) {
	if e != nil && e.logger != nil && err != nil {
		e.add(func() { e.logger.Warn("closed with undelivered releases", "reason", err) })
	}
}

// node reports a node's state if it has changed: up and voting, or why not. Barred is why its vote
// does not count, nil if it does.
func (e *events) node(i int, stats *pipeline.Stats, barred error) {
	if e == nil {
		return
	}
	now, err := "up", barred
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
	if e.nodes[i] == (reported{stats.Endpoint, now}) {
		return
	}
	e.nodes[i] = reported{stats.Endpoint, now}
	endpoint, runID, product, version := stats.Endpoint, stats.RunID, stats.Product, stats.Version
	e.addLocked(func() {
		switch {
		case e.logger == nil:
		case err == nil && runID == "":
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
