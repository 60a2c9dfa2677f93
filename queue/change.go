package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Enqueue puts tasks into the queue, due once the delay has passed by the clock of the store. There
// is one entry per id (1 to 1,024 bytes): an id that is already there moves to the new due time, or
// stays as it is with [KeepFirst]. Either all ids (1 to 10,000) are enqueued or none. The delay is
// from 0 to 50 years, and is rounded up to microseconds.
//
// Enqueue waits for the lock until ctx ends, and then for the store, for [WithTimeout] at most. If
// the error is a [*pool.CallError] with an unknown fate, the tasks may or may not have been
// enqueued. Calling Enqueue again makes sure that they were, but then a task may be delivered
// twice: the first time may have come before the second call, and its handler may still run. If
// that must not be, give the work an idempotency key.
func (q *Queue) Enqueue(ctx context.Context, ids []string, delay time.Duration) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	if delay < 0 || delay > maxDelay {
		return invalid("delay %v is not between 0 and %v", delay, maxDelay)
	}
	args := make([]any, 0, 3+len(ids))
	args = append(args, micros(delay), boolean(q.config.keepFirst))
	for _, id := range ids {
		args = append(args, id)
	}
	return q.locked(ctx, "enqueue", func(fence int64) error {
		_, err := q.store.change(ctx, enqueueScript, fence, args...)
		return err
	})
}

// Dequeue removes a task if its score is still the one that the caller saw, and reports whether it
// did. If it did not, the task is gone or has been enqueued again since. Errors are those of
// [Queue.Enqueue].
func (q *Queue) Dequeue(ctx context.Context, id string, score float64) (bool, error) {
	if err := checkIDs([]string{id}); err != nil {
		return false, err
	}
	if math.IsNaN(score) {
		return false, invalid("the score is not a number")
	}
	var was []bool
	err := q.locked(ctx, "dequeue", func(fence int64) (err error) {
		was, err = q.settle(ctx, fence, []settlement{{id, score, remove}})
		return err
	})
	return err == nil && was[0], err
}

// Remove removes tasks (1 to 10,000), whatever their score, and returns how many of them existed.
// It counts those whose handler runs ([Queue.Run]), and does not stop that. Errors are those of
// [Queue.Enqueue].
func (q *Queue) Remove(ctx context.Context, ids ...string) (int, error) {
	if err := checkIDs(ids); err != nil {
		return 0, err
	}
	args := make([]any, 0, 1+len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	count := 0
	err := q.locked(ctx, "remove", func(fence int64) error {
		text, err := q.store.change(ctx, removeScript, fence, args...)
		if err != nil {
			return err
		}
		count, err = strconv.Atoi(text)
		return err
	})
	return count, err
}

// locked calls change while it holds the lock, with the lock's fence.
func (q *Queue) locked(ctx context.Context, what string, change func(fence int64) error) error {
	lock, err := q.lock(ctx, what)
	if err != nil {
		return err
	}
	defer unlock(ctx, lock)
	return change(lock.Fence())
}

// settlement says what to do with a task if its score is the one that was seen.
type settlement struct {
	id   string
	seen float64
	to   string // remove, a new score, or a delay (after)
}

// was returns the exact score that was seen.
func (s settlement) was() string { return strconv.FormatFloat(s.seen, 'g', -1, 64) }

const remove = "remove"

// after makes a task due once a delay from now has passed.
func after(delay time.Duration) string { return "+" + strconv.FormatInt(micros(delay), 10) }

// settle applies all settlements, and returns for each whether the task had the score that was
// seen.
func (q *Queue) settle(ctx context.Context, fence int64, settlements []settlement) ([]bool, error) {
	args := make([]any, 0, 1+3*len(settlements))
	for _, s := range settlements {
		args = append(args, s.id, s.was(), s.to)
	}
	text, err := q.store.change(ctx, settleScript, fence, args...)
	if err != nil {
		return nil, err
	}
	if len(text) != len(settlements) {
		return nil, fmt.Errorf("queue: store %s: %d answers to %d settlements", q.store.node.Endpoint(), len(text), len(settlements))
	}
	was := make([]bool, len(text))
	for i := range was {
		was[i] = text[i] == '1'
	}
	return was, nil
}

// micros rounds up, so that nothing is due too early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
