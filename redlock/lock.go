package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/schedule"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Lock is one acquisition. Its methods may be called from any goroutine. It must not be copied.
type Lock struct {
	locker   *Locker
	key      [1]string // prefix and name of a mutex, or of a reader
	kind     kind
	value    string
	claim    wire.Claim    // of one name; guarded by mu once the lock is held
	acquired clock.Instant // when its round began
	renews   bool
	guards   bool // a function of Do: see release.go
	fenced   bool
	office   bool // see door.Office
	noted    bool // by WithHistory
	listed   bool // may be on wait lists; guarded by mu once the lock is held
	part     bool // one name of a set that waits for the others: no caller has it
	intent   bool // of a writer: it may keep readers out of the nodes

	// fence is the token. Until there is one it is the wall clock in microseconds when the round
	// began; 0 without fencing.
	fence int64

	expires schedule.Entry // of Locker.expiry
	renewal schedule.Entry // of Locker.renewals

	mu        sync.Mutex // guards the fields below; held while a round is sent, not while awaited
	state     state
	extending bool                         // an extension is under way
	minHold   uint32                       // milliseconds, by WithMinHold; never changes
	ttl       time.Duration                // as the nodes know it
	timeout   time.Duration                // how long its rounds wait for a node
	until     clock.Instant                // end of validity
	heldUntil clock.Instant                // by WithMaxHold; schedule.Never without
	mayHold   quorum.NodeSet               // nodes that have, may have or may yet get our value
	denials   quorum.Denials               // by nodes that were asked to extend it
	epoch     uint64                       // of the membership, when the round that holds it began
	tried     *extension                   // the last one, unless a quorum granted it; for the reason
	err       error                        // why it is no longer held
	done      chan struct{}                // closed when err is set; nil until Done is first called
	extended  chan struct{}                // closed when the extension ends; nil while not awaited
	contexts  map[<-chan struct{}]*derived // cancelled at the end; keyed by their parents' Done
	release   *round.Round                 // nil until the releases are sent
}

// state is where a lock is in its life:
//
//	held ──Unlock, Close──▶ released
//	  └──validity ends, or a quorum says no──▶ lost
//
// Both ends are final. Unlock of a lost lock sends the releases, and the lock stays lost.
type state uint8

const (
	held state = iota
	released
	lost
)

// move is the only way from one state to another. Any other transition is a bug in this package.
func (s *state) move(to state) {
	if *s == held && (to == released || to == lost) {
		*s = to
		return
	}
	panic(fmt.Sprintf("redlock: a lock cannot go from %v to %v", *s, to))
}

