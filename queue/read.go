package queue

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// maxBytes bounds the ids and payloads of one reply, so that with scores and lengths it stays below
// the 1 MiB that the connection accepts.
const maxBytes = 800 << 10

// Top returns up to n due tasks (1 to 2,000), oldest first, as [Queue.Pop] would, but removes
// nothing. It does not wait for the lock.
func (q *Queue) Top(ctx context.Context, n int) ([]Task, error) {
	if err := checkCount(n); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	due, err := q.due(ctx, n)
	return due.tasks, err
}

// Len returns how many tasks there are, due or not, including those that [Queue.Run] is running. It
// does not wait for the lock.
func (q *Queue) Len(ctx context.Context) (int, error) {
	if ctx == nil {
		return 0, invalid("ctx is nil")
	}
	reply, _, err := q.store.call(ctx, pipeline.Request{Words: pipeline.Command("ZCARD", q.store.key), Accept: isInteger})
	if err != nil {
		return 0, err
	}
	return int(reply.(int64)), nil
}

// found is what the store has that is due.
type found struct {
	tasks   []Task
	now     int64 // microseconds by the clock of the store
	strange int   // members that are no tasks
	more    bool  // the store has looked at many of these, and there is more behind them
}

// due returns up to n due tasks. With a fence, the store refuses older ones from then on, and moves
// what is no task out of the way.
func (q *Queue) due(ctx context.Context, n int, fence ...int64) (found, error) {
	strange, passed := 0, 0
	for {
		args, accept := []any{n, maxBytes, passed}, isDue
		for _, f := range fence {
			args, accept = append(args, strconv.FormatInt(f, 10)), isDueOrNothing
		}
		reply, _, err := q.store.run(ctx, dueScript, accept, args...)
		if err != nil {
			return found{}, err
		}
		texts, ok := reply.([]any)
		if !ok {
			return found{}, q.store.stale(fence[0], false) // never in doubt: the script changes no task
		}
		due, _ := readDue(texts)
		strange += due.strange
		if len(due.tasks) > 0 || !due.more {
			due.strange = strange
			return due, nil
		}
		if len(fence) == 0 { // what is no task is where it was
			passed = strange
		}
	}
}

// upcoming is when the next task is due, and what is due too far ahead to be meant.
type upcoming struct {
	some bool          // the queue is not empty
	wait time.Duration // zero or less if a task is due
	far  *Task         // the first that is due later than Enqueue allows; nil for none
}

func (q *Queue) next(ctx context.Context) (upcoming, error) {
	reply, _, err := q.store.run(ctx, nextScript, isNextOrNothing, micros(maxDelay))
	if err != nil {
		return upcoming{}, err
	}
	entries, some := reply.([]any)
	if !some {
		return upcoming{}, nil
	}
	next, _ := readNext(entries)
	return next, nil
}

// readNext reads the reply of next.lua.
func readNext(entries []any) (next upcoming, ok bool) {
	if len(entries) != 1 && len(entries) != 3 {
		return next, false
	}
	n, ok := entries[0].(int64)
	next.some, next.wait = true, time.Duration(n)*time.Microsecond
	if !ok || len(entries) == 1 {
		return next, ok
	}
	far, ok := readTask(entries[1], entries[2])
	next.far = &far
	return next, ok
}

// readDue reads the reply of due.lua.
func readDue(entries []any) (due found, ok bool) {
	if len(entries) < 3 || len(entries)%2 != 1 {
		return due, false
	}
	text, _ := entries[0].([]byte)
	strange, ok1 := entries[1].(int64)
	more, ok2 := entries[2].(int64)
	now, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || !ok1 || !ok2 {
		return due, false
	}
	due.now, due.strange, due.more = now, int(strange), more == 1
	for i := 3; i < len(entries); i += 2 {
		task, ok := readTask(entries[i], entries[i+1])
		if !ok {
			return due, false
		}
		due.tasks = append(due.tasks, task)
	}
	return due, true
}

// readTask reads an id, and a score with what may be behind it.
func readTask(id, score any) (Task, bool) {
	text, isText := id.([]byte)
	rest, _ := score.([]byte)
	digits, rest, more := bytes.Cut(rest, []byte(" "))
	number, err := strconv.ParseFloat(string(digits), 64)
	task := Task{ID: string(text), Score: number}
	if more && err == nil {
		attempts, payload, _ := bytes.Cut(rest, []byte(" "))
		if len(payload) > 0 {
			task.Payload = payload
		}
		task.Attempt, err = strconv.Atoi(string(attempts))
	}
	return task, isText && err == nil
}

func isDue(reply any) bool {
	entries, _ := reply.([]any)
	_, ok := readDue(entries)
	return ok
}

func isDueOrNothing(reply any) bool { return reply == nil || isDue(reply) }

func isInteger(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

func isNextOrNothing(reply any) bool {
	if reply == nil {
		return true
	}
	entries, _ := reply.([]any)
	_, ok := readNext(entries)
	return ok
}
