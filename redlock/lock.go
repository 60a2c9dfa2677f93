package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/schedule"
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
	reused   bool // the caller chose the value: another lock may have had it
	guards   bool // a function of Do: see do.go
	fenced   bool
	listed   bool // may be on wait lists
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
	healing   bool                         // an extension may have given nodes back the key
	minHold   uint32                       // milliseconds, by WithMinHold; never changes
	ttl       time.Duration                // as the nodes know it
	timeout   time.Duration                // how long its rounds wait for a node
	until     clock.Instant                // end of validity
	heldUntil clock.Instant                // by WithMaxHold; schedule.Never without
	touched   quorum.NodeSet               // nodes that have, may have or may yet get our value
	epoch     uint64                       // of the membership, when the round that holds it began
	err       error                        // why it is no longer held
	done      chan struct{}                // closed when err is set; nil until Done is first called
	extended  chan struct{}                // closed when the extension ends; nil while not awaited
	contexts  map[<-chan struct{}]*derived // cancelled at the end; keyed by their parents' Done
	release   *round.Round                 // nil until the releases are sent
}

func (lock *Lock) expiryEntry() *schedule.Entry  { return &lock.expires }
func (lock *Lock) renewalEntry() *schedule.Entry { return &lock.renewal }

// begin notes that the round that acquires the lock begins now. It is called before the first byte
// is sent, so every node counts the TTL from a later moment.
func (lock *Lock) begin(now clock.Instant, maxHold time.Duration) {
	l := lock.locker
	lock.epoch, lock.acquired = l.members.Epoch(), now
	if lock.fenced {
		lock.fence = l.clock.Wall().UnixMicro()
	}
	if maxHold > 0 {
		lock.heldUntil = lock.acquired.Add(maxHold)
	}
}

// grace is how long a waiter that is handed what the lock had has to confirm it.
func (lock *Lock) grace() time.Duration { return lock.locker.config.grace(lock.timeout) }

// boundedLocked returns a validity, cut to the maximum hold.
func (lock *Lock) boundedLocked(until clock.Instant) clock.Instant { return min(until, lock.heldUntil) }

// Value returns what the nodes hold under the lock's key. Anyone who knows it can release the lock.
func (lock *Lock) Value() string { return lock.value }

// Remaining returns how much validity is left. It reads the clock at each call, because the machine
// may have slept. Zero or less means that the lock is not held.
func (lock *Lock) Remaining() time.Duration {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := lock.locker.clock.Now()
	lock.expireLocked(now)
	left := lock.until.Sub(now)
	if lock.state != held {
		return min(left, 0)
	}
	return left
}

// Until returns when the validity ends by the wall clock, for logs. For decisions use
// [Lock.Remaining], which clock changes do not affect.
func (lock *Lock) Until() time.Time {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	clk := lock.locker.clock
	return clk.Wall().Add(lock.until.Sub(clk.Now()))
}

// Done returns a channel that is closed when the lock is no longer held: when it is released, or at
// the end of its validity by the local clock, whatever the network does.
func (lock *Lock) Done() <-chan struct{} {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if lock.done == nil {
		lock.done = make(chan struct{})
		if lock.err != nil {
			close(lock.done)
		}
	}
	lock.expireLocked(lock.locker.clock.Now())
	return lock.done
}

// Err returns nil while the lock is held, then [ErrLost] with the reason, or [ErrReleased]. Like
// Remaining, it reads the clock.
func (lock *Lock) Err() error {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	return lock.err
}

// expireLocked moves a held lock to lost when its validity has ended. Everything that uses or
// reports the state calls it first, so the truth does not depend on a timer having run.
func (lock *Lock) expireLocked(now clock.Instant) {
	switch {
	case lock.state != held || now < lock.until:
	case now >= lock.heldUntil:
		lock.endLocked(lost, errMaxHold)
	default:
		lock.endLocked(lost, errExpired)
	}
}

// expire is called by the expiry schedule when the validity that it knew of has ended.
func (lock *Lock) expire(now clock.Instant) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(now)
}

// nodesForgot is called when a node has restarted and forgotten its keys. The lock is lost when a
// quorum has since it was last confirmed.
func (lock *Lock) nodesForgot() {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	l := lock.locker
	if lock.state == held && l.members.ForgottenSince(lock.epoch) >= l.members.View().Need() {
		lock.endLocked(lost, errForgot)
	}
}

