package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
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

// interrupted is the signal that ended a wait for the lock.
type interrupted struct{ signal os.Signal }

func (e interrupted) Error() string { return fmt.Sprintf("ended while waiting: %v", e.signal) }

func (e interrupted) number() int {
	number, _ := e.signal.(syscall.Signal)
	return int(number)
}

// acquire returns the lock, or why it could not be acquired: interrupted if a signal came first. A
// later signal stays in the channel and goes to the command.
func (r *runner) acquire(ctx context.Context, signals <-chan os.Signal) (*redlock.Lock, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listener sync.WaitGroup
	over := make(chan struct{})
	listener.Go(func() {
		select {
		case s := <-signals:
			cancel(interrupted{s})
		case <-over:
		}
	})
	lock, err := r.wait(ctx)
	close(over)
	listener.Wait()
	var ended interrupted
	if !errors.As(context.Cause(ctx), &ended) {
		return lock, err
	}
	if err == nil {
		r.release(lock)
	}
	return nil, ended
}

func (r *runner) wait(ctx context.Context) (*redlock.Lock, error) {
	connect := connectBound
	if r.flags.wait > 0 {
		connect = r.flags.wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.flags.wait)
		defer cancel()
	}
	ready, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	if r.flags.noWait {
		if err := r.locker.Ready(ready); err != nil {
			return nil, err
		}
		return r.try(ctx)
	}
	waiting, end := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.watchWait(waiting, end) })
	defer func() {
		end(nil)
		watcher.Wait()
	}()
	if err := r.locker.Ready(ready); err != nil {
		return nil, err
	}
	lock, err := r.await(waiting)
	var permanent *permanentError
	if errors.As(context.Cause(waiting), &permanent) && err != nil {
		err = permanent.err
	}
	return lock, err
}

func (r *runner) await(ctx context.Context) (*redlock.Lock, error) {
	switch {
	case r.flags.shared:
		return r.locker.RLock(ctx, r.flags.name)
	case r.flags.permits == 0:
		return r.locker.Lock(ctx, r.flags.name)
	}
	semaphore, err := r.locker.Semaphore(r.flags.name, r.flags.permits)
	if err != nil {
		return nil, err
	}
	return semaphore.Acquire(ctx)
}

// try acquires the lock unless somebody holds it. When many ask at once and none gets a quorum,
// they must not all give up: cron starts them in the same second. Nor does one try give up because
// a master once did not answer in time.
func (r *runner) try(ctx context.Context) (*redlock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, splitBound)
	defer cancel()
	pause := clock.Backoff{Shortest: splitShortest, Longest: splitLongest}
	var last error
	for {
		lock, err := r.tryOnce(ctx)
		if err == nil || errors.Is(err, redlock.ErrInvalid) {
			return lock, err
		}
		if last == nil || ctx.Err() == nil {
			last = err // an attempt that was cut short says less
		}
		if mayBeMisnamed(err) {
			held, misnamed := r.look(ctx)
			if misnamed != nil {
				return nil, misnamed
			}
			if held && errors.Is(err, redlock.ErrTaken) {
				return nil, last
			}
		}
		if !clock.Sleep(ctx, r.clock, pause.Next()) {
			return nil, last
		}
	}
}

func (r *runner) tryOnce(ctx context.Context) (*redlock.Lock, error) {
	switch {
	case r.flags.shared:
		return r.locker.TryRLock(ctx, r.flags.name)
	case r.flags.permits == 0:
		return r.locker.TryLock(ctx, r.flags.name)
	}
	semaphore, err := r.locker.Semaphore(r.flags.name, r.flags.permits)
	if err != nil {
		return nil, err
	}
	return semaphore.TryAcquire(ctx)
}

// look reports whether a quorum holds the same value under the name, or under each of the permits
// of that name: the lock, or all permits, are granted. Readers have the same value, so for a reader
// that was refused it means that a writer has the lock or waits for it. It returns an error if each
// of these keys can be no lock ([cli.Misnamed]): then nobody will ever get one.
func (r *runner) look(ctx context.Context) (held bool, misnamed error) {
	for i := range max(r.flags.permits, 1) {
		name := r.flags.name
		if r.flags.permits > 0 {
			name += "#" + strconv.Itoa(i+1)
		}
		status, err := r.locker.Inspect(ctx, name)
		wrong := cli.Misnamed(r.flags.nodes.KeyPrefix+name, &status)
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
