package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/redquorum/redquorum/queue"
)

// chores are what operators do to a queue that nobody else uses.
type chores struct {
	*tasks
	name       string
	one, keeps *queue.Queue // the second leaves alone what is there
}

// operates does one chore after the other. Each follows if those before it have succeeded.
func (q *tasks) operates(ctx context.Context, life *life) {
	c := &chores{tasks: q, name: fmt.Sprint("chores", q.made.Add(1))}
	var err, failed error
	c.one, err = q.open(life.locker, c.name)
	c.keeps, failed = q.open(life.locker, c.name, queue.KeepFirst(), queue.WithTimeout(time.Second))
	q.promise("New takes what is valid", err == nil && failed == nil, "queue.New: %v, %v", err, failed)
	defer c.one.Close()
	defer c.keeps.Close()
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c.mistakes(limited)
	_ = c.leavesAlone(limited) && c.dequeues(limited) && c.dies(limited) && c.retries(limited) && c.backsOff(limited) && c.passesOver(limited)
}

// mistakes are arguments that are wrong.
func (c *chores) mistakes(ctx context.Context) {
	for what, err := range map[string]error{
		"no ids":          c.one.Enqueue(ctx, nil, 0),
		"an empty id":     c.one.Enqueue(ctx, []string{""}, 0),
		"a long id":       c.one.Enqueue(ctx, []string{strings.Repeat("i", 1025)}, 0),
		"a delay below 0": c.one.Enqueue(ctx, []string{"a"}, -1),
		"a large payload": c.one.Add(ctx, []queue.Item{{ID: "a", Payload: make([]byte, 64<<10+1)}}, 0),
		"no score":        second(c.one.Dequeue(ctx, "a", math.NaN())),
		"to remove none":  second(c.one.Remove(ctx)),
		"to drop none":    second(c.one.Drop(ctx)),
		"to pop none":     second(c.one.Pop(ctx, 0)),
		"2,001 of all":    second(c.one.Top(ctx, 2001)),
		"no letters":      second(c.one.Dead(ctx, 0)),
		"no handler":      c.one.Run(ctx, nil),
		"a lease of 0":    c.one.Run(ctx, func(context.Context, queue.Task) error { return nil }, queue.WithLease(0)),
	} {
		c.promise("mistakes of a queue are ErrInvalid", is(err, queue.ErrInvalid), "%s: %v", what, err)
	}
}

