package queue

import (
	"context"
	"fmt"
)

// Pop removes up to n due tasks (1 to 2,000) and returns them, oldest first, or none if none is
// due. It returns fewer if their ids and payloads do not fit into one reply (800 KiB). A task is
// returned at most once for each time that it is enqueued, however many workers pop, and
// whatever happens to them. Pop waits for the lock and the store as [Queue.Enqueue] does, but not
// for tasks to become due.
//
// Tasks are lost only with the process that popped them: if it dies after the store has removed
// them. A process that dies in Pop before that has removed nothing. One that was stopped for so
// long that another has had the lock since gets [ErrStale], and no tasks. [Queue.Run] loses no task
// at all.
//
// With an error there are no tasks, except in one case: the store does not answer the last message.
// That error is a [*pool.CallError] with an unknown fate. The tasks that come with it may have been
// removed, or others may pop them again.
func (q *Queue) Pop(ctx context.Context, n int) ([]Task, error) {
	// The tasks are first read and then removed, both with the fence of one lock, so the caller has
	// them before they are gone. A lost answer thus loses nothing: the removal is repeated, and
	// with the same fence it answers the same. A single script would lose the tasks whenever its
	// answer is lost.
	//
	// What remains is a process that dies between the execution of the removal and the return of
	// Pop: the time of one answer. The store could keep the tasks until the worker has confirmed
	// them. But a worker that is stopped at that moment looks like one that died, and giving its
	// tasks to another would deliver them twice once it continues: the very harm that the fence
	// prevents. So Pop delivers at most once, and Run, for which the end of the handler is the
	// confirmation, at least once.
	if err := checkCount(n); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	next, err := q.next(ctx)
	if err != nil || !next.some || next.wait > 0 {
		return nil, err // nothing to change: no lock
	}
	lock, err := q.lock(ctx, "pop")
	if err != nil {
		return nil, err
	}
	defer q.unlockBehind(ctx, lock) // in the background: Pop returns as soon as it can
	due, err := q.due(ctx, n, lock.Fence())
	if err != nil || len(due.tasks) == 0 {
		return nil, err
	}
	return q.take(ctx, lock.Fence(), due.tasks)
}

// take removes tasks that were read under the same fence. ctx does not cut it short: that would
// leave it unknown who has them.
func (q *Queue) take(ctx context.Context, fence int64, due []Task) ([]Task, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("queue: pop: %w", endOf(ctx))
	}
	settlements := make([]settlement, 0, len(due))
	for _, task := range due {
		settlements = append(settlements, settlement{id: task.ID, seen: task.Score, what: remove})
	}
	was, err := q.settle(context.WithoutCancel(ctx), fence, settlements)
	if err != nil {
		if isUnknown(err) {
			return due, err
		}
		return nil, err
	}
	var tasks []Task
	for i, task := range due {
		if was[i] != changed { // otherwise a client without fences has changed it
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}