func (s state) String() string {
	switch s {
	case held:
		return "held"
	case released:
		return "released"
	case lost:
		return "lost"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// derived is a context that ends with a lock or with its parent. All other contexts with the same
// parent Done share it: a value on top of a context, as each task or span has one, does not change
// when the context ends. With one registration for all of them, a lock that is held for months does
// not accumulate one for each task.
type derived struct {
	ctx    context.Context //nolint:containedctx // it is handed out
	cancel context.CancelCauseFunc
}

// kind is what a lock is: a mutex, names (all of several), choice (the first free one of several),
// reader or permit. It has every operation in which they differ; the others embed mutex and
// override what differs. Rounds, votes, validity, renewal and undo are the same for all.
type kind interface {
	fresh() kind // for the lock of another attempt of the same call

	nameOf(lock *Lock) string
	namesOf(lock *Lock) []string
	keysOf(lock *Lock) []string
	queueOf(lock *Lock) []string // the keys of the waiters for the lock

	// acquire asks all nodes for the lock; for a certain one of several, counted from 1, or for any
	// (0). Turn says that a vote was handed over.
	acquire(lock *Lock, one int, turn bool) pipeline.Request

	// wanted says what else than its names a call waits for.
	wanted(w *wait.Wanted)

	// wait asks the coordinator for the lock, or for a place on its wait list; answer reads its
	// reply.
	wait(lock *Lock, ask *wire.Wait, turn bool) pipeline.Request
	answer(reply any) wire.WaitReply

	// chooses reports whether nodes may give the lock different keys. Then a round that was won
	// tells which of them it has (take), strays gives back the others, if there are any, and a lock
	// that was not taken has all of them again, for its release (untake).
	chooses() bool
	take(lock *Lock, r *round.Round)
	strays(lock *Lock) (_ pipeline.Request, some bool)
	untake(lock *Lock)

	// refused returns why a round was denied, or nil if because somebody else has the lock.
	refused(lock *Lock, r *round.Round) error

	// settle finds the fencing token of a round that was won, by second rounds (raise) if need be.
	settle(ctx context.Context, lock *Lock, r *round.Round) (told *round.Round, reason, ended error)
	raise(lock *Lock, token int64) pipeline.Request

	// extend adds the lock to an extension.
	extend(lock *Lock, x *wire.Extension, now clock.Instant)
	verify(lock *Lock) pipeline.Request
	prefer(lock *Lock, p *wire.Prefer) pipeline.Request
	release(lock *Lock) pipeline.Request
}

func (lock *Lock) expiryEntry() *schedule.Entry  { return &lock.expires }
func (lock *Lock) renewalEntry() *schedule.Entry { return &lock.renewal }

// keys returns the keys of all names of the lock. They must not be changed.
func (lock *Lock) keys() []string { return lock.kind.keysOf(lock) }

// Name returns the name that the lock was acquired by; for a set, the first. For a permit of a
// [Semaphore] it is the name of its slot.
func (lock *Lock) Name() string { return lock.kind.nameOf(lock) }

// Names returns all names of the lock, in the order in which they were given.
func (lock *Lock) Names() []string { return slices.Clone(lock.kind.namesOf(lock)) }

// Value returns what the nodes hold under the lock's key. Anyone who knows it can release the lock.
func (lock *Lock) Value() string { return lock.value }

// grace is how long a waiter that is handed what the lock had has to confirm it.
func (lock *Lock) grace() time.Duration { return lock.locker.config.grace(lock.timeout) }

// process names this process on the wait lists that the lock may be on; "" if it is on none.
func (lock *Lock) process() string {
	if !lock.listed {
		return ""
	}
	return lock.locker.waiters.Subscriptions.Process()
}

// A lock with a minimum hold d (WithMinHold) keeps its name taken until acquired + d, however it
// ends: S30 (docs/safety.md).
//
//   - Every node that grants it sets the key for d or longer, and every extension gives the key the
//     rest or more. So a process that dies and a lock that is lost need no further message.
//   - A release within d gives the keys the rest (retain.lua) instead of deleting them. That only
//     shortens what an extension with a longer TTL has set.
//   - Only a lock that was held leaves a rest. An attempt that failed is undone as without it.
//
// Errors of time are late. Acquired is read before the first byte is sent, and a node counts d from
// when it runs the SET. The rest is computed when the release is written, by the clock that counts
// suspends, is rounded up to a millisecond, and counts from when the node runs it. A release that
// is written again, because the connection broke or the node was away, gets what is left then;
// after the end it deletes. If a node runs a release late all the same, the key's own end still
// applies (retain.lua). Only a node whose clock is faster than ours is early, by the drift of A1
// over d.
//
// If a quorum says that the lock is gone, an operator forced it or somebody adopted it. Nodes that
// had deleted it may have been healed. Then the release deletes, so that the name is free after
// ForceUnlock.

// life returns how long a node that grants the lock keeps the key.
func (lock *Lock) life() time.Duration { return max(lock.ttl, lock.minimum()) }

// lifeAt returns how long a node that is asked at an instant must keep the key of a held lock.
func (lock *Lock) lifeAt(now clock.Instant) time.Duration {
	return max(lock.ttl, ceilMillis(lock.acquired.Add(lock.minimum()).Sub(now)))
}

func (lock *Lock) minimum() time.Duration { return time.Duration(lock.minHold) * time.Millisecond }

// boundedLocked returns a validity, cut to the maximum hold.
func (lock *Lock) boundedLocked(until clock.Instant) clock.Instant { return min(until, lock.heldUntil) }

// fencing makes a script raise the fences, with [WithFencing]. All nodes get the same time, even if
// one is asked before the others: otherwise their fences would differ, which takes a second round.
func (lock *Lock) fencing() wire.Fencing {
	if !lock.fenced {
		return wire.Fencing{}
	}
	return wire.Fencing{Wall: lock.fence, Life: lock.locker.config.fenceLife()}
}

// Fence returns the fencing token of the lock, or 0 without [WithFencing]. Of two locks of one
// name, the one that was acquired later has the larger token, whatever the clocks of clients did,
// and that of one master of three or more while the others are up. The protected resource remembers
// the largest token that it has seen and refuses smaller ones. That protects it from a holder that
// was paused beyond its validity and does not know it yet.
//
// A token is about the time in microseconds since 1970, and below 2^53, so it is exact even where
// numbers are doubles. The token of a set is larger than all earlier tokens of each of its names.
func (lock *Lock) Fence() int64 { return lock.fence }

// mutex is the kind of a lock of one name, and what the other kinds have in common with it.
type mutex struct{}

func (mutex) fresh() kind                 { return mutex{} }
func (mutex) nameOf(lock *Lock) string    { return lock.key[0][len(lock.locker.config.keyPrefix):] }
func (mutex) namesOf(lock *Lock) []string { return []string{lock.Name()} }
func (mutex) keysOf(lock *Lock) []string  { return lock.key[:] }
func (mutex) queueOf(lock *Lock) []string { return lock.keys() }

// A writer that has met readers keeps new ones out if it is refused.
func (mutex) acquire(lock *Lock, _ int, _ bool) pipeline.Request {
	if lock.intent {
		return wire.Announce(lock.key[0], lock.value, lock.life(), wait.IntentLife, lock.fencing())
	}
	return wire.Acquire(&lock.claim, lock.key[:], lock.value, lock.life(), lock.fencing())
}

func (mutex) wanted(*wait.Wanted) {}

func (mutex) wait(lock *Lock, ask *wire.Wait, _ bool) pipeline.Request {
	if lock.intent {
		ask.Intent = wait.IntentLife
	}
	return ask.Request()
}

func (mutex) answer(reply any) wire.WaitReply              { return wire.ReadWait(reply) }
func (mutex) chooses() bool                                { return false }
func (mutex) take(*Lock, *round.Round)                     {}
func (mutex) untake(*Lock)                                 {}
func (mutex) refused(*Lock, *round.Round) error            { return nil }
func (mutex) strays(*Lock) (_ pipeline.Request, some bool) { return pipeline.Request{}, false }

func (mutex) settle(ctx context.Context, lock *Lock, r *round.Round) (told *round.Round, reason, ended error) {
	return lock.settleFence(ctx, r)
}

func (mutex) raise(lock *Lock, token int64) pipeline.Request {
	return wire.Raise(lock.keys(), lock.value, token, lock.locker.config.fenceLife())
}

func (mutex) extend(lock *Lock, x *wire.Extension, now clock.Instant) {
	x.Add(lock.keys(), lock.value, lock.lifeAt(now))
}

func (mutex) prefer(_ *Lock, p *wire.Prefer) pipeline.Request { return p.Request() }

func (mutex) verify(lock *Lock) pipeline.Request { return wire.Verify(lock.keys(), lock.value) }

func (mutex) release(lock *Lock) pipeline.Request {
	if lock.intent {
		return wire.ReleaseAnnounced(lock.keys(), lock.value, lock.grace(), lock.process())
	}
	return wire.Release(&lock.claim, lock.keys(), lock.value, lock.grace(), lock.process())
}
