// Package gocron lets the schedulers of github.com/go-co-op/gocron/v2 in several processes share
// their jobs, with the locks of package redlock:
//
//	import redgocron "github.com/redquorum/redquorum/contrib/gocron"
//
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		redgocron.New(locker, redlock.WithMinHold(30*time.Second))))
//	...
//	scheduler.NewJob(gocron.CronJob("* * * * *", false),
//		gocron.NewTask(redgocron.Task(settle)), // func settle(ctx context.Context) error
//		gocron.WithName("settle"),
//		gocron.WithEventListeners(gocron.AfterLockError(report), gocron.AfterJobRunsWithError(report)))
//
// The job runs on one scheduler at a time, and not again within 30 s of its start, however far the
// clocks of the machines differ below that. [New] asks for a lock per run; [NewElector] lets one
// process run all jobs.
package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// Errors to branch on with errors.Is. Those of the lock, such as [redlock.ErrTaken], are passed on,
// wrapped.
var (
	// ErrRunning means that this process still runs the job, perhaps although it has lost the lock.
	// It comes with [redlock.ErrTaken].
	ErrRunning = errors.New("gocron: the job still runs in this process")

	// ErrUnnamed means that a job whose function is a [Task] has no name. All of them would share
	// one lock.
	ErrUnnamed = errors.New("gocron: the job needs a name (gocron.WithName)")

	// ErrNoLock means that a [Task] was run without a lock from [New].
	ErrNoLock = errors.New("gocron: the job runs without a lock")

	// ErrNotLeader means that this process does not lead.
	ErrNotLeader = errors.New("gocron: not the leader")
)

// New returns a Locker for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. It
// takes the lock named like the job for each run, once and without waiting: if it cannot be
// acquired, the job does not run, and gocron tells the job's AfterLockError listener why:
// [redlock.ErrTaken] if another scheduler runs it, [redlock.ErrNoQuorum] if too few masters answer.
// A bad option shows there too, as [redlock.ErrInvalid]. Without a listener, gocron tells nobody.
//
// gocron releases the lock when the job ends, also when it panics and gocron recovers. It drops the
// error of that, and knows nothing of a lost lock: make the job a [Task].
//
// Without [redlock.WithMinHold], a job that is shorter than the difference of two machines' clocks
// runs on both, one after the other.
func New(locker *redlock.Locker, opts ...redlock.LockOption) gocron.Locker {
	return &jobLocker{locker: locker, opts: opts}
}

type jobLocker struct {
	locker *redlock.Locker
	opts   []redlock.LockOption
}

// Lock acquires the lock of a run. gocron gives it the job's context and name.
func (l *jobLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	switch {
	case l.locker == nil:
		return nil, fmt.Errorf("%w: locker is nil", redlock.ErrInvalid)
	case key == taskName:
		return nil, ErrUnnamed
	}
	run := &heldRun{job: ctx}
	// The run takes its place before it has the lock. Were it the other way round, a lock that is
	// lost at once could be had by the next run of the job in between, and [Task] would take the
	// lock of that run for its own.
	if _, exists := runs.LoadOrStore(ctx, run); exists {
		return nil, fmt.Errorf("%w: %q: %w", ErrRunning, key, redlock.ErrTaken)
	}
	lock, err := l.locker.TryLock(ctx, key, l.opts...)
	if err != nil {
		runs.Delete(ctx)
		return nil, fmt.Errorf("gocron: %w", err)
	}
	run.lock = lock
	return run, nil
}

// runs has the [heldRun] of each job that runs, by the job's context. gocron gives the same context
// to the Locker and to the function of the job, which is how a [Task] finds its lock. Each job has
// its own, and all runs of a job share it until Scheduler.Update gives the job another. So there
// must be one entry at most, from before the acquisition until the job has returned, even if the
// lock is lost before. The goroutine that adds the entry also runs the job and removes the entry.
var runs sync.Map

// heldRun is one run of a job, and gocron's handle of its lock.
type heldRun struct {
	job  context.Context //nolint:containedctx // it is the key of the run
	lock *redlock.Lock   // set before the run is handed out
}

// Unlock releases the lock. It does so although the job's context has ended.
func (r *heldRun) Unlock(ctx context.Context) error {
	defer runs.CompareAndDelete(r.job, r)
	return r.lock.Unlock(ctx)
}

// Task returns the function of a job whose context ends when the lock of [New] is lost.
// context.Cause then returns [redlock.ErrLost], and so does the error of the job, whatever fn
// returned: gocron reports the run as failed. The lock is released when fn returns, before gocron's
// listeners are told. The job must have a name (gocron.WithName). Without a lock, fn is not called
// and the error is [ErrNoLock], so a Task cannot be used with an Elector.
func Task(fn func(ctx context.Context) error) func(context.Context) error {
	return task{fn}.run
}

// task is a type of its own because gocron names a job without a name like its function: that of a
// method is the same in every build and wherever the compiler inlines [Task].
type task struct {
	fn func(ctx context.Context) error
}

// taskName is the name of the function that Task returns.
const taskName = "github.com/redquorum/redquorum/contrib/gocron.task.run-fm"

func (t task) run(ctx context.Context) error {
	entry, ok := runs.Load(ctx)
	if !ok {
		return ErrNoLock
	}
	lock := entry.(*heldRun).lock
	if err := lock.Err(); err != nil {
		return fmt.Errorf("gocron: %w", err)
	}
	err := t.fn(lock.Context(ctx))
	// gocron releases the lock too, which then does nothing, but it drops what a release says. Any
	// error but ErrLost is about the release itself: the lock was held until here, and ends with
	// its TTL.
	if released := lock.Unlock(ctx); errors.Is(released, redlock.ErrLost) {
		return errors.Join(err, fmt.Errorf("gocron: %w", released))
	}
	return err
}

// NewElector returns an Elector for gocron.WithDistributedElector: jobs run only where the election
// leads. The caller runs the election. gocron asks before each run of a job, and not during it, so
// a job that runs when the leadership ends goes on beside the next leader's jobs. What must not is
// a [Task] under a lock, or a scheduler that lead starts and shuts down.
//
// gocron does not report that a job did not run because this process does not lead. It uses no
// Locker if it has an Elector.
func NewElector(e *election.Election) gocron.Elector { return elector{e} }

type elector struct{ election *election.Election }

// IsLeader returns nil if this process leads, by the local clock: it asks no master.
func (e elector) IsLeader(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.election == nil || !e.election.IsLeader():
		return ErrNotLeader
	}
	return nil
}
