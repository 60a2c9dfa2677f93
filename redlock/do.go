package redlock

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/go-multierror"
)

// Do runs fn while it holds the lock, which it waits for as [Locker.Lock] does. The context of fn ends when the lock is lost
// (context.Cause says why) and when ctx ends. The lock is released when fn returns or panics; a panic goes on.
//
// What Do returns matches, with errors.Is, the error of fn, [ErrLost] where the lock was lost under it, and the error of the
// release. Where the lock was not had, fn is not run and the error is that of Lock.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) (err error) {
	if fn == nil {
		return invalid("fn is nil")
	}
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }() // Unlock of a lost lock says that it was lost
	return fn(lock.Context(ctx), lock)
}

// UnlockAll releases all locks that this Locker holds, all at once, and returns nil when each was confirmed by a quorum. Otherwise
// the errors of [Lock.Unlock], in a *multierror.Error. It does not keep locks from being acquired meanwhile.
func (l *Locker) UnlockAll(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if l.isClosed() {
		return ErrClosed
	}
	var failed *multierror.Error
	for _, lock := range l.releaseHeld(nil) {
		if err := lock.Unlock(ctx); err != nil {
			failed = multierror.Append(failed, err)
		}
	}
	return failed.ErrorOrNil()
}

// maxReleased bounds the releases that are under way at once when all locks are released, so that they fit the queues of the nodes.
const maxReleased = 4096

// releaseHeld releases all locks that are held.
func (l *Locker) releaseHeld(why error) []*Lock {
	locks := l.expiry.all()
	if why == nil { // no caller has the parts of a set
		locks = slices.DeleteFunc(locks, func(lock *Lock) bool { return lock.part })
	}
	inChunks(locks, func(lock *Lock) *round { return lock.startRelease(why) })
	return locks
}

// inChunks sends a release of each lock, nil for none, as fast as the nodes take it. Once a quorum
// does not answer, it goes on without waiting: what the nodes do not take then ends with its TTL.
func inChunks(locks []*Lock, send func(lock *Lock) *round) {
	rounds := make([]*round, 0, min(len(locks), maxReleased))
	answered := true
	for chunk := range slices.Chunk(locks, maxReleased) {
		rounds = rounds[:0]
		for _, lock := range chunk {
			rounds = append(rounds, send(lock))
		}
		for _, r := range rounds {
			if answered && r != nil {
				<-r.decided
				answered = r.verdict != noQuorum
			}
		}
	}
}
