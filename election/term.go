package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// A term that could not be recorded is tried again after a pause that grows from the first to
	// the second.
	recordMin = 10 * time.Millisecond
	recordMax = time.Second

	// recordEvery is how often a leader records its term again: masters that have lost it, or were
	// away, have it that long after they are back.
	recordEvery = 5 * time.Second

	// After a term, Run stands back until another candidate has the lock, for as long as the
	// slowest of them takes to poll. The pause between two looks grows from lookMin to lookMax.
	standBack = time.Second
	lookMin   = 4 * time.Millisecond
	lookMax   = 100 * time.Millisecond
)

// term is one leadership of ours:
//
//	lock acquired ──▶ term recorded ──▶ lead runs ──▶ its context ends ──▶ lead returns ──▶ released
//
// The order is what makes it exclusive. The context ends, by the local clock, before the lock can
// be anybody else's. If it ends while the lock is ours, the lock is released only after lead has
// returned.
type term struct {
	lock  *redlock.Lock
	ended <-chan struct{}         // closed when the context of lead ends
	end   context.CancelCauseFunc // ends it
	over  chan struct{}           // closed once the lock is released

	unreleased error // of the release; written before over is closed
}

// leads reads the clock, which ends a context that is late.
func (t *term) leads() bool {
	if t.lock.Err() != nil {
		return false
	}
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// serve leads for one term. It reports whether Run is over, and what it returns.
func (e *Election) serve(ctx context.Context, lock *redlock.Lock, lead func(context.Context, int64) error) (over bool, err error) {
	t := &term{lock: lock, over: make(chan struct{})}
	resignable, end := context.WithCancelCause(context.WithValue(ctx, t, true)) // Resign asks whether it is in lead
	work := lock.Context(resignable)
	t.ended, t.end = work.Done(), end
	var recorder sync.WaitGroup
	defer func() { // whatever becomes of lead
		end(nil)
		recorder.Wait()
		var past *redlock.Lock
		if t.unreleased = release(ctx, lock); t.unreleased != nil {
			past = lock
		}
		e.set(nil, past)
		close(t.over)
	}()
	if err := e.record(work, lock); err != nil {
		return isForbidden(err), fmt.Errorf("election: %w", err)
	}
	if !t.leads() { // lost before the record was complete
		return false, nil
	}
	e.set(t, nil)
	recorder.Go(func() {
		for clock.Sleep(work, e.door.Clock, recordEvery) {
			_ = e.write(work, lock) //nolint:errcheck // it is tried again
		}
	})
	err = lead(work, lock.Fence())
	switch {
	case t.leads():
		return true, err
	case ctx.Err() == nil:
		return false, nil
	case errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)):
		return true, nil
	default:
		return true, err
	}
}

// record writes the term down until a quorum of masters has it, the lock is lost, or ctx ends. A
// candidate leads only if it still has the lock then. So the record of a term is complete before
// the next one begins (watcher.news relies on it).
func (e *Election) record(ctx context.Context, lock *redlock.Lock) error {
	pause := clock.Backoff{Shortest: recordMin, Longest: recordMax}
	for {
		err := e.write(ctx, lock)
		if err == nil || isForbidden(err) || !clock.Sleep(ctx, e.door.Clock, pause.Next()) {
			return err
		}
	}
}

func (e *Election) write(ctx context.Context, lock *redlock.Lock) error {
	return e.door.WriteTerm(ctx, e.name, ledger.Entry{Term: lock.Fence(), Value: lock.Value()})
}

// yield waits after a term until another candidate has the lock, or none seems to want it. Usually
// the release has handed it over. But a candidate that was cut off for a while may wait at another
// master than the others, or poll, and would be overtaken. So would one that waits for a lock that
// was lost.
func (e *Election) yield(ctx context.Context, past *redlock.Lock) {
	clk := e.door.Clock
	pause := clock.Backoff{Shortest: lookMin, Longest: lookMax}
	for until := clk.Now().Add(standBack); clk.Now() < until && clock.Sleep(ctx, clk, pause.Next()); {
		page, err := e.door.ReadTerms(ctx, e.name, 0, newestTerms)
		if err != nil {
			return // Lock waits until masters answer
		}
		if holder := holderOf(page); holder != "" && holder != past.Value() {
			return
		}
	}
}
