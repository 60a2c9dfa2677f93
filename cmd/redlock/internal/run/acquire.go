package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// connectBound is how long masters may take until a quorum of them answers for the first time, where no --wait says
	// otherwise: a cron job that cannot reach them must not pile up.
	connectBound = 5 * time.Second
	// splitBound is how long --no-wait asks again while nobody holds the lock, although it cannot be had: votes are split
	// between many that ask in the same moment, and one of them should get it.
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

// acquire returns the lock, or why it was not had: interrupted where a signal came first. A signal that comes later stays in the
// channel, and is the command's.
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
	if err := r.locker.Ready(ready); err != nil {
		return nil, err
	}
	if r.flags.noWait {
		return r.try(ctx)
	}
	return r.locker.Lock(ctx, r.flags.name)
}

// try acquires the lock unless somebody holds it. That many ask at once, and none gets a quorum, is no reason for all of
// them to give up: cron starts them in the same second. Nor is a master that does not answer in time for once.
func (r *runner) try(ctx context.Context) (*redlock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, splitBound)
	defer cancel()
	pause := clock.Backoff{Shortest: splitShortest, Longest: splitLongest}
	var last error
	for {
		lock, err := r.locker.TryLock(ctx, r.flags.name)
		if err == nil || errors.Is(err, redlock.ErrInvalid) {
			return lock, err
		}
		if last == nil || ctx.Err() == nil {
			last = err // one that was cut short says less
		}
		if errors.Is(err, redlock.ErrTaken) {
			if status, err := r.locker.Inspect(ctx, r.flags.name); err == nil && status.Value != "" {
				return nil, last // a quorum holds one value: it was granted
			}
		}
		if !clock.Sleep(ctx, r.clock, pause.Next()) {
			return nil, last
		}
	}
}
