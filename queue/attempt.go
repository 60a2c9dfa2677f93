package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/clock"
)

// TaskError is an attempt that failed.
type TaskError struct {
	Task Task
	Err  error // what the handler returned, a [*PanicError], or why there is no other attempt
	Dead bool  // it was the last one: the task is a dead letter
}

// Error names the task and the attempt.
func (e *TaskError) Error() string {
	text := fmt.Sprintf("queue: task %q, attempt %d: %v", e.Task.ID, e.Task.Attempt, e.Err)
	if e.Dead {
		text += " (it was the last)"
	}
	return text
}

// Unwrap returns Err.
func (e *TaskError) Unwrap() error { return e.Err }

// PanicError is the error of an attempt whose handler panicked.
type PanicError struct {
	Value any
	Stack []byte // of the handler, the place of the panic first
}

// Error has the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

var (
	errLeaseOver = fmt.Errorf("queue: the lease of the task is over: %w", context.DeadlineExceeded)
	errGoexit    = errors.New("the handler ended its goroutine (runtime.Goexit)")
	errAbandoned = errors.New("the last attempt was not reported: its worker died, or took longer than the lease")
)

// outcome is how a handler ended.
type outcome struct {
	task Task
	seen float64 // the score of the lease
	err  error   // nil if the task is done
}

// begin runs the handler on a leased task. If ctx has ended since, the task returns to its place.
//
// A panic is a failed attempt, and does not end Run. If it did, a task that always panics would end
// worker after worker, and take an attempt from all tasks that these had.
func (r *runner) begin(ctx context.Context, task Task, leased settlement, began clock.Instant) {
	seen, _ := strconv.ParseFloat(leased.what[1:], 64) //nolint:errcheck // leaseUntil wrote it
	if ctx.Err() != nil {
		r.finished = append(r.finished, settlement{id: task.ID, seen: seen, what: backTo(task.Score)})
		return
	}
	r.running++
	ctx, cancel := context.WithCancelCause(ctx)
	// The clocks of the worker and the store may differ by a hundredth.
	left := began.Add(r.config.lease - r.config.lease/100).Sub(r.clock.Now())
	timer := r.clock.AfterFunc(left, func() { cancel(errLeaseOver) })
	go func() {
		out := outcome{task, seen, errGoexit}
		defer func() {
			if value := recover(); value != nil {
				out.err = &PanicError{value, stackOf(debug.Stack())}
			}
			timer.Stop()
			cancel(nil)
			r.ended <- out
		}()
		out.err = r.handler(ctx, task)
	}()
}

// stackOf cuts off what a stack has above the place of a panic.
func stackOf(stack []byte) []byte {
	lines := strings.SplitAfter(string(stack), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+2 < len(lines) {
			return []byte(strings.Join(lines[i+2:], "")) // two lines a frame
		}
	}
	return stack
}

// note records how a handler ended.
func (r *runner) note(out outcome) {
	r.running--
	ended := settlement{id: out.task.ID, seen: out.seen, what: remove}
	if out.err != nil {
		failure := &TaskError{Task: out.task, Err: out.err, Dead: r.config.isLast(out.task.Attempt)}
		ended.why = bounded(out.err.Error())
		if ended.what = bury; !failure.Dead {
			ended.what = after(r.config.delay(out.task.Attempt))
		}
		r.tellFailed(failure)
	}
	r.finished = append(r.finished, ended)
}

// maxText bounds the text of an error in the store, which keeps 4 KiB for a task (settle.lua).
const maxText = 1024

// bounded returns the beginning of a text, and something where there is none: an attempt without a
// text would leave no trace.
func bounded(text string) string {
	if text == "" {
		return "an error without a text"
	}
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// tellFailed tells of a failed attempt. A panic is told though nobody asked to be: it is a bug.
func (r *runner) tellFailed(failure *TaskError) {
	logger := r.config.logger
	var panicked *PanicError
	if r.config.failed != nil {
		r.config.failed(failure)
	} else if logger == nil && errors.As(failure.Err, &panicked) {
		logger = slog.Default()
	}
	if logger == nil {
		return
	}
	level, text := slog.LevelWarn, "queue: an attempt failed"
	if failure.Dead {
		level, text = slog.LevelError, "queue: a task has become a dead letter"
	}
	logger.Log(context.Background(), level, text, "queue", r.queue.name, "task", failure.Task.ID,
		"attempt", failure.Task.Attempt, "error", failure.Err.Error())
}

// tellDropped reports dead letters that gave way to newer ones.
func (r *runner) tellDropped(n int) {
	if n > 0 {
		r.report(fmt.Errorf("queue: %q has more than %d dead letters: %d of the oldest were dropped", r.queue.name, maxDead, n))
	}
}
