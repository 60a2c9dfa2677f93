// Package asynq processes at most one task of a kind at a time, across all servers of
// github.com/hibiken/asynq, with the locks of package redlock:
//
//	import redasynq "github.com/redquorum/redquorum/contrib/asynq"
//
//	mux := asynq.NewServeMux()
//	mux.Use(redasynq.Unique(locker, func(task *asynq.Task) string {
//		return task.Type() + "/" + string(task.Payload())
//	}))
//
// asynq delivers a task at least once: after a crash, a pause or a lost connection, two servers may
// process it at the same time. And asynq.Unique is about tasks that are queued, for a fixed time.
package asynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/redquorum/redquorum/redlock"
)

// Unique returns a middleware that processes a task while it holds the lock that key names: of the
// tasks with one key, one is processed at a time. It asks for the lock once and does not wait. If
// the lock cannot be acquired, the task is not processed, and the error goes to asynq, which tries
// again later: [redlock.ErrTaken], [redlock.ErrNoQuorum], or [redlock.ErrInvalid] for an empty key
// or a bad option. Such an attempt counts as a failure, unless asynq.Config.IsFailure says
// otherwise.
//
// After the last attempt asynq archives a task whose lock was taken, unprocessed and whatever
// IsFailure says. So the last attempt (asynq.MaxRetry, or the only one with MaxRetry(0)) waits for
// the lock until the task's timeout or deadline, and occupies a worker meanwhile. What is left of
// that time is the handler's.
//
// The context of the handler ends when the lock is lost, which context.Cause then says. The error
// then matches [redlock.ErrLost], whatever the handler returned, so asynq does not take the task
// for done (unless the handler also returned asynq.RevokeTask). The lock is released when the
// handler returns or panics.
//
// One after the other is not once: a task that was processed may be delivered again. With
// [redlock.WithMinHold] it is not processed again within that time.
func Unique(locker *redlock.Locker, key func(*asynq.Task) string, opts ...redlock.LockOption) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if locker == nil || key == nil {
				return fmt.Errorf("asynq: %w: locker or key is nil", redlock.ErrInvalid)
			}
			acquire := locker.TryLock
			if isLastAttempt(ctx) {
				acquire = locker.Lock
			}
			lock, err := acquire(ctx, key(task), opts...)
			if err != nil {
				return fmt.Errorf("asynq: %w", err)
			}
			return process(ctx, lock, next, task)
		})
	}
}

// isLastAttempt reports whether asynq archives the task if this attempt fails.
func isLastAttempt(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= most
}

// process calls the handler and releases the lock, also in a panic.
func process(ctx context.Context, lock *redlock.Lock, next asynq.Handler, task *asynq.Task) (err error) {
	defer func() {
		// The lock was held until here, unless Unlock finds that it was lost. Any other error is
		// about the release: the lock ends with its TTL. The task was processed all the same, and
		// must not be processed again.
		if released := lock.Unlock(ctx); errors.Is(released, redlock.ErrLost) {
			err = errors.Join(err, fmt.Errorf("asynq: %w", released))
		}
	}()
	return next.ProcessTask(lock.Context(ctx), task)
}
