package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

// untilLayout is RFC 3339 with milliseconds.
const untilLayout = "2006-01-02T15:04:05.000Z07:00"

// runner is one redlock run.
type runner struct {
	flags    *flags
	locker   *redlock.Locker
	clock    clock.Clock
	signals  chan os.Signal
	messages job.Messages
	path     string // of the command
	argv     []string

	watch *watch

	lost         bool // the lock was lost, and we said so
	unreleased   bool // no quorum of masters has confirmed the release
	saidDegraded int  // how many masters without a vote were named
}

// run acquires, runs and releases, in this order whatever happens, and returns the exit status as
// an error.
func (r *runner) run(ctx context.Context) (err error) {
	defer func() { r.close(err == nil || cli.ExitStatus(err) == 0) }()
	lock, err := r.acquire(ctx, r.signals)
	if err != nil {
		return r.notAcquired(ctx, err)
	}
	acquired := r.clock.Now()
	r.sayDegraded(false)
	job.Notify(r.signals, job.RunningSignals) // before the command could miss one
	command := job.Job{
		Path: r.path, Argv: r.argv, Env: r.environment(lock), Clock: r.clock, Signals: r.signals,
		Messages: r.messages, Grace: r.flags.grace(), KillRest: r.flags.killRest, Detach: r.flags.detach,
		Causes: func() string { return masters.Causes(r.locker.Stats().Nodes) },
	}
	if r.flags.maxHold > 0 {
		command.HoldEnds = acquired.Add(r.flags.maxHold)
	}
	result, err := command.Run(lock)
	if err != nil {
		r.release(lock)
		return r.messages.End("not-run", err)
	}
	if r.lost = result.Lost; r.lost {
		_ = lock.Unlock(context.Background()) //nolint:errcheck // it is no longer held, or about to end: we said so
	} else {
		r.release(lock)
		r.awaitVotes(acquired)
		r.sayDegraded(true)
	}
	switch {
	case r.lost:
		return cli.StatusError{Status: cli.ExitLost}
	case result.Status == 0:
		return nil
	}
	return cli.StatusError{Status: result.Status}
}

// release gives the lock back. The command has ended, so its status stands, unless the masters say
// that the lock was somebody else's before: then the command may not have been alone. Nobody can
// tell since when, but the last renewal found the lock ours, at most a TTL before its validity.
func (r *runner) release(lock *redlock.Lock) {
	since := lock.Until().Add(-r.flags.ttl)
	err := lock.Unlock(context.Background()) // within the node timeout
	r.unreleased = err != nil
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrLost):
		r.lost = true
		r.messages.Warn("lost", "lock %q was no longer ours when it was released, at some moment after %s: %s",
			r.flags.name, since.Format(untilLayout), cli.WithoutPrefix(err))
	default:
		r.messages.Warn("not-released", "lock %q may stay for up to %v: %s",
			r.flags.name, r.flags.stays(), cli.WithoutPrefix(err))
	}
}

// close waits at most a second for masters that have not confirmed what they were sent, above all
// releases, and then names those that still have not.
//
// Without --verbose it is silent about a lost lock: that has been reported, and its masters are
// away. It is also silent when all went well: enough masters are free for the next holder, and cron
// would mail the same line after each run for as long as one master hangs.
func (r *runner) close(well bool) {
	err := r.locker.Close()
	if err == nil || !r.flags.verbose && (r.lost || well && !r.unreleased) {
		return
	}
	var late []string
	for _, n := range r.locker.Stats().Nodes {
		if n.Dropped > 0 {
			late = append(late, n.Endpoint)
		}
	}
	r.messages.Warn("not-delivered", "the key of lock %q may stay for up to %v at %s", r.flags.name, r.flags.stays(), strings.Join(late, ", "))
}

// environment returns the environment of the command.
func (r *runner) environment(lock *redlock.Lock) []string {
	variables := []string{job.NameVariable + "=" + lock.Name(), job.UntilVariable + "=" + lock.Until().Format(untilLayout)}
	if r.flags.fence {
		variables = append(variables, job.FenceVariable+"="+strconv.FormatInt(lock.Fence(), 10))
	}
	return job.Environment(os.Environ(), variables...)
}

// notAcquired reports why there is no lock, and returns the exit status as an error.
func (r *runner) notAcquired(ctx context.Context, err error) error {
	if mayBeMisnamed(err) {
		err = cmp.Or(r.misnamed(ctx), err)
	}
	var ended interrupted
	switch {
	case cli.ExitStatus(err) == cli.ExitMisnamed:
		return r.messages.End("misnamed", err)
	case errors.As(err, &ended):
		return r.messages.End(job.Interrupted, cli.StatusError{Status: cli.ExitSignal + ended.number(), Err: ended})
	case errors.Is(err, redlock.ErrTaken):
		return r.messages.End(job.Taken, cli.StatusError{Status: r.flags.conflictStatus, Err: errors.New(r.takenText(ctx))})
	case errors.Is(err, redlock.ErrInvalid):
		return cli.InvalidUsage(err)
	default:
		return r.messages.End("no-quorum", cli.StatusError{Status: cli.ExitNoQuorum, Err: err}, r.locker.Stats().Nodes...)
	}
}

// takenText says who holds the lock, if the masters can tell.
func (r *runner) takenText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	text := fmt.Sprintf("all permits of %q are taken", r.flags.name)
	if r.flags.permits == 0 {
		status, err := r.locker.Inspect(ctx, r.flags.name)
		text = fmt.Sprintf("lock %q is taken", r.flags.name)
		switch readers := isShared(&status); {
		case err != nil:
		case readers && r.flags.shared:
			text = fmt.Sprintf("lock %q is shared, and a writer waits for it", r.flags.name)
		case readers:
			text += " by readers"
		case status.Owner != "":
			text += " by " + strconv.QuoteToGraphic(status.Owner)
		}
	}
	if r.flags.wait > 0 {
		text += fmt.Sprintf(", and was for the last %v", r.flags.wait)
	}
	return text
}

// isShared reports whether readers hold a lock.
func isShared(status *redlock.Status) bool {
	return slices.ContainsFunc(status.Nodes, func(n redlock.NodeStatus) bool {
		return len(n.Readers) > 0 && n.Value == status.Value
	})
}

// misnamed returns an error if the name is that of keys that can be no lock, see look.
func (r *runner) misnamed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	_, err := r.look(ctx)
	return err
}

// holderBound bounds the wait for the name of the holder.
const holderBound = time.Second
