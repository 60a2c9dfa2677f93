package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// After an error, Run tries again after a pause that grows from the first to the second.
	troubleMin = 20 * time.Millisecond
	troubleMax = 2 * time.Second

	// lastTimeout bounds the last message of a Run that ends, about what its handlers have done.
	lastTimeout = 5 * time.Second
)

// Run passes each due task to the handler, several at once, until ctx ends. It returns nil then,
// once the running handlers have returned. Any number of processes may run one queue; each task
// goes to one of them.
//
// A task is leased: it stays in the queue, with a due time one lease ahead ([WithLease]). If the
// handler returns nil, the task is removed. If it returns an error, or panics, the attempt has
// failed, and the task is due again after [WithRetryDelay] or [WithBackoff]. If the worker is gone,
// the task is due again once the lease is over. So no task is lost, but a task may run more than
// once: if its worker died, or could not report in time that the task is done. The handler's
// context ends with the lease and with ctx, so two handlers do not work on one task as long as they
// heed it.
//
// Every lease is an attempt, which the store counts with the lease: a worker that dies has used it
// up, for each of its tasks. Only a task whose handler never began, because ctx ended, has it back.
// [WithMaxAttempts] bounds them. A task that has used up all of them becomes a dead letter
// ([Queue.Dead]), with the errors of its last attempts.
//
// A task that is enqueued again while its handler runs becomes due again like any other, and a
// second handler may run beside the first; what the first returns does not touch its entry. With
// [KeepFirst], such a call finds the task in the queue, and changes nothing. A task that is removed
// meanwhile stays removed.
//
// Failed attempts go to [WithFailed] and [WithLogger]. Errors of the lock and the store go to
// [WithReport], and Run keeps trying. It returns an error as soon as the queue or the Locker is
// closed and the handlers have returned, if the lock is refused for good ([ErrInvalid], such as a
// TTL above the cluster's maximum), or if it could not report at its end what its handlers have
// done: then those tasks run again.
//
// Run knows when the next task is due and waits until then. The store notifies it of tasks that are
// enqueued meanwhile, so a task begins within some milliseconds of its time. A waiting Run costs
// the store one query per second ([WithPoll]).
func (q *Queue) Run(ctx context.Context, handler func(ctx context.Context, task Task) error, opts ...RunOption) error {
	cfg, err := newRunConfig(opts)
	switch {
	case err != nil:
		return err
	case ctx == nil:
		return invalid("ctx is nil")
	case handler == nil:
		return invalid("handler is nil")
	}
	r := &runner{
		queue: q, config: cfg, handler: handler, clock: q.store.node.Clock(),
		ended: make(chan outcome, cfg.concurrency), wake: make(chan struct{}, 1), closing: door.Of(q.locker).Closing,
	}
	subscription := q.store.node.Subscribe("redquorum:wake:"+q.name, r)
	defer subscription.Close() //nolint:errcheck // always nil: it is closed or was
	return r.run(ctx)
}

// runner is one Run.
type runner struct {
	queue   *Queue
	config  runConfig
	handler func(ctx context.Context, task Task) error
	clock   clock.Clock
	ended   chan outcome    // written once by each handler's goroutine; there is room for all
	wake    chan struct{}   // signals a reason to query the queue; room for one
	closing <-chan struct{} // closed when the Locker is, which a queue without due tasks does not need

	// Used by Run's goroutine only.
	running  int          // how many handlers run
	finished []settlement // tasks whose handlers have returned, not yet reported to the store
	far      *Task        // that was reported last (tellFar)
}

func (r *runner) run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var fatal error
	pause := clock.Backoff{Shortest: troubleMin, Longest: troubleMax}
	for work.Err() == nil && fatal == nil {
		wait, err := r.turn(work)
		switch {
		case err == nil:
			pause.Reset()
			fatal = r.rest(work, wait, r.wake)
		case errors.Is(err, pool.ErrClosed) || errors.Is(err, redlock.ErrClosed) || errors.Is(err, ErrInvalid):
			fatal = err
		case work.Err() == nil:
			r.report(err)
			fatal = r.rest(work, pause.Next(), nil)
		}
		r.collect()
	}
	cancel()
	for r.running > 0 {
		r.note(<-r.ended)
	}
	return errors.Join(fatal, r.last(ctx, fatal))
}

// report tells of an error that keeps nobody from going on.
func (r *runner) report(err error) {
	r.config.report(err)
	if r.config.logger != nil {
		r.config.logger.Warn(err.Error())
	}
}

