package queue

import (
	"context"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// maxIDBytes bounds the ids of one reply, so that with scores and lengths it stays below the 1 MiB
// that the connection accepts.
const maxIDBytes = 800 << 10

// Top returns up to n due tasks (1 to 2,000), oldest first, as [Queue.Pop] would, but removes
// nothing. It does not wait for the lock.
func (q *Queue) Top(ctx context.Context, n int) ([]Task, error) {
	if err := checkCount(n); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	tasks, _, err := q.due(ctx, n)
	return tasks, err
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

// due returns up to n due tasks, and the time in microseconds by the clock of the store. With a
// fence, the store refuses older ones from then on.
func (q *Queue) due(ctx context.Context, n int, fence ...int64) (tasks []Task, now int64, err error) {
	args, accept := []any{n, maxIDBytes}, isDue
	for _, f := range fence {
		args, accept = append(args, strconv.FormatInt(f, 10)), isDueOrNothing
	}
	reply, _, err := q.store.run(ctx, dueScript, accept, args...)
	if err != nil {
		return nil, 0, err
	}
	texts, ok := reply.([]any)
	if !ok {
		return nil, 0, q.store.stale(fence[0], false) // never in doubt: the script changes nothing
	}
	now, tasks, _ = readDue(texts)
	return tasks, now, nil
}

// next returns how long until a task is due, zero or less if one is; false if the queue is empty.
func (q *Queue) next(ctx context.Context) (time.Duration, bool, error) {
	reply, _, err := q.store.run(ctx, nextScript, isIntegerOrNothing)
	if err != nil {
		return 0, false, err
	}
	n, ok := reply.(int64)
	return time.Duration(n) * time.Microsecond, ok, nil
}

// readDue reads the reply of due.lua.
func readDue(texts []any) (now int64, tasks []Task, ok bool) {
	if len(texts)%2 != 1 {
		return 0, nil, false
	}
	text, _ := texts[0].([]byte)
	now, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, nil, false
	}
	for i := 1; i < len(texts); i += 2 {
		id, isText := texts[i].([]byte)
		score, _ := texts[i+1].([]byte)
		number, err := strconv.ParseFloat(string(score), 64)
		if !isText || err != nil {
			return 0, nil, false
		}
		tasks = append(tasks, Task{string(id), number})
	}
	return now, tasks, true
}

func isDue(reply any) bool {
	texts, _ := reply.([]any)
	_, _, ok := readDue(texts)
	return ok
}

func isDueOrNothing(reply any) bool { return reply == nil || isDue(reply) }

func isInteger(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

func isIntegerOrNothing(reply any) bool { return reply == nil || isInteger(reply) }
