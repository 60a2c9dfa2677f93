package queue

import (
	"context"
	"fmt"
)

// Pop removes up to n tasks that are due (1 to 2,000) and returns them, oldest first; none where none is due. It returns fewer when their ids are
// so long that they would not fit one reply: 2,000 of 400 bytes do. A task is returned at most once, however many workers pop, and
// whatever happens to them. It waits as [Queue.Enqueue] does, for nothing that is not due.
//
// Tasks are lost only with the process that popped them: when it dies after the store has removed them. A process that dies in Pop before that
// has removed nothing; one that was stopped for so long that another has had the lock meanwhile gets [ErrStale], and nothing. [Queue.Run] loses no
// task at all.
//
// With an error there are no tasks, but for one case: when the store does not answer the last message. That error is a [*pool.CallError] of
// unknown fate, and the tasks that come with it may have been removed, or may be popped again by others.
func (q *Queue) Pop(ctx context.Context, n int) ([]Task, error) {
	// The tasks are first read and then removed, both with the fence of one lock, so that they are in the caller's hands before they are gone. A
	// lost answer thus loses nothing: the removal is repeated, and with the same fence it says again what it did. A
	// single script would leave tasks that nobody has wherever its answer is lost.
	//
	// What remains is a process that dies between the execution of the removal and the return of Pop: the time of one answer. The store
	// could keep the tasks until the worker has confirmed that it has them; but a worker that is stopped at that moment looks the same as
	// one that died. Giving its tasks to another would deliver them twice once it goes on: the very harm that the fence is there to keep
	// away. So Pop delivers at most once, and Run, which has the handler's end as its confirmation, at least once.
	if err := checkCount(n); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	due, _, err := q.due(ctx, 1)
	if err != nil || len(due) == 0 {
		return nil, err // nothing to change: no lock
	}
	lock, err := q.lock(ctx, "pop")
	if err != nil {
		return nil, err
	}
	defer q.unlockBehind(ctx, lock) // the shorter the time between removal and return, the less can happen in it
	if due, _, err = q.due(ctx, n, lock.Fence()); err != nil || len(due) == 0 {
		return nil, err
	}
	return q.take(ctx, lock.Fence(), due)
}

// take removes tasks that were seen under the same fence. It is not cut short by ctx: that would leave it unknown who has them.
func (q *Queue) take(ctx context.Context, fence int64, due []Task) ([]Task, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("queue: pop: %w", endOf(ctx))
	}
	settlements := make([]settlement, 0, len(due))
	for _, task := range due {
		settlements = append(settlements, settlement{task.ID, task.Score, remove})
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
		if was[i] { // else somebody who does not know of fences has changed it
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}
