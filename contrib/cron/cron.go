// Package cron runs the jobs of github.com/robfig/cron/v3 on one of several processes at a time,
// with the locks of package redlock:
//
//	import redcron "github.com/redquorum/redquorum/contrib/cron"
//
//	crontab := cron.New()
//	crontab.AddJob("* * * * *", redcron.Once(locker, "settle", settle, // func settle(ctx context.Context)
//		redcron.WithLockOptions(redlock.WithMinHold(30*time.Second)),
//		redcron.WithReport(func(name string, err error) { ... })))
//	crontab.Start()
//
// The job runs on one process at a time, and not again within 30 s of its start, however far the
// clocks of the machines differ below that. [Skip] and [Wait] are the same for jobs that exist
// already, as links of a cron.Chain.
package cron

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/robfig/cron/v3"

	"github.com/redquorum/redquorum/redlock"
)

// ErrNotRun means that a job did not run; the error beside it says why.
var ErrNotRun = errors.New("cron: not run")

// Once returns a job that calls fn while it holds the lock of that name. It asks for the lock once
// and does not wait: if the lock cannot be acquired, fn is not called.
//
// The context of fn ends when the lock is lost, which context.Cause then says. The lock is released
// when fn returns or panics; a panic continues (see cron.Recover). [WithReport] tells of runs that
// were skipped and of locks that were lost.
//
// Without [redlock.WithMinHold], a job that is shorter than the difference of two machines' clocks
// runs on both, one after the other.
func Once(locker *redlock.Locker, name string, fn func(ctx context.Context), opts ...Option) cron.Job {
	if fn == nil {
		opts = append(opts, func(c *config) { c.invalid = "fn is nil" })
	}
	return newGuard(locker, name, (*redlock.Locker).TryLock, opts).job(fn)
}

// Skip returns a wrapper that skips a run of a job if it cannot acquire the lock of that name at
// once, as cron.SkipIfStillRunning does within a process. A cron.Job has no context, so it does not
// learn that the lock is lost; [WithReport] is told when the job has ended. Use [Once] where that
// matters.
func Skip(locker *redlock.Locker, name string, opts ...Option) cron.JobWrapper {
	return wrapper(newGuard(locker, name, (*redlock.Locker).TryLock, opts))
}

// Wait returns a wrapper that delays each run of a job until it has the lock of that name, as
// cron.DelayIfStillRunning does within a process: all schedulers run the job, one after the other.
// It waits without limit, through outages of the masters too, unless [WithContext] ends the wait.
// So the runs of a job that takes longer than its period pile up. Otherwise it is [Skip].
func Wait(locker *redlock.Locker, name string, opts ...Option) cron.JobWrapper {
	return wrapper(newGuard(locker, name, (*redlock.Locker).Lock, opts))
}

func wrapper(g guard) cron.JobWrapper {
	return func(job cron.Job) cron.Job { return g.job(func(context.Context) { job.Run() }) }
}

// acquire is TryLock or Lock.
type acquire func(l *redlock.Locker, ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error)

// guard runs functions under a lock.
type guard struct {
	config
	locker  *redlock.Locker
	name    string
	acquire acquire
}

func newGuard(locker *redlock.Locker, name string, acquire acquire, opts []Option) guard {
	g := guard{config: newConfig(opts), locker: locker, name: name, acquire: acquire}
	if locker == nil {
		g.invalid = "locker is nil"
	}
	return g
}

func (g guard) job(fn func(ctx context.Context)) cron.Job {
	return cron.FuncJob(func() { g.run(fn) })
}

func (g guard) run(fn func(ctx context.Context)) {
	if g.invalid != "" {
		g.report(g.name, fmt.Errorf("%w: %w: %s", ErrNotRun, redlock.ErrInvalid, g.invalid))
		return
	}
	lock, err := g.acquire(g.locker, g.ctx, g.name, g.lock...)
	if err != nil {
		g.report(g.name, fmt.Errorf("%w: %w", ErrNotRun, err))
		return
	}
	// Deferred, so that it happens in a panic too. If the lock is lost, Unlock returns ErrLost.
	defer func() {
		if err := lock.Unlock(g.ctx); err != nil {
			g.report(g.name, fmt.Errorf("cron: %w", err))
		}
	}()
	fn(lock.Context(g.ctx))
}

// Option configures a job or wrapper.
type Option func(*config)

type config struct {
	ctx     context.Context //nolint:containedctx // the parent of all runs; a cron.Job is given none
	lock    []redlock.LockOption
	report  func(name string, err error)
	invalid string // what is wrong with the arguments, which nobody can be told before a run
}

func newConfig(opts []Option) config {
	c := config{ctx: context.Background(), report: logged}
	for i, opt := range opts {
		if opt == nil {
			c.invalid = fmt.Sprintf("option %d is nil", i+1)
			continue
		}
		opt(&c)
	}
	return c
}

// WithLockOptions sets options of the lock. With [redlock.WithMinHold], a job runs once per period
// although the clocks of the machines differ: give it more than they can differ, and less than the
// period.
func WithLockOptions(opts ...redlock.LockOption) Option {
	return func(c *config) { c.lock = append(c.lock, opts...) }
}

// WithContext sets the parent of the contexts of all runs. When it ends, waits end, and no further
// run begins. Locks of runs that have not returned are still held, renewed and then released.
func WithContext(ctx context.Context) Option {
	return func(c *config) {
		c.ctx = ctx
		if ctx == nil {
			c.invalid = "ctx is nil"
		}
	}
}

// WithReport sets the function that is told of each run that did not happen or lost its lock, in
// the goroutine of that run. The name is the lock's. If the run did not happen, err matches
// [ErrNotRun], and with errors.Is the reason: [redlock.ErrTaken] if another process runs the job,
// [redlock.ErrNoQuorum] if too few masters answered, [redlock.ErrInvalid] for bad arguments (nobody
// can be told before the first run), [redlock.ErrClosed], or the error of [WithContext]'s context.
// If it happened, err matches [redlock.ErrLost] if the lock was lost meanwhile, or is about the
// release: with [redlock.ErrNoQuorum], the name may stay taken until the TTL ends.
//
// By default, everything but ErrTaken is logged to slog.Default().
func WithReport(report func(name string, err error)) Option {
	return func(c *config) {
		c.report = report
		if report == nil {
			c.report = logged
		}
	}
}

func logged(name string, err error) {
	if !errors.Is(err, redlock.ErrTaken) {
		slog.Error("redquorum: cron job", "job", name, "error", err)
	}
}
