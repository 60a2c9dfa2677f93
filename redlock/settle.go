package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// settle waits until a quorum of nodes votes, or it is clear that none will for now; half of the
// time that a round has at most, so that those that vote still can. It costs nothing where a quorum
// votes.
func (l *Locker) settle(ctx context.Context, timeout time.Duration) {
	e := l.voters
	if e.present.Load().enough {
		return
	}
	until := l.clock.Now().Add(timeout / 2)
	for !e.present.Load().enough {
		e.mu.Lock()
		undecided := false
		for i := range e.standings {
			undecided = undecided || e.undecidedLocked(i)
		}
		if !undecided || e.stopped {
			e.mu.Unlock()
			return
		}
		if e.waiting == nil {
			e.waiting = make(chan struct{})
		}
		changed := e.waiting
		e.mu.Unlock()
		if !l.await(ctx, changed, until) {
			return
		}
	}
}

// await waits for a channel to be closed, and reports false where the instant, the end of ctx or of
// the Locker came first.
func (l *Locker) await(ctx context.Context, changed <-chan struct{}, until clock.Instant) bool {
	late := make(chan struct{})
	timer := l.clock.AfterFunc(max(until.Sub(l.clock.Now()), 0), func() { close(late) })
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-late:
	case <-ctx.Done():
	case <-l.closing:
	}
	return false
}
