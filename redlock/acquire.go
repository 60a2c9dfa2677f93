package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// TryLock acquires the lock if it is free, with one round and without waiting for anyone who holds it. Any bytes make a name,
// 1 to 4,096 of them. It returns within the node timeout, or when ctx ends.
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
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return l.wait(ctx, []string{name}, &cfg)
}

// wait attempts until it has the lock or ctx ends.
func (l *Locker) wait(ctx context.Context, names []string, cfg *lockConfig) (*Lock, error) {
	pause := clock.Backoff{Shortest: cfg.retryMin, Longest: cfg.retryMax}
	var last *QuorumError
	began := l.clock.Now()
	for {
		lock, err := l.attempt(ctx, names, cfg)
		if err == nil {
			if last != nil {
				l.events.waited(lock, l.clock.Now().Sub(began))
			}
			return lock, nil
		}
		var failure *QuorumError
		if !errors.As(err, &failure) {
			return nil, waitEnded(last, err)
		}
		if last == nil || failure.ended == nil {
			last = failure // an attempt that ctx cut short says less than the one before
		}
		if failure.ended != nil || !l.sleep(ctx, pause.Next()) {
			return nil, waitEnded(last, l.whyEnded(ctx))
		}
	}
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
	epoch := l.voters.now()
	start := l.clock.Now() // before the first byte is sent: every node counts the TTL from a later moment
	lock.begin(epoch, start, cfg.maxHold)
	r := lock.sendAcquire(start)
	v, ended := r.wait(ctx)
	var reason error
	switch v {
	case won:
		if reason = l.take(lock, r, cfg); reason == nil {
			l.counts.acquired.Add(1)
			return lock, nil
		}
	case denied:
		reason = ErrTaken
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
	err := r.failure(l, "acquire", names[0], reason, ended)
	l.counts.notAcquired(err)
	l.events.refused(names[0], err)
	return nil, err
}

// take makes a lock that a quorum granted one that is held, or says why not: too little validity is left, or the Locker was closed.
func (l *Locker) take(lock *Lock, r *round, cfg *lockConfig) error {
	lock.until = lock.boundedLocked(l.config.drift.Validity(lock.acquired, lock.ttl))
	lock.touched = r.mayHold()
	if lock.until.Sub(l.clock.Now()) <= cfg.minValidity {
		return ErrNoValidity
	}
	if !l.hold(lock) {
		return ErrClosed
	}
	return nil
}

// sendAcquire sends SET key value NX PX ttl to every node; for a set of names, a script that does the like for all or none.
func (lock *Lock) sendAcquire(start clock.Instant) *round {
	ttlMillis := lock.ttl.Milliseconds()
	r := &round{rule: decideAcquire, decided: make(chan struct{})}
	if len(lock.keys) == 1 {
		r.request = pool.Request{
			Name: "SET", Args: []any{lock.keys[0], lock.valueArg, "NX", "PX", ttlMillis}, Key: lock.key, Accept: isSetReply,
		}
		r.read = readSet
	} else {
		r.request = pool.Request{
			Script: acquireScript, Args: acquireScript.Args(nil, lock.keys, lock.valueArg, ttlMillis), Accept: isInteger,
		}
		r.read = readOne
	}
	r.send(lock.locker, start.Add(lock.timeout), 0)
	return r
}

// SET with NX answers OK, or nil where the key exists.
func isSetReply(reply any) bool { return reply == nil || reply == "OK" }

func readSet(reply any) vote {
	if reply == nil {
		return refused
	}
	return granted
}

// undoLocked releases what an attempt has, may have, or may yet be granted: on every node, in the background, with a bound of its own,
// whatever became of the caller's context. Where the SET is still without an answer the release is behind it on the same
// connection; where the connection broke, the node delivers it before anything else when it is back.
func (lock *Lock) undoLocked(u *round, mayHold uint64, deadline clock.Instant) {
	l := lock.locker
	l.enterAnyway()
	u.locker = l
	u.send(l, deadline, mayHold)
}
