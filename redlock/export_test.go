package redlock

import (
	"context"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/wait"
)

// TakenUntil returns until when the name of a lock is taken because of its minimum hold, or 0.
func TakenUntil(lock *Lock) clock.Instant {
	if lock.minHold == 0 {
		return 0
	}
	return lock.acquired.Add(lock.minimum())
}

// Trace begins and ends an operation that does nothing, as every call does.
func (l *Locker) Trace(ctx context.Context) (err error) {
	_, span := l.trace(ctx, OperationAcquire, "a")
	defer func() { span.end(err) }()
	return ctx.Err()
}

// LockOvertaken is Lock of a waiter that was overtaken, so that it takes a place at every node.
func LockOvertaken(ctx context.Context, l *Locker, name string) (*Lock, error) {
	return lockOf(l.waiters.Acquire(ctx, overtaken{&call{lockConfig: l.config.lock, locker: l, kind: mutex{}, name: [1]string{name}}}))
}

type overtaken struct{ *call }

func (o overtaken) Wanted() wait.Wanted {
	w := o.call.Wanted()
	w.Overtaken = wait.MaxOvertaken
	return w
}
