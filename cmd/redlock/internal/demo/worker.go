package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// worker acquires the lock again and again until its context ends, each time for a moment in which
// it writes to the store. It is a goroutine and has a Locker of its own, as a process would.
type worker struct {
	number int // from 1
	config *config
	locker *redlock.Locker
	cable  *cable
	store  *store
	order  *stopOrder
	record *recorder
}

// stopOrder stops the first worker that gets the lock after a given moment, and no other.
type stopOrder struct {
	at    time.Duration // since the start
	taken atomic.Bool
	done  chan struct{} // closed when the stopped worker has written
}

func (o *stopOrder) take(now time.Duration) bool {
	return now >= o.at && o.taken.CompareAndSwap(false, true)
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.work(ctx)
		sleep(ctx, w.config.rest())
	}
}

func (w *worker) work(ctx context.Context) {
	w.record.asks(w.number)
	lock, err := w.locker.Lock(ctx, lockName)
	if err != nil {
		// Otherwise the end of the demo cut it short, which says nothing.
		if ctx.Err() == nil {
			w.record.failed(w.number, err)
		}
		return
	}
	began := w.record.begins(w.number)
	if _, passed := w.store.write(lock.Fence()); !passed && lock.Remaining() > 0 {
		w.record.wronged()
	}
	if w.order.take(began) {
		w.stop(ctx, lock)
	} else {
		w.use(ctx, lock)
	}
}

// use is the work that the lock protects. It ends when it is done, when the lock is lost, or with
// the demo.
func (w *worker) use(ctx context.Context, lock *redlock.Lock) {
	shortest, longest := w.config.holds()
	timer := time.NewTimer(shortest + rand.N(longest-shortest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lock.Done():
	case <-ctx.Done():
	}
	w.release(ctx, lock)
}

// release records the end of the hold, and releases the lock unless it is lost.
func (w *worker) release(ctx context.Context, lock *redlock.Lock) {
	if w.recordEnd(lock) {
		return
	}
	switch err := lock.Unlock(ctx); {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		w.record.unconfirmed()
	default:
		w.record.failed(w.number, fmt.Errorf("unlock: %w", err))
	}
}

// recordEnd records that the hold ends now, or ended when the lock was lost, and reports whether it
// was lost.
func (w *worker) recordEnd(lock *redlock.Lock) (lost bool) {
	ended := w.record.elapsed()
	// Read after the clock: if validity is left now, the lock was held then.
	left := lock.Remaining()
	if lost = left <= 0; lost {
		ended = endOfLost(w.record.elapsed(), left)
	}
	w.record.ends(w.number, ended, lost)
	return lost
}

// endOfLost returns when the validity of a lost lock ended, which may be long before its holder
// noticed. Left is an earlier result of Lock.Remaining: zero or less.
func endOfLost(now, left time.Duration) time.Duration { return now + left }

// stop is what happens to a process that is stopped while it holds the lock: it cannot renew the
// lock, and does not see that it loses it. When it continues, it writes first and checks the lock
// after that, too late.
func (w *worker) stop(ctx context.Context, lock *redlock.Lock) {
	w.record.stopped(w.number, lock.Fence())
	w.cable.unplug()
	defer w.cable.plug()
	select {
	case <-lock.Done(): // for the record: the worker itself is asleep
	case <-ctx.Done():
	}
	if !w.recordEnd(lock) {
		w.cable.plug()
		_ = lock.Unlock(ctx) //nolint:errcheck // the demo was ended early; the lock ends by itself
		return
	}
	// Sleep on until others have worked in its place.
	if !sleep(ctx, w.config.ttl()/2) {
		return
	}
	for !w.store.ahead(lock.Fence()) {
		if !sleep(ctx, time.Millisecond) {
			return
		}
	}
	seen, passed := w.store.write(lock.Fence())
	w.record.wroteLate(seen, passed, lock.Err())
	close(w.order.done)
}
