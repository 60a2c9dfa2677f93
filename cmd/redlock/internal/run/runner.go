package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock"
)

// untilLayout is RFC 3339 with milliseconds.
const untilLayout = "2006-01-02T15:04:05.000Z07:00"

// holder is one redlock run.
type holder struct {
	*runner
	flags *runFlags
	watch *watch

	lost         bool // the lock was lost, and we said so
	unreleased   bool // no quorum of masters has confirmed the release
	saidDegraded int  // how many masters without a vote were named
}

// run acquires, runs and releases, in this order whatever happens, and returns the exit status as
// an error.
func (h *holder) run(ctx context.Context) (err error) {
	defer func() { h.close(err == nil || cli.ExitStatus(err) == 0) }()
	lock, err := h.acquire(ctx)
	if err != nil {
		return h.notAcquired(ctx, err)
	}
	acquired := h.clock.Now()
	h.sayDegraded(false)
	job.Notify(h.signals, job.RunningSignals) // before the command could miss one
	command := h.job(lock.Value(), h.variables(lock)...)
	if h.flags.maxHold > 0 {
		command.HoldEnds = acquired.Add(h.flags.maxHold)
	}
	notes := h.noteBegan(lock.Value())
	command.Left = notes.left
	result, err := h.under(ctx, lock, &command)
	if err != nil {
		h.giveUp(lock)
		notes.ended(job.Result{Status: cli.ExitStatus(err)})
		return h.messages.End("not-run", err)
	}
	if h.lost = result.Lost; h.lost {
		_ = lock.Unlock(context.Background()) //nolint:errcheck // it is no longer held, or about to end: we said so
	} else {
		if why := h.release(lock); h.lost {
			result.Lost, result.Why = true, why
		}
		h.awaitVotes(acquired)
		h.sayDegraded(true)
	}
	notes.ended(result)
	switch {
	case h.lost:
		return cli.StatusError{Status: cli.ExitLost}
	case result.Status == 0:
		return nil
	}
	return cli.StatusError{Status: result.Status}
}

// under runs the command, which ends also when another run asks for that. Readers and permits are
// several, of which nobody can ask one.
func (h *holder) under(ctx context.Context, lock *redlock.Lock, command *job.Job) (job.Result, error) {
	if h.flags.shared || h.flags.permits > 0 {
		return command.Run(lock)
	}
	ctx, cancel := context.WithCancel(ctx)
	var by string
	var watcher sync.WaitGroup
	watcher.Go(func() { by = h.heed(ctx, lock.Value()) })
	result, err := command.Run(lock)
	cancel()
	watcher.Wait()
	if by != "" && !result.Lost {
		result.Why = "replaced by " + by
	}
	return result, err
}

// release gives the lock back. The command has ended, so its status stands, unless the masters say
// that the lock was somebody else's before: then the command may not have been alone. Nobody can
// tell since when, but the last renewal found the lock ours, at most a TTL before its validity.
// It returns why the lock was lost; empty if it was not.
func (h *holder) release(lock *redlock.Lock) (lost string) {
	since := h.until(lock).Add(-h.ttl)
	err := lock.Unlock(context.Background()) // within the node timeout
	h.unreleased = err != nil
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrLost):
		h.lost = true
		h.messages.Warn("lost", "lock %q was no longer ours when it was released, at some moment after %s: %s",
			h.name, since.Format(untilLayout), cli.WithoutPrefix(err))
		return cli.WithoutPrefix(err)
	default:
		h.messages.Warn("not-released", "lock %q may stay for up to %v: %s",
			h.name, h.flags.stays(), cli.WithoutPrefix(err))
	}
	return ""
}