// ids returns those of tasks.
func ids(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// leavesAlone enqueues tasks, and again with KeepFirst.
func (c *chores) leavesAlone(ctx context.Context) bool {
	if c.one.Enqueue(ctx, []string{"b", "a"}, 0) != nil || c.one.Enqueue(ctx, []string{"later"}, time.Hour) != nil {
		return false
	}
	one, failed := c.one.Top(ctx, 1)
	all, err := c.one.Top(ctx, 10)
	if failed != nil || err != nil {
		return false
	}
	c.promise("Top tells what is due", len(one) == 1 && len(all) == 2 && one[0].ID == all[0].ID && all[0].Score <= all[1].Score,
		"a and b are due: %v, and the first of them: %v", ids(all), ids(one))
	if c.keeps.Add(ctx, []queue.Item{{ID: "a", Payload: []byte("other")}, {ID: "c"}}, time.Hour) != nil {
		return false
	}
	again, err := c.one.Top(ctx, 10)
	n, failed := c.one.Len(ctx)
	c.promise("KeepFirst leaves a task alone", err != nil || failed != nil || fmt.Sprint(all) == fmt.Sprint(again) && n == 4, "%v was enqueued again, and is: %v; there are %d", all, again, n)
	return err == nil && failed == nil
}

// dequeues removes tasks, by the score that was seen and whatever it is.
func (c *chores) dequeues(ctx context.Context) bool {
	seen, err := c.one.Top(ctx, 1)
	if err != nil || len(seen) == 0 {
		return false
	}
	id, score := seen[0].ID, seen[0].Score
	moved, err1 := c.one.Dequeue(ctx, id, score+1)
	removed, err2 := c.one.Dequeue(ctx, id, score)
	again, err3 := c.one.Dequeue(ctx, id, score)
	if errors.Join(err1, err2, err3) != nil {
		return false
	}
	c.promise("Dequeue removes what was seen", !moved && removed && !again, "%t with another score, %t with its own, %t again", moved, removed, again)
	n, err := c.one.Remove(ctx, "a", "b", "never")
	counts, failed := c.one.Count(ctx)
	c.promise("Remove counts what was there", err != nil || n == 1, "one was left, %d were removed", n)
	c.promise("Count tells the states", err != nil || failed != nil || counts == queue.Counts{Waiting: 2}, "two wait: %+v", counts)
	return err == nil && failed == nil
}

// dies has one handler panic and another one fail, both for the last time.
func (c *chores) dies(ctx context.Context) bool {
	if c.one.Add(ctx, []queue.Item{{ID: "p", Payload: []byte("it")}, {ID: "x"}}, 0) != nil {
		return false
	}
	var told []*queue.TaskError // by Run's goroutine
	limited, enough := context.WithCancel(ctx)
	defer enough()
	err := c.one.Run(limited, func(_ context.Context, task queue.Task) error {
		if task.ID == "p" {
			panic("it")
		}
		return errEnough
	}, queue.WithMaxAttempts(1), queue.WithConcurrency(1), queue.WithLogger(slog.New(slog.DiscardHandler)), queue.WithFailed(func(err *queue.TaskError) {
		if told = append(told, err); len(told) == 2 {
			enough()
		}
	}))
	if err != nil || ctx.Err() != nil {
		return false
	}
	for _, one := range told {
		var panicked *queue.PanicError
		why := one.Task.ID == "p" && errors.As(one, &panicked) && panicked.Value == "it" || one.Task.ID == "x" && is(one, errEnough)
		c.promise("WithFailed is told of each", why && one.Dead && one.Task.Attempt == 1, "%+v: %v", one.Task, one)
	}
	letters, err := c.one.Dead(ctx, 10)
	if err != nil {
		return false
	}
	newest := len(letters) == 2 && !letters[0].Died.Before(letters[1].Died) && letters[0].ID == "x"
	c.promise("dead letters are told, the newest first", newest && strings.HasPrefix(letters[1].Errors[0].Text, "panic: it"), "p and then x died: %+v", letters)
	return newest
}

// retries puts one dead letter back, and drops the other.
func (c *chores) retries(ctx context.Context) bool {
	back, err := c.one.Retry(ctx, "p", "never")
	due, failed := c.one.Top(ctx, 10)
	if err != nil || failed != nil {
		return false
	}
	whole := back == 1 && len(due) == 1 && due[0].ID == "p" && due[0].Attempt == 0 && string(due[0].Payload) == "it"
	c.promise("Retry gives back all attempts", whole, "%d came back, and due are: %+v", back, due)
	n, err := c.one.Drop(ctx, "p", "x")
	left, failed := c.one.Count(ctx)
	c.promise("Drop drops dead letters alone", err != nil || failed != nil || n == 1 && left == queue.Counts{Waiting: 2, Due: 1}, "%d were dropped, and there are: %+v", n, left)
	popped, err := c.one.Pop(ctx, 10)
	return err == nil && len(popped) == 1
}

// backsOff has a task fail some times, each of which has it wait longer, but not too long.
func (c *chores) backsOff(ctx context.Context) bool {
	const shortest, longest = 40 * time.Millisecond, 100 * time.Millisecond
	if c.one.Enqueue(ctx, []string{"y"}, 0) != nil {
		return false
	}
	waits := []time.Duration{shortest, 2 * shortest, longest}
	last, calm := c.clock.Now(), c.plan.calm() && c.plan.lingers == 0 && c.look
	limited, enough := context.WithCancel(ctx)
	defer enough()
	err := c.one.Run(limited, func(_ context.Context, task queue.Task) error {
		now := c.clock.Now()
		if task.Attempt > 1 && task.Attempt <= len(waits)+1 {
			d, took := waits[task.Attempt-2], now.Sub(last)
			c.promise("a failed attempt waits", took >= d/2 && (took <= d+20*latency || !calm), "attempt %d comes after %v, about %v are to pass", task.Attempt, took, d)
		}
		if last = now; task.Attempt > len(waits) {
			enough()
		}
		return errEnough
	}, queue.WithRetryDelay(time.Hour), queue.WithBackoff(shortest, longest), queue.WithPoll(10*time.Second), queue.WithLogger(slog.New(slog.DiscardHandler)))
	return err == nil && ctx.Err() == nil
}

// passesOver has Run meet what is no task, and tell of it.
func (c *chores) passesOver(ctx context.Context) bool {
	long := strings.Repeat("l", 1025)
	if _, err := c.command("ZADD", "Queue:"+c.name, 1, long); err != nil || c.one.Enqueue(ctx, []string{"z"}, 0) != nil {
		return false
	}
	var told error
	limited, enough := context.WithCancel(ctx)
	defer enough()
	err := c.one.Run(limited, func(context.Context, queue.Task) error { enough(); return nil }, queue.WithReport(func(err error) { told = errors.Join(told, err) }))
	if err != nil || ctx.Err() != nil {
		return false
	}
	score, err := c.command("ZSCORE", "Queue:"+c.name, long)
	moved := err == nil && fmt.Sprintf("%s", score) == "inf"
	c.promise("Run tells of what is no task", moved && told != nil, "its score is %s, and Run reported: %v", score, told)
	c.reachIf("an operator of a queue that was done", true)
	return moved
}
