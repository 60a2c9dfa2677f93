package redlock

import (
	"context"
	"errors"
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
