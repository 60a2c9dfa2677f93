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

// LockOvertaken is Lock of a waiter that was overtaken, so that it takes a place at every node. No
// other waiter of its Locker waits for that name.
func LockOvertaken(ctx context.Context, l *Locker, name string) (*Lock, error) {
	w := newWaiter(&call{lockConfig: l.config.lock, locker: l, kind: mutex{}, name: [1]string{name}}, l.clock.Now())
	w.overtaken = maxOvertaken
	defer l.desk.Queue.Leave(w.queueName, l.desk.Queue.Join(w.queueName))
	return w.seek(ctx)
}
