package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
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
	return l.attempt(ctx, []string{name}, &cfg)
}

// Lock acquires the lock, and waits for it as long as ctx allows; ctx bounds the wait only, not the lock. It also goes on
// while no quorum of nodes answers. When ctx ends, the error matches that of ctx and the last reason why the lock was not
// had, [ErrTaken] for one.
//
// Those who wait for a name get it in the order in which they came: exactly within a Locker, and nearly so between
// Lockers, as long as they reach the same nodes. The release hands the lock over, so nobody has to poll; [WithRetry] is for when
// messages do not come.
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return l.wait(ctx, []string{name}, &cfg)
}

// wait takes a place in the line for the names, and when it is the first there seeks the lock: with a round like that of TryLock, and
// where somebody else has it, as a waiter.
func (l *Locker) wait(ctx context.Context, names []string, cfg *lockConfig) (*Lock, error) {
	if !l.enter() {
		return nil, ErrClosed
	}
	defer l.leave()
	since, line := l.clock.Now(), lineOf(names)
	place := l.lines.join(line)
	defer l.lines.leave(line, place)
	if place == nil && len(names) == 1 {
		l.sure(ctx, names[0])
	}
	if place == nil && !l.lines.contended(l.config.keyPrefix, names) {
		cfg.yields = true
		lock, err := l.attempt(ctx, names, cfg)
		cfg.yields = false
		var failure *QuorumError
		if !errors.As(err, &failure) || failure.ended != nil {
			return lock, err
		}
		return l.waitOn(ctx, newWaiter(l, names, line, cfg, since), nil, failure)
	}
	return l.waitOn(ctx, newWaiter(l, names, line, cfg, since), place, nil)
}

// waitOn is the rest of wait for those who did not get the lock at once.
func (l *Locker) waitOn(ctx context.Context, w *waiter, place *place, failure *QuorumError) (*Lock, error) {
	l.counts.waits.Add(1)
	l.counts.waiting.Add(1)
	defer l.counts.waiting.Add(-1)
	l.events.waiting(w.names[0])
	if failure != nil {
		w.note(failure)
	}
	if place != nil {
		select {
		case <-place.turn:
		case <-ctx.Done():
			return nil, waitEnded(l.lines.trouble(w.line), endOf(ctx))
		case <-l.closing:
			return nil, ErrClosed
		}
	}
	lock, err := w.seek(ctx)
	if err == nil {
		l.events.waited(lock, l.clock.Now().Sub(w.since))
	}
	return lock, err
}

// lineOf is the same for the same names in the same order, and for no others.
func lineOf(names []string) lineName {
	if len(names) == 1 {
		return lineName{1, names[0]}
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString(strconv.Itoa(len(name)))
		text.WriteByte(':')
		text.WriteString(name)
	}
	return lineName{len(names), text.String()}
}

// whyEnded returns why a wait ended early: the Locker was closed, or ctx ended.
func (l *Locker) whyEnded(ctx context.Context) error {
	select {
	case <-l.closing:
		return ErrClosed
	default:
		return endOf(ctx)
	}
}

// endOf returns the error of a context that ended, and its cause where it has one of its own.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// waitEnded joins why a wait ended and what it had come to.
func waitEnded(last *QuorumError, why error) error {
	if last == nil || errors.Is(why, ErrClosed) {
		return why
	}
	told := *last
	told.ended = why
	return &told
}

// attempt is one round: send, count, decide; and where it is not won, undo.
func (l *Locker) attempt(ctx context.Context, names []string, cfg *lockConfig) (*Lock, error) {
	if !l.enter() {
		return nil, ErrClosed
	}
	defer l.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: acquire %q: %w", names[0], endOf(ctx))
	}
	lock := newLock(l, names, cfg)
	deadline := l.clock.Now().Add(lock.timeout)
	l.settle(ctx, lock.timeout)
	epoch := l.voters.now()
	lock.begin(epoch, l.clock.Now(), cfg.maxHold) // before the first byte is sent: every node counts the TTL from a later moment
	r := lock.newAcquire()
	r.send(l, deadline, 0)
	return l.conclude(ctx, lock, r, cfg)
}

