package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// How a worker behaves: a short hold, a pause of about twice that, and one attempt in four does not wait. Twelve of
// them keep three locks busy for most of the time.
const (
	holdShortest = 2 * time.Millisecond
	holdLongest  = 25 * time.Millisecond
	pauseLongest = 50 * time.Millisecond
	tryOneIn     = 4
)

// worker acquires one lock after the other until its context ends. It is a goroutine of its own.
type worker struct {
	number int // from 1
	locker *redlock.Locker
	record *recorder
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.work(ctx, w.record.names[rand.N(len(w.record.names))], rand.N(tryOneIn) == 0)
		sleep(ctx, rand.N(pauseLongest))
	}
}

// work acquires a lock, holds it for a moment and releases it.
func (w *worker) work(ctx context.Context, name string, try bool) {
	asked := w.record.clock.Now()
	lock, err := w.acquire(ctx, name, try)
	began := w.record.clock.Now()
	if err != nil {
		if ctx.Err() == nil { // otherwise the end of the demo cut it short, which says nothing
			w.record.denied(try, err)
		}
		return
	}
	h := hold{name: name, worker: w.number, began: began, waited: !try, wait: began.Sub(asked)}
	w.record.begin(h)
	w.use(ctx, lock)
	h.ended = w.record.clock.Now()
	left := lock.Remaining() // read after the clock: with validity left now, the lock was held then
	if left <= 0 {
		h.ended = endOfLost(began, w.record.clock.Now(), left)
	}
	w.record.end(h, left)
	switch err := lock.Unlock(ctx); {
	case err == nil, left <= 0:
	case errors.Is(err, redlock.ErrNoQuorum):
		w.record.unconfirmed()
	default:
		w.record.failed(fmt.Errorf("unlock: %w", err))
	}
}

// endOfLost returns when the validity of a lost lock ended, which may be long before its holder noticed, and even before it
// knew that it had it. Left is what Lock.Remaining said before now: zero or less.
func endOfLost(began, now clock.Instant, left time.Duration) clock.Instant {
	return max(now.Add(left), began)
}

func (w *worker) acquire(ctx context.Context, name string, try bool) (*redlock.Lock, error) {
	if try {
		return w.locker.TryLock(ctx, name)
	}
	ctx, cancel := context.WithTimeout(ctx, demoLockBound)
	defer cancel()
	return w.locker.Lock(ctx, name)
}

// use is the work that the lock protects. It ends when it is done, when the lock is lost, or with the demo.
func (w *worker) use(ctx context.Context, lock *redlock.Lock) {
	timer := time.NewTimer(holdShortest + rand.N(holdLongest-holdShortest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lock.Done():
	case <-ctx.Done():
	}
}
