package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Enqueue puts tasks into the queue, due once the delay has passed by the clock of the store. There
// is one entry per id (1 to 1,024 bytes): an id that is already there moves to the new due time,
// keeps its payload, and has all its attempts before it again; or it stays as it is with
// [KeepFirst]. Either all ids (1 to 10,000) are enqueued or none. The delay is from 0 to 50 years,
// and is rounded up to microseconds. A dead letter with that id stays.
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
	return q.add(ctx, delay, 1, words(ids)...)
}

// Item is a task with its payload, for [Queue.Add].
type Item struct {
	ID      string
	Payload []byte // what the handler needs; at most 64 KiB, and 1 MiB of one call
}

// Add is [Queue.Enqueue] with payloads. An id that is already there gets the new payload with the
// new due time, unless [KeepFirst] leaves it as it is. The store keeps the payload until the task
// is done, is removed, or has died and is dropped.
func (q *Queue) Add(ctx context.Context, items []Item, delay time.Duration) error {
	ids, args, total := make([]string, 0, len(items)), make([]any, 0, 2*len(items)), 0
	for i, item := range items {
		ids, args = append(ids, item.ID), append(args, item.ID, item.Payload)
		if total += len(item.Payload); len(item.Payload) > maxPayload || total > maxPayloads {
			return invalid("payload %d has %d bytes, and all up to it %d: at most %d, and %d of one call",
				i+1, len(item.Payload), total, maxPayload, maxPayloads)
		}
	}
	if err := checkIDs(ids); err != nil {
		return err
	}
	return q.add(ctx, delay, 2, args...)
}

// add enqueues tasks, each of which is as many arguments as step says: its id, and its payload.
func (q *Queue) add(ctx context.Context, delay time.Duration, step int, tasks ...any) error {
	if delay < 0 || delay > maxDelay {
		return invalid("delay %v is not between 0 and %v", delay, maxDelay)
	}
	args := append([]any{micros(delay), boolean(q.config.keepFirst), step}, tasks...)
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
	var was string
	err := q.locked(ctx, "dequeue", func(fence int64) (err error) {
		was, err = q.settle(ctx, fence, []settlement{{id: id, seen: score, what: remove}})
		return err
	})
	return err == nil && was[0] != changed, err
}

// Remove removes tasks (1 to 10,000), whatever their score, and returns how many of them existed.
// It counts those whose handler runs ([Queue.Run]), and does not stop that. Dead letters stay.
// Errors are those of [Queue.Enqueue].
func (q *Queue) Remove(ctx context.Context, ids ...string) (int, error) {
	return q.counted(ctx, "remove", removeScript, ids)
}

// counted makes a change of these ids that returns of how many it was true.
func (q *Queue) counted(ctx context.Context, what string, script *pipeline.Script, ids []string, before ...any) (int, error) {
	if err := checkIDs(ids); err != nil {
		return 0, err
	}
	count := 0
	err := q.locked(ctx, what, func(fence int64) error {
		text, err := q.store.change(ctx, script, fence, append(before, words(ids)...)...)
		if err != nil {
			return err
		}
		count, err = strconv.Atoi(text)
		return err
	})
	return count, err
}

func words(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
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
	what string // remove, leaseUntil, backTo, after or bury
	why  string // it failed, of after and bury
}

// exactly returns a score as a text that has all of it.
func exactly(score float64) string { return strconv.FormatFloat(score, 'g', -1, 64) }

// What becomes of a task; see settle.lua.
const (
	remove = "remove"
	bury   = "bury"
)

// leaseUntil gives a task to a worker until that score.
func leaseUntil(score float64) string { return "=" + strconv.FormatFloat(score, 'f', 6, 64) }

// backTo undoes a lease.
func backTo(score float64) string { return "-" + exactly(score) }

// after makes a task due once a delay from now has passed.
func after(delay time.Duration) string { return "+" + strconv.FormatInt(micros(delay), 10) }

// Answers to a settlement.
const (
	changed = '0' // the task did not have the score that was seen, and is as it was
	dropped = '2' // done, and the oldest dead letter was dropped for this one
)

// settle applies all settlements, and returns a character for each: what became of it.
func (q *Queue) settle(ctx context.Context, fence int64, settlements []settlement) (string, error) {
	args := make([]any, 0, 1+4*len(settlements))
	for _, s := range settlements {
		args = append(args, s.id, exactly(s.seen), s.what, s.why)
	}
	text, err := q.store.change(ctx, settleScript, fence, args...)
	if err == nil && len(text) != len(settlements) {
		err = fmt.Errorf("queue: store %s: %d answers to %d settlements", q.store.node.Endpoint(), len(text), len(settlements))
	}
	return text, err
}

// micros rounds up, so that nothing is due too early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
