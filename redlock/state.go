package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
)

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
// Remaining, it reads the clock. If the lock was lost after an extension that no quorum granted, or
// a quorum denied it, the error is a [*QuorumError] with what each node said.
func (lock *Lock) Err() error {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	return lock.err
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

// expireLocked moves a held lock to lost when its validity has ended. Everything that uses or
// reports the state calls it first, so the truth does not depend on a timer having run.
func (lock *Lock) expireLocked(now clock.Instant) {
	switch {
	case lock.state != held || now < lock.until:
	case now >= lock.heldUntil:
		lock.endLocked(lost, errMaxHold)
	default:
		lock.endLocked(lost, lock.becauseLocked(errExpired))
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
	lock.err, lock.tried = reason, nil
	if lock.done != nil {
		close(lock.done)
	}
	for _, d := range lock.contexts {
		d.cancel(reason)
	}
	lock.locker.expiry.Remove(lock)
	lock.locker.renewals.Remove(lock)
	if lock.noted && !lock.part {
		lock.noteEnded(to, reason)
	}
	switch l := lock.locker; {
	case lock.part:
		l.counts.parts.Add(-1)
	case to == lost:
		l.events.lost(lock, reason)
		l.counts.lost.Add(1)
		l.logLoss(lock, reason)
	default:
		l.events.released(lock)
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