// conclude waits for the verdict of an attempt's round. The lock is held then, or undone.
func (l *Locker) conclude(ctx context.Context, lock *Lock, r *round, cfg *lockConfig) (*Lock, error) {
	v, ended := r.wait(ctx)
	var reason error
	switch v {
	case won:
		reason, ended = lock.settle(ctx, r)
		if reason == nil && ended == nil {
			reason = l.take(lock, r, cfg)
		}
		if reason == nil && ended == nil {
			if !lock.part {
				l.counts.acquired.Add(1)
			}
			return lock, nil
		}
	case denied:
		reason = ErrTaken
		if !lock.listed { // else a pilot was asked first, and that is not to count
			l.shunned.took(l.clock.Now().Sub(lock.acquired))
		}
		if r.granting() {
			l.counts.split.Add(1)
		}
	case noQuorum:
		reason = ErrNoQuorum
	case pending: // ctx ended
	}
	u := lock.newRelease()
	if v == denied {
		r.hearAgain(u)
	}
	// Within the one node timeout that the caller was promised. A release that this cuts short goes to a node that
	// refused; the others are kept.
	lock.mu.Lock()
	lock.undoLocked(u, r.mayHold(), r.request.Deadline)
	lock.mu.Unlock()
	if v == denied && !l.taken(ctx, r, u) {
		reason = ErrNoQuorum
	}
	if l.isClosed() {
		return nil, ErrClosed
	}
	err := r.failure(l, "acquire", lock.names[0], reason, ended)
	if !lock.part {
		l.counts.notAcquired(err)
		l.events.refused(lock.names[0], err)
	}
	return nil, err
}

// take makes a lock that a quorum granted one that is held, or says why not: too little validity is left, or the Locker was closed.
func (l *Locker) take(lock *Lock, r *round, cfg *lockConfig) error {
	if cfg.yields && l.lines.contended(l.config.keyPrefix, lock.names) {
		// A release of ours that was still under way when this began gave the lock to a waiter, whom we overtook.
		return ErrTaken
	}
	lock.mu.Lock() // from heldBy on, refusals reach the lock
	lock.until = lock.boundedLocked(l.config.drift.Validity(lock.acquired, lock.ttl))
	touched, refused := r.heldBy(lock)
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

// newAcquire returns the round of an attempt: SET key value NX PX ttl; for a set of names or with fencing, a script that does the like.
func (lock *Lock) newAcquire() *round {
	ttlMillis := lock.ttl.Milliseconds()
	r := &round{rule: decideAcquire, decided: make(chan struct{}), read: readGrant}
	if len(lock.keys) == 1 && !lock.fenced {
		r.request = pipeline.Request{
			Name: "SET", Args: []any{lock.keys[0], lock.valueArg, "NX", "PX", ttlMillis}, Key: lock.key(), Accept: isSetReply,
			Prove: lock.locker.voters.proves(),
		}
		return r
	}
	args := append([]any{lock.valueArg, ttlMillis}, lock.fenceArgs()...)
	r.request = pipeline.Request{Script: acquireScript, Args: acquireScript.Args(nil, lock.keys, args...), Accept: isGrant, Prove: lock.locker.voters.proves()}
	if len(lock.keys) == 1 {
		r.request.Key = lock.key()
	}
	if lock.fenced {
		r.rare = &rare{fences: make([]int64, len(lock.locker.nodes))}
	}
	return r
}

// SET with NX answers OK, or nil where the key exists.
func isSetReply(reply any) bool { return reply == nil || reply == "OK" }

// undoLocked releases what an attempt has, may have, or may yet be granted: on every node, in the background, with a bound of its own,
// whatever became of the caller's context. Where the SET is still without an answer the release is behind it on the same
// connection; where the connection broke, the node delivers it before anything else when it is back.
func (lock *Lock) undoLocked(u *round, mayHold uint64, deadline clock.Instant) {
	l := lock.locker
	l.enterAnyway()
	u.locker = l
	u.send(l, deadline, mayHold)
}