// giveUp gives back a lock under which nothing ran: its minimum hold would keep everybody from work
// that is not done. A release leaves the key for the rest of that time, and an adoption takes it
// from there without a minimum hold of its own. If that fails, the name stays taken, which is safe.
func (h *holder) giveUp(lock *redlock.Lock) {
	h.release(lock)
	if h.flags.atLeast == 0 || h.lost {
		return
	}
	ctx := context.Background() // both are within the node timeout
	adopted, err := h.locker.Adopt(ctx, h.name, lock.Value(), redlock.WithMinHold(0))
	if err == nil {
		err = adopted.Unlock(ctx)
	}
	if err != nil && !errors.Is(err, redlock.ErrLost) { // it has ended by itself
		h.unreleased = true
		h.messages.Warn("not-released", "nothing ran, but lock %q stays taken for up to %v: %s",
			h.name, h.flags.stays(), cli.WithoutPrefix(err))
	}
}

// close waits at most a second for masters that have not confirmed what they were sent, above all
// releases, and then names those that still have not.
//
// Without --verbose it is silent about a lost lock: that has been reported, and its masters are
// away. It is also silent when all went well: enough masters are free for the next holder, and cron
// would mail the same line after each run for as long as one master hangs.
func (h *holder) close(well bool) {
	err := h.locker.Close()
	if err == nil || !h.verbose && (h.lost || well && !h.unreleased) {
		return
	}
	var late []string
	for _, n := range h.locker.Stats().Nodes {
		if n.Dropped > 0 {
			late = append(late, n.Endpoint)
		}
	}
	h.messages.Warn("not-delivered", "the key of lock %q may stay for up to %v at %s", h.name, h.flags.stays(), strings.Join(late, ", "))
}

// variables returns those that tell the command of the lock.
func (h *holder) variables(lock *redlock.Lock) []string {
	variables := []string{job.NameVariable + "=" + lock.Name(), job.UntilVariable + "=" + h.until(lock).Format(untilLayout)}
	if h.flags.fence {
		variables = append(variables, job.FenceVariable+"="+strconv.FormatInt(lock.Fence(), 10))
	}
	return variables
}

// until returns when the validity ends by the wall clock.
func (h *holder) until(lock *redlock.Lock) time.Time { return h.clock.Wall().Add(lock.Remaining()) }

// notAcquired reports why there is no lock, and returns the exit status as an error.
func (h *holder) notAcquired(ctx context.Context, err error) error {
	if mayBeMisnamed(err) {
		err = cmp.Or(h.misnamed(ctx), err)
	}
	if !errors.Is(err, redlock.ErrTaken) {
		h.noteMiss(err)
	}
	var ended interrupted
	var itself *nestedError
	var deaf *deafError
	switch {
	case cli.ExitStatus(err) == cli.ExitMisnamed:
		return h.messages.End("misnamed", err)
	case errors.As(err, &itself):
		return h.messages.End("nested", err)
	case errors.As(err, &deaf):
		return h.notReplaced(deaf)
	case errors.As(err, &ended):
		return h.messages.End(job.Interrupted, cli.StatusError{Status: ended.status(), Err: ended})
	case errors.Is(err, redlock.ErrTaken):
		return h.taken(ctx)
	case errors.Is(err, redlock.ErrInvalid):
		return cli.InvalidUsage(err)
	default:
		return h.messages.End("no-quorum", cli.StatusError{Status: cli.ExitNoQuorum, Err: err}, h.locker.Stats().Nodes...)
	}
}

// misnamed returns an error if the name is that of keys that can be no lock, see look.
func (h *holder) misnamed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	_, err := h.look(ctx)
	return err
}

const (
	// splitBound bounds how long --no-wait retries while nobody holds the lock and nobody can get
	// it: the votes are split among many that ask at once, and one of them should win.
	splitBound    = 5 * time.Second
	splitShortest = 20 * time.Millisecond
	splitLongest  = 250 * time.Millisecond
)

// acquire returns the lock, or why it could not be acquired: interrupted if a signal came first.
func (h *holder) acquire(ctx context.Context) (*redlock.Lock, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mute := h.listen(cancel, "waiting")
	lock, err := h.wait(ctx)
	mute()
	var ended interrupted
	if !errors.As(context.Cause(ctx), &ended) {
		return lock, err
	}
	if err == nil {
		h.giveUp(lock)
	}
	return nil, ended
}

