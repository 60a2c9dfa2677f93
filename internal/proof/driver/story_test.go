package driver_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/queue"
)

// story is what becomes of the only task of a queue.
type story struct {
	*tasks
	one *queue.Queue

	last queue.Task // that was begun; guarded by mu
}

const (
	it            = "it" // the id of the task
	storyLease    = 50 * time.Millisecond
	storyAttempts = 2
)

// tells has a task fail, be enqueued again, outlive its lease, be moved by others, die, and be
// there again beside its dead letter. Each step follows if those before it have succeeded.
func (q *tasks) tells(ctx context.Context, life *life) {
	name := fmt.Sprint("story", q.made.Add(1))
	one, err := q.open(life.locker, name)
	q.promise("New takes what is valid", err == nil, "queue.New: %v", err)
	defer one.Close()
	s := &story{tasks: q, one: one}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = s.adds(limited, "first") && s.fails(limited) && s.adds(limited, "second") && s.comesAgain(limited) &&
		s.othersWrite(name) && s.fails(limited) && s.dies(limited) && s.adds(limited, "newer") && s.stays(limited)
}

func (s *story) adds(ctx context.Context, payload string) bool {
	return s.one.Add(ctx, []queue.Item{{ID: it, Payload: []byte(payload)}}, 0) == nil
}

// runs runs the queue until the handler has had enough. It reports whether the store was told what
// the handler has done.
func (s *story) runs(ctx context.Context, handler func(lease context.Context, task queue.Task, enough func()) error, opts ...queue.RunOption) bool {
	limited, enough := context.WithCancel(ctx)
	defer enough()
	err := s.one.Run(limited, func(lease context.Context, task queue.Task) error {
		s.mu.Lock()
		last := s.last
		s.last = task
		s.mu.Unlock()
		s.promise("what is longer than an id is no task", task.ID == it, "%+v", task)
		if string(last.Payload) == string(task.Payload) {
			s.promise("every lease is an attempt", task.Attempt > last.Attempt, "%+v after %+v", task, last)
		} else {
			s.promise("attempts begin anew with a task that is enqueued again", task.Attempt == 1, "%+v after %+v", task, last)
		}
		return handler(lease, task, enough)
	}, append(opts, queue.WithRetryDelay(time.Millisecond), queue.WithLease(storyLease))...)
	return err == nil && ctx.Err() == nil
}

// fails has an attempt fail. It may be the last one.
func (s *story) fails(ctx context.Context, opts ...queue.RunOption) bool {
	return s.runs(ctx, func(_ context.Context, _ queue.Task, enough func()) error {
		enough()
		return errEnough
	}, opts...)
}

// comesAgain has the task enqueued again while its handler runs, and then outlive its lease.
func (s *story) comesAgain(ctx context.Context) bool {
	again := false // written by the first handler, which Run waits for
	done := s.runs(ctx, func(lease context.Context, task queue.Task, enough func()) error {
		switch {
		case string(task.Payload) == "second":
			again = again || s.adds(ctx, "third")
			return nil
		case task.Attempt == 1:
			<-lease.Done()
			time.Sleep(storyLease) // another one begins it meanwhile
			return errEnough
		default:
			enough()
			return errEnough
		}
	})
	if again {
		left, err := s.one.Len(s.base)
		s.promise("what a handler returns does not touch a newer entry", err != nil || left == 1, "it was enqueued again while it ran, and %d are left", left)
	}
	return done && again
}

// othersWrite has others enqueue the task again, and what is no task.
func (s *story) othersWrite(name string) bool {
	_, err := s.command("ZADD", "Queue:"+name, 1, it, 1, strings.Repeat("l", 1025))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = queue.Task{}
	return err == nil
}

// dies has the last attempt fail.
func (s *story) dies(ctx context.Context) bool {
	if !s.fails(ctx, queue.WithMaxAttempts(storyAttempts)) {
		return false
	}
	letters, err := s.one.Dead(s.base, 2)
	told := len(letters) == 1 && letters[0].ID == it && string(letters[0].Payload) == "third" && letters[0].Attempts == storyAttempts && len(letters[0].Errors) > 0
	s.promise("a task that has used up its attempts is a dead letter", err != nil || told, "%+v", letters)
	return err == nil
}

// stays looks whether the task stays that was enqueued beside the dead letter.
func (s *story) stays(ctx context.Context) bool {
	retried, err := s.one.Retry(ctx, it)
	dropped, wrong := s.one.Drop(ctx, it)
	popped, failed := s.one.Pop(ctx, 2)
	newer := retried == 0 && len(popped) == 1 && string(popped[0].Payload) == "newer"
	s.promise("a dead letter stays beside a newer task", err != nil || failed != nil || newer, "%d were retried, and there was %+v", retried, popped)
	s.promise("Drop drops dead letters alone", err != nil || wrong != nil || failed != nil || dropped == 1, "%d were dropped, and there was one", dropped)
	s.reachIf("a dead letter beside a newer task", newer)
	return newer
}
