package redlock

import (
	"context"

	"github.com/redquorum/redquorum/clock"
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
