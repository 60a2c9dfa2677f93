package run

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// connectBound bounds the wait for a first quorum of masters, unless --wait gives another
	// bound. Cron jobs that cannot reach the masters must not pile up.
	connectBound = 5 * time.Second
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
		h.release(lock)
	}
	return nil, ended
}

func (h *holder) wait(ctx context.Context) (*redlock.Lock, error) {
	connect := connectBound
	if h.flags.wait > 0 {
		connect = h.flags.wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.flags.wait)
		defer cancel()
	}
	ready, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	if h.flags.noWait {
		if err := h.locker.Ready(ready); err != nil {
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
	if err := h.locker.Ready(ready); err != nil {
		return nil, err
	}
	lock, err := h.ask(waiting, false)
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
		status, err := h.locker.Inspect(ctx, name)
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
	return errors.Is(err, redlock.ErrTaken) || prose.IsWrongType(err)
}