func (h *holder) wait(ctx context.Context) (*redlock.Lock, error) {
	if h.flags.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.flags.wait)
		defer cancel()
	}
	if h.flags.noWait {
		if err := h.ready(ctx, connectBound); err != nil {
			return nil, err
		}
		if err := h.nested(ctx, false); err != nil {
			return nil, err
		}
		return h.try(ctx)
	}
	waiting, end := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { h.watchWait(waiting, end) })
	defer func() {
		end(nil)
		watcher.Wait()
	}()
	if err := h.ready(ctx, h.flags.wait); err != nil {
		return nil, err
	}
	if err := h.nested(ctx, false); err != nil {
		return nil, err
	}
	ask := func(ctx context.Context) (*redlock.Lock, error) { return h.ask(ctx, false) }
	if h.flags.replace {
		ask = h.replace
	}
	lock, err := ask(waiting)
	var permanent *permanentError
	if errors.As(context.Cause(waiting), &permanent) && err != nil {
		err = permanent.err
	}
	return lock, err
}

// try acquires the lock unless somebody holds it. When many ask at once and none gets a quorum,
// they must not all give up: cron starts them in the same second. Nor does one try give up because
// a master once did not answer in time.
func (h *holder) try(ctx context.Context) (*redlock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, splitBound)
	defer cancel()
	pause := clock.Backoff{Shortest: splitShortest, Longest: splitLongest}
	var last error
	for {
		lock, err := h.ask(ctx, true)
		if err == nil || errors.Is(err, redlock.ErrInvalid) {
			return lock, err
		}
		if last == nil || ctx.Err() == nil {
			last = err // an attempt that was cut short says less
		}
		if mayBeMisnamed(err) {
			held, misnamed := h.look(ctx)
			if misnamed != nil {
				return nil, misnamed
			}
			if held && errors.Is(err, redlock.ErrTaken) {
				return nil, last
			}
		}
		if !clock.Sleep(ctx, h.clock, pause.Next()) {
			return nil, last
		}
	}
}

// ask asks for the lock, once or until it is there.
func (h *holder) ask(ctx context.Context, once bool) (*redlock.Lock, error) {
	if h.flags.permits > 0 {
		semaphore, err := h.locker.Semaphore(h.name, h.flags.permits)
		switch {
		case err != nil:
			return nil, err
		case once:
			return semaphore.TryAcquire(ctx)
		default:
			return semaphore.Acquire(ctx)
		}
	}
	lock := h.locker.Lock
	switch {
	case h.flags.shared && once:
		lock = h.locker.TryRLock
	case h.flags.shared:
		lock = h.locker.RLock
	case once:
		lock = h.locker.TryLock
	}
	return lock(ctx, h.name)
}

// look reports whether a quorum holds the same value under the name, or under each of the permits
// of that name: the lock, or all permits, are granted. Readers have the same value, so for a reader
// that was refused it means that a writer has the lock or waits for it. It returns an error if each
// of these keys can be no lock ([cli.Misnamed]): then nobody will ever get one.
func (h *holder) look(ctx context.Context) (held bool, misnamed error) {
	for i := range max(h.flags.permits, 1) {
		name := h.name
		if h.flags.permits > 0 {
			name += "#" + strconv.Itoa(i+1)
		}
		status, err := admin.Of(h.locker).Inspect(ctx, name)
		wrong := cli.Misnamed(h.nodes.KeyPrefix+name, &status)
		if wrong == nil && (err != nil || status.Value == "") {
			return false, nil
		}
		if i == 0 || wrong == nil {
			misnamed = wrong
		}
	}
	return true, misnamed
}

// mayBeMisnamed reports whether the failure of an attempt can come from a key that is no lock.
func mayBeMisnamed(err error) bool {
	var failure *redlock.QuorumError
	return errors.Is(err, redlock.ErrTaken) || errors.As(err, &failure) &&
		slices.ContainsFunc(failure.Nodes, func(n *redlock.NodeError) bool { return trouble.Of(n) == trouble.NoString })
}