// turn does what there is to do, and returns how long to wait for more.
func (r *runner) turn(ctx context.Context) (time.Duration, error) {
	wait := r.config.poll
	free := r.config.concurrency - r.running
	if free > 0 {
		next, err := r.queue.next(ctx)
		if err != nil {
			return 0, err
		}
		r.tellFar(next.far)
		if next.some {
			wait = min(wait, next.wait)
		}
		if !next.some || next.wait > 0 {
			free = 0
		}
	}
	if free == 0 && len(r.finished) == 0 {
		return wait, nil
	}
	return 0, r.exchange(ctx, free)
}

// exchange reports finished tasks to the store, and leases as many new ones as handlers are free,
// all under one lock.
func (r *runner) exchange(ctx context.Context, free int) error {
	q := r.queue
	return q.locked(ctx, "run", func(fence int64) error {
		settlements, finished := slices.Clone(r.finished), len(r.finished)
		began := r.clock.Now() // before the store reads its clock, so the lease ends here first
		var due []Task
		if free > 0 {
			found, err := q.due(ctx, free, fence)
			if err != nil {
				return err
			}
			r.tellStrange(found.strange)
			due = found.tasks
			until := float64(found.now+micros(r.config.lease)) / 1e6
			for i := range due {
				settlements = append(settlements, r.take(&due[i], until))
			}
		}
		if len(settlements) == 0 {
			return nil // other workers were faster
		}
		// As in Pop, ctx does not cut this short. If it is unknown whether it happened, the
		// finished tasks are reported again, and the new ones come back once their leases are over.
		was, err := q.settle(context.WithoutCancel(ctx), fence, settlements)
		if err != nil {
			return err
		}
		r.finished = r.finished[:0]
		for i, task := range due {
			switch leased := settlements[finished+i]; {
			case was[finished+i] == changed:
			case leased.what == bury:
				r.tellFailed(&TaskError{Task: task, Err: errAbandoned, Dead: true})
			default:
				r.begin(ctx, task, leased, began)
			}
		}
		r.tellDropped(strings.Count(was, string(dropped)))
		return nil
	})
}

// take leases a task, which is an attempt, or buries it if it has none left.
func (r *runner) take(task *Task, until float64) settlement {
	if r.config.isLast(task.Attempt) {
		return settlement{id: task.ID, seen: task.Score, what: bury, why: errAbandoned.Error()}
	}
	task.Attempt++
	return settlement{id: task.ID, seen: task.Score, what: leaseUntil(until)}
}

// tellStrange reports members of the queue that others wrote and that cannot be tasks.
func (r *runner) tellStrange(n int) {
	if n > 0 {
		r.report(fmt.Errorf("queue: %d members of %q were no task ids (1 to %d bytes): they have the score inf now, and are never due",
			n, r.queue.name, maxID))
	}
}

// tellFar reports a task that is due so far ahead that its score must be meant otherwise, once.
func (r *runner) tellFar(task *Task) {
	if task == nil || r.far != nil && r.far.ID == task.ID && r.far.Score == task.Score {
		return
	}
	r.far = task
	r.report(fmt.Errorf("queue: task %q of %q is due in more than 50 years: its score %.17g is taken for Unix seconds, and may be milliseconds",
		task.ID, r.queue.name, task.Score))
}

// collect records how handlers ended, without waiting.
func (r *runner) collect() {
	for {
		select {
		case out := <-r.ended:
			r.note(out)
		default:
			return
		}
	}
}

// rest waits until there may be something to do. It returns an error if the Queue or the Locker was
// closed.
func (r *runner) rest(ctx context.Context, wait time.Duration, wake <-chan struct{}) error {
	if wait <= 0 {
		return nil
	}
	over, timer := clock.After(r.clock, wait)
	defer timer.Stop()
	var closed error
	select {
	case <-over:
	case <-wake:
	case out := <-r.ended:
		r.note(out)
	case <-r.closing:
		closed = redlock.ErrClosed
	case <-r.queue.closing:
		closed = pool.ErrClosed
	case <-ctx.Done():
	}
	if closed == nil || ctx.Err() != nil { // that came first
		return nil
	}
	return fmt.Errorf("queue: run: %w", closed)
}

// last reports the remaining finished tasks to the store, after ctx has ended.
func (r *runner) last(ctx context.Context, fatal error) error {
	if len(r.finished) == 0 {
		return nil
	}
	err := fatal
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
		defer cancel()
		err = r.exchange(ctx, 0)
	}
	if err != nil {
		return fmt.Errorf("queue: run: %d tasks were handled and will be run again: %w", len(r.finished), err)
	}
	return nil
}

// Subscribed is called when messages arrive from now on. Earlier ones were lost.
func (r *runner) Subscribed() { r.signal() }

// Unsubscribed is called when no messages arrive. Run keeps polling.
func (r *runner) Unsubscribed(error) {}

// Message is called when a task is due earlier than all others before it.
func (r *runner) Message(string) { r.signal() }

func (r *runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // one is enough
	}
}