// endLocked moves a held lock to its end and tells everyone who waits for that.
func (lock *Lock) endLocked(to state, reason error) {
	lock.state.move(to)
	lock.err = reason
	if lock.done != nil {
		close(lock.done)
	}
	for _, d := range lock.contexts {
		d.cancel(reason)
	}
	lock.locker.expiry.Remove(lock)
	lock.locker.renewals.Remove(lock)
	lock.locker.events.over(lock, to, reason)
	if lock.part {
		lock.locker.counts.parts.Add(-1)
	} else if to == lost {
		lock.locker.counts.lost.Add(1)
		lock.locker.logLoss(lock, reason)
	}
	if to == lost {
		lock.planUndoLocked(reason)
	}
}

// planUndoLocked makes sure that a lost lock does not stay on nodes that keep it for longer than
// its validity: nodes that an extension reached while the others were away, and nodes that were
// stopped and execute what they were sent when they continue. If a quorum says that the lock is not
// ours, it is released at once. If its validity ended, it is released once all other nodes have
// forgotten it too: the time until then, the allowance for drift, lets the holder notice.
func (lock *Lock) planUndoLocked(reason error) {
	if errors.Is(reason, errGone) || errors.Is(reason, errForgot) {
		lock.undoNowLocked()
		return
	}
	lock.locker.renewals.Add(lock, lock.undoAtLocked())
}

func (lock *Lock) undoAtLocked() clock.Instant {
	return lock.until.Add(lock.locker.config.drift.Of(lock.ttl))
}

func (lock *Lock) undoNowLocked() *round.Round {
	u := lock.newLastReleaseLocked(round.Spec{Rule: quorum.DecideHeld})
	lock.undoLocked(u, lock.mayHoldLocked(), lock.locker.clock.Now().Add(lock.timeout))
	return u
}

// mayHoldLocked returns the nodes that a release must reach, now or later. While an extension is
// under way these are all nodes, because it may give the key to nodes that never had it.
func (lock *Lock) mayHoldLocked() quorum.NodeSet {
	if lock.extending {
		return quorum.All(len(lock.locker.nodes()))
	}
	return lock.touched
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

// Context returns a context for the work that the lock protects: a child of parent that ends when
// the lock is no longer held. context.Cause then returns [ErrLost] or [ErrReleased]. Like any
// context, it cannot stop work that does not check it. There is no need to cancel it: contexts
// whose parents end together share their cost, which is freed when the parents or the lock end.
func (lock *Lock) Context(parent context.Context) context.Context {
	done := parent.Done()
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	if d := lock.contexts[done]; d != nil {
		return &sharing{Context: parent, derived: d}
	}
	d := &derived{}
	d.ctx, d.cancel = context.WithCancelCause(parent)
	if lock.err != nil {
		d.cancel(lock.err)
		return d.ctx
	}
	if lock.contexts == nil {
		lock.contexts = make(map[<-chan struct{}]*derived)
	}
	lock.contexts[done] = d
	context.AfterFunc(d.ctx, func() { // a parent may end long before the lock
		lock.mu.Lock()
		defer lock.mu.Unlock()
		if lock.contexts[done] == d {
			delete(lock.contexts, done)
		}
	})
	return d.ctx
}

// derived is a context that ends with a lock or with its parent. All other contexts with the same
// parent Done share it: a value on top of a context, as each task or span has one, does not change
// when the context ends. With one registration for all of them, a lock that is held for months does
// not accumulate one for each task.
type derived struct {
	ctx    context.Context //nolint:containedctx // it is handed out
	cancel context.CancelCauseFunc
}

// sharing is a context that ends with a derived one, and has the values and the deadline of its own
// parent. Only its user refers to it, so it is collected when it is no longer used.
type sharing struct {
	context.Context //nolint:containedctx // the parent, as in the contexts of the standard library

	derived *derived
}

// Done is closed when the lock or the parent ends.
func (s *sharing) Done() <-chan struct{} { return s.derived.ctx.Done() }

// Err returns why it ended, or nil.
func (s *sharing) Err() error { return s.derived.ctx.Err() }

// Value returns the parent's value. Package context uses a key of its own to find what cancels a
// context; a derived context answers that key, and only that key, with itself. So context.Cause and
// children work as with any context that the package made.
func (s *sharing) Value(key any) any {
	if v := s.derived.ctx.Value(key); v == s.derived.ctx {
		return v
	}
	return s.Context.Value(key)
}
