package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/clock"
)

// Do calls fn while it holds the lock, which it waits for as [Locker.Lock] does. The context of fn
// ends when ctx ends or the lock is lost; context.Cause says why. The lock is released when fn
// returns or panics; a panic continues.
//
// With errors.Is, the error of Do matches the error of fn, [ErrLost] if the lock was lost
// meanwhile, [ErrClosed] if the Locker was closed meanwhile, and the error of the release. None of
// them undoes what fn did: fn may have done all of it. If the lock cannot be acquired, fn is not
// called and the error is that of Lock. Both may be [ErrNoQuorum]; that of the release is a
// [*QuorumError] whose Op is "release". A release by fn itself, or by [Locker.UnlockAll], is no
// error.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) (err error) {
	if fn == nil {
		return invalid("fn is nil")
	}
	lock, err := l.lock(ctx, name, opts, true)
	if err != nil {
		return err
	}
	defer l.life.leaveGuarded()
	// Unlock of a lost lock returns ErrLost.
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	err = fn(lock.Context(ctx), lock)
	if errors.Is(lock.Err(), ErrClosed) {
		err = errors.Join(err, ErrClosed)
	}
	return err
}

// A lock of Do guards a function, which goes on until it notices that its context has ended. So
// Close ends such a lock, and leaves its release to Do, which sends it when the function has
// returned:
//
//	held ──Close──▶ released for its user, still at the nodes ──fn returns──▶ deleted there
//	                                     └──closePatience──▶ left to its TTL
//
// Close counts the locks in the same step in which hold adds them, so it misses none. It waits for
// them before it lets go of the nodes, and a release that Do sends is counted before the lock no
// longer is: so Close waits for that as well. Nobody renews the lock meanwhile.

// endGuarded ends a lock of Do for its user, and keeps it at the nodes.
func (lock *Lock) endGuarded(why error) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	if lock.state == held {
		lock.endLocked(released, releasedFor(why))
	}
}

// awaitGuarded waits for the functions of Do, within the patience of Close.
func (l *Locker) awaitGuarded() {
	late, timer := clock.After(l.clock, closePatience)
	defer timer.Stop()
	select {
	case <-l.life.rest:
	case <-late:
	}
}

// stillGuarded adds to the error of Close how many functions of Do were still running.
func (l *Locker) stillGuarded(err error) error {
	l.life.mu.Lock()
	n := l.life.guarded
	l.life.mu.Unlock()
	switch {
	case n == 0:
		return err
	case err == nil:
		err = ErrUndelivered
	}
	return fmt.Errorf("%w: %d functions of Do are still running, their locks stay until their TTL ends", err, n)
}

// leaveGuarded is called when a function of Do has returned and its lock's release is under way.
func (l *life) leaveGuarded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guarded--; l.guarded == 0 && l.closed {
		close(l.rest)
	}
}
