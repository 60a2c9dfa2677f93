package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TryLock acquires the lock if it is free, with one round and without waiting for anyone who holds
// it. Any bytes make a name, 1 to 4,096 of them; but no key, prefix and name, begins with
// "redquorum:". It returns within the node timeout, or when ctx ends. It has no place among those
// who wait with Lock, and may come before one of them while the lock is on its way there: a few
// times in one wait at most, all callers taken together, where all clients use this library and
// messages arrive.
//
// Errors: [ErrTaken], [ErrNoQuorum] and [ErrNoValidity] in a [*QuorumError]; [ErrInvalid]; [ErrClosed]; and the error
// of a ctx that ended. After each of them everything that was or may have been granted is being released.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return l.tryAcquire(ctx, []string{name}, &cfg)
}

// tryAcquire is one attempt, a round: send, count, decide; and where it is not won, undo.
func (l *Locker) tryAcquire(ctx context.Context, names []string, cfg *lockConfig) (*Lock, error) {
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: acquire %q: %w", names[0], round.EndOf(ctx))
	}
	lock := newLock(l, names, cfg)
	deadline := l.clock.Now().Add(lock.timeout)
	l.awaitVoters(ctx, lock.timeout)
	lock.begin(cfg.maxHold)
	r := lock.newAcquire()
	r.Send(deadline, 0)
	return l.finish(ctx, lock, r, cfg)
}

// finish waits for the verdict of an attempt's round. The lock is held then, or undone.
func (l *Locker) finish(ctx context.Context, lock *Lock, r *round.Round, cfg *lockConfig) (*Lock, error) {
	v, ended := r.Wait(ctx)
	var reason error
	switch v {
	case quorum.Won:
		reason, ended = lock.settleFence(ctx, r)
		if reason == nil && ended == nil {
			reason = l.take(lock, r, cfg)
		}
		if reason == nil && ended == nil {
			if !lock.part {
				l.counts.acquired.Add(1)
			}
			return lock, nil
		}
	case quorum.Denied:
		reason = ErrTaken
		if !lock.listed { // otherwise a pilot was asked first, and that must not count
			l.desk.Pilots.Took(l.clock.Now().Sub(lock.acquired))
		}
		if !r.Granted().Empty() {
			l.counts.split.Add(1)
		}
	case quorum.NoQuorum:
		reason = ErrNoQuorum
	case quorum.Pending: // ctx ended
	}
	u := lock.newRelease(quorum.DecideHeld)
	if v == quorum.Denied {
		r.ConfirmRefusals(u)
	}
	// Within the one node timeout that the caller was promised. A release that this cuts short goes to a node that
	// refused; the others are kept.
	lock.mu.Lock()
	lock.undoLocked(u, r.MayHold(), r.Deadline())
	lock.mu.Unlock()
	if v == quorum.Denied && !r.RefusalsConfirmed(ctx, u) {
		reason = ErrNoQuorum
	}
	if l.life.isClosed() {
		return nil, ErrClosed
	}
	err := l.failure(r, "acquire", lock.names[0], reason, ended)
	if !lock.part {
		l.counts.notAcquired(err)
		l.events.refused(lock.names[0], err)
	}
	return nil, err
}

// take makes a lock that a quorum granted one that is held, or says why not: too little validity is left, or the Locker was closed.
func (l *Locker) take(lock *Lock, r *round.Round, cfg *lockConfig) error {
	if cfg.yields && l.desk.Record.Contended(l.config.keyPrefix, lock.names) {
		// A release of ours that was still under way when this began gave the lock to a waiter, whom we overtook.
		return ErrTaken
	}
	lock.mu.Lock() // from Hold on, refusals reach the lock
	lock.until = lock.boundedLocked(l.config.drift.Validity(lock.acquired, lock.ttl))
	touched, refused := r.Hold((*lockObserver)(lock))
	lock.touched = touched
	lock.mu.Unlock()
	l.overtook(lock, refused)
	if lock.until.Sub(l.clock.Now()) <= cfg.minValidity {
		return ErrNoValidity
	}
	if !l.hold(lock) {
		return ErrClosed
	}
	return nil
}

// newAcquire returns the round of an attempt.
func (lock *Lock) newAcquire() *round.Round {
	request := wire.Acquire(lock.keys, lock.valueArg, lock.ttl, lock.fencing())
	return lock.newGrant(request, quorum.DecideAcquire)
}

// newGrant returns a round by which the lock may be won.
func (lock *Lock) newGrant(request pipeline.Request, rule round.Rule) *round.Round {
	r := round.New(lock.locker.members, request, wire.Grant, rule).Announce()
	if lock.fenced {
		r.CollectFences()
	}
	return r
}

// undoLocked releases what an attempt has, may have, or may yet be granted: on every node, in the background, with a bound of its own,
// whatever became of the caller's context. Where the SET is still without an answer the release is behind it on the same
// connection; where the connection broke, the node delivers it before anything else when it is back.
func (lock *Lock) undoLocked(u *round.Round, mayHold quorum.NodeSet, deadline clock.Instant) {
	l := lock.locker
	l.life.enterAnyway()
	u.Observe((*releaseObserver)(l))
	u.Send(deadline, mayHold)
}
