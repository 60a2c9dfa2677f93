package redlock

import (
	"context"
	"errors"
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
