// Package election elects a leader among any number of processes, with the locks of package
// redlock: at most one leads at any moment, whatever the network does.
//
// Each candidate has an [Election] and calls [Election.Run]. The leader holds the fenced lock of
// the election's name, so everything that is said of locks holds of leaders: a majority of the
// masters decides, the lock is renewed while its holder lives, a release hands it to the candidate
// that has waited longest, and after a crash it is free when its TTL ends. `redlock inspect` shows
// the leader. `redlock unlock --force` deposes it, and as with any lock, it learns of that at its
// next renewal only (docs/safety.md, What you can void).
//
// # Terms
//
// Each leadership has a term: the fencing token of its lock ([redlock.Lock.Fence]). Terms grow, and
// no two are equal. A leader that was stopped beyond its validity does not know yet that another
// one leads. What it writes to can tell: it remembers the largest term that it has seen, and
// refuses smaller ones (package fence).
//
// # The record
//
// Before a candidate leads, a majority of the masters has its term on record, in a sorted set
// beside the lock: the newest 256 terms of each name, until ten times the longest TTL (at least ten
// minutes) have passed since the last of them. So [Election.Leader] tells a leader from a holder
// that is not elected yet, and [Election.Watch] learns of every term, however short it was. A
// record that masters lose is written again while its leader leads.
package election

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/redlock"
)

// Election is a candidate for one leadership. Its methods may be called from any goroutine. It must
// not be copied.
type Election struct {
	locker *redlock.Locker
	door   door.Door
	name   string
	id     string
	opts   []redlock.LockOption

	mu      sync.Mutex // guards the fields below; never held over a call to a master
	running bool
	term    *term         // ours, from before lead is called until its lock is released; or nil
	past    *redlock.Lock // of the last term, if its release was not confirmed; nil while another is ours
	changed chan struct{} // closed and renewed when term changes
}

// New returns a candidate for the leadership of that name. It sends nothing: [Election.Run] makes
// it campaign. The name is that of a lock ([redlock.Locker.TryLock]), which nothing else should
// use. All candidates and watchers need a Locker with the same masters and key prefix. The Locker
// stays the caller's; close it when Run has returned. Errors match [ErrInvalid].
func New(locker *redlock.Locker, name string, opts ...Option) (*Election, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case locker == nil:
		return nil, invalid("locker is nil")
	}
	lock := append(cfg.lock, redlock.WithFencing(), redlock.WithOwner(cfg.id), door.Office.(redlock.LockOption))
	// With a context that has ended, the Locker checks its arguments and sends nothing.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := locker.TryLock(ended, name, lock...); errors.Is(err, redlock.ErrInvalid) {
		return nil, invalid("%w", err)
	}
	return &Election{
		locker: locker, door: door.Of(locker), name: name, id: cfg.id, opts: lock, changed: make(chan struct{}),
	}, nil
}

// Run campaigns until it is elected, then calls lead with the term, again and again until ctx ends.
//
// The leadership ends when the context of lead does: when ctx ends, [Election.Resign] is called, or
// the lock is lost (it could not be renewed in time, or masters say that it is no longer ours).
// That is always before another candidate can be elected; context.Cause says why. If the lock was
// lost, another candidate may lead while lead goes on, so lead must return soon and do nothing
// more. What must never happen twice needs the term (see the package comment). Once lead has
// returned, Run gives the lock up if it still has it. It campaigns again when another candidate has
// the lock, or none has taken it for a second.
//
// If lead returns while it still leads, Run gives up the leadership and returns lead's error. Run
// returns nil when ctx has ended, unless lead then returned an error that is not of its context. It
// waits through outages of the masters. Further errors: [ErrInvalid], [ErrRunning] if Run has
// not returned yet, [redlock.ErrClosed], [redlock.ErrInvalid] for what only the masters know (such
// as a TTL above the cluster's maximum), and [redlock.ErrNoQuorum] if a majority of the
// masters forbids the record of terms (an ACL). A panic in lead continues once the lock is
// released.
//
// Closing the Locker gives the lock up at once, without waiting for lead to return: end ctx first.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term int64) error) error {
	switch {
	case ctx == nil:
		return invalid("ctx is nil")
	case lead == nil:
		return invalid("lead is nil")
	case !e.start():
		return ErrRunning
	}
	defer e.stop()
	for {
		lock, err := e.locker.Lock(ctx, e.name, e.opts...)
		switch {
		case errors.Is(err, redlock.ErrClosed):
			return fmt.Errorf("election: %w", err)
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("election: %w", err)
		}
		if over, err := e.serve(ctx, lock, lead); over {
			return err
		}
		e.yield(ctx, lock)
	}
}

func (e *Election) start() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.running
	e.running = true
	return !was
}

func (e *Election) stop() {
	e.mu.Lock()
	e.running = false
	e.mu.Unlock()
}

// IsLeader reports whether this Election leads: lead runs and its context has not ended. It reads
// the clock, so it is never late. But it is about this moment only: what must not outlast the
// leadership needs the context of lead.
func (e *Election) IsLeader() bool {
	t := e.current()
	return t != nil && t.leads()
}

// Resign ends the leadership of this Election, if it leads: it ends the context of lead, waits
// until lead has returned, and releases the lock, which hands it to the candidate that has waited
// longest. Run campaigns again as after every term.
//
// It returns nil when a majority of the masters has confirmed the release, or there was nothing to
// release. Otherwise the leadership is over too, but others may have to wait until its TTL ends
// ([redlock.ErrNoQuorum]), or lead has not returned when ctx ends. Called again, it tells what has
// become of the release by now ([redlock.Lock.Unlock]). In lead, Resign must be called with lead's
// context, or a child of it: then it returns nil at once, even if the leadership was over already,
// and lead must return.
func (e *Election) Resign(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	e.mu.Lock()
	t, past := e.term, e.past
	e.mu.Unlock()
	switch {
	case t == nil && past != nil:
		return release(ctx, past)
	case t == nil:
		return nil
	}
	t.end(ErrResigned)
	if ctx.Value(t) != nil { // in lead, which cannot return before Resign does
		return nil
	}
	select {
	case <-t.over:
		return t.unreleased
	case <-ctx.Done():
		return fmt.Errorf("election: resign %q: lead has not returned: %w", e.name, context.Cause(ctx))
	}
}

func (e *Election) current() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// release gives a lock up, unless it was lost: then there is nothing to release.
func release(ctx context.Context, lock *redlock.Lock) error {
	if err := lock.Unlock(ctx); !errors.Is(err, redlock.ErrLost) {
		return err
	}
	return nil
}

// set changes the term and tells watchers. Past is the lock of the last one, if its release was not
// confirmed.
func (e *Election) set(t *term, past *redlock.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.past = t, past
	close(e.changed)
	e.changed = make(chan struct{})
}

// changes returns a channel that is closed when this Election next begins or ends a term.
func (e *Election) changes() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}
