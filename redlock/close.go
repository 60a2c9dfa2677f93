package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/round"
)

// closePatience is how long Close waits for nodes that owe an answer to a release: long enough to
// dial one anew that was away for a moment, and short enough for a program that ends.
const closePatience = time.Second

// Close releases all locks that are held, undoes what was left of lost ones, waits until the nodes
// have answered or have been given up, and ends all that the Locker runs in the background. It
// takes about two node timeouts at most; where a node that may have one of the locks has not
// answered a release then, up to a second more. Calls that are under way and later ones end with
// [ErrClosed]; a second Close waits for the first, and returns the same.
//
// The error is nil, or [ErrUndelivered] with a [*NodeError] for each node that has still not
// answered: its keys stay until their TTL ends, and are free everywhere else. Nodes of
// [NewFromNodes] stay open and deliver what is left when they can, so Close does not wait for them:
// see [pool.Node.Drain].
func (l *Locker) Close() error {
	if l.life.close() {
		// From here on no lock is added: hold looks at closed before it adds one.
		l.releaseHeld(ErrClosed)
		l.undoLost(l.renewals.All())
		l.life.leave()
	}
	<-l.life.idle
	l.life.ending.Do(l.end)
	return l.life.undelivered
}

// end is the rest of Close, when no call is under way any more.
func (l *Locker) end() {
	l.expiry.Stop()
	l.renewals.Stop()
	l.releaseHeld(ErrClosed)     // what was off the schedule for the moment in which it was looked at
	l.undoLost(l.renewals.All()) // what was lost meanwhile
	l.desk.Subscriptions.Close()
	l.members.Stop()
	if l.owns {
		l.life.undelivered = l.drain()
		l.events.undelivered(l.life.undelivered)
	}
	l.events.stop()
	if l.owns {
		closeNodes(l.nodes)
	}
}

// undoLost undoes at once those of the locks that were lost and are to be undone later. The time
// until then is the holder's, to notice that its validity has ended (planUndoLocked); one that
// closes its Locker has no more use for it, as little as for that of the locks that are released
// with it. Nobody else is in danger: the validity is over before this is sent, the value is the
// lock's own, and on each connection this is behind all that may have written it.
func (l *Locker) undoLost(locks []*Lock) {
	inChunks(locks, func(lock *Lock) *round.Round {
		lock.mu.Lock()
		defer lock.mu.Unlock()
		l.renewals.Remove(lock)
		if lock.state != lost || lock.release != nil {
			return nil
		}
		return lock.undoNowLocked()
	})
}

// drain waits for the nodes that owe an answer to a release, and returns which of them still do
// then.
func (l *Locker) drain() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := l.clock.AfterFunc(closePatience, cancel)
	defer timer.Stop()
	left := make([]int, len(l.nodes))
	var all sync.WaitGroup
	for i, node := range l.nodes {
		all.Go(func() { left[i] = node.Drain(ctx) })
	}
	all.Wait()
	err, sep := ErrUndelivered, ": "
	for i, node := range l.nodes {
		if left[i] == 0 {
			continue
		}
		why := node.Stats().Err
		if why == nil {
			why = pool.ErrTimeout
		}
		err = fmt.Errorf("%w%s%w", err, sep, &NodeError{Endpoint: node.Endpoint(), Err: fmt.Errorf("%d of them: %w", left[i], why)})
		sep = "; "
	}
	if sep == ": " {
		return nil
	}
	return err
}

// life counts what is under way in a Locker, and ends once it is closed and nothing is.
type life struct {
	closing chan struct{} // closed by close
	mu      sync.Mutex    // guards the fields below; never held over a call to a node
	closed  bool
	running int           // calls and rounds under way
	idle    chan struct{} // closed when closed is set and running is 0

	ending      sync.Once // the rest of Close
	undelivered error     // what Close returns; written in ending
}

func (l *life) init() { l.closing, l.idle = make(chan struct{}), make(chan struct{}) }

// close sets closed, and reports whether it was not. The caller has entered then.
func (l *life) close() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	l.running++ // until all releases are under way, and count themselves
	close(l.closing)
	return true
}

// enter counts a call, and reports false once the Locker is closed. Every call that entered leaves.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running++
	return true
}

func (l *life) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// enterAnyway counts what has to be done also while the Locker is closing: releases.
func (l *life) enterAnyway() {
	l.mu.Lock()
	l.running++
	l.mu.Unlock()
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running > 0 || !l.closed {
		return
	}
	select {
	case <-l.idle: // a late Unlock of a lost lock
	default:
		close(l.idle)
	}
}

// sleep waits for d, and reports false where ctx or the Locker ended first.
func (l *Locker) sleep(ctx context.Context, d time.Duration) bool {
	over, timer := clock.After(l.clock, d)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
	case <-l.life.closing:
	}
	return false
}

// await waits for a channel to be closed, and reports false where the instant, the end of ctx or of
// the Locker came first.
func (l *Locker) await(ctx context.Context, changed <-chan struct{}, until clock.Instant) bool {
	late, timer := clock.After(l.clock, max(until.Sub(l.clock.Now()), 0))
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-late:
	case <-ctx.Done():
	case <-l.life.closing:
	}
	return false
}

// awaitVoters waits until a quorum of nodes votes, or it is clear that none will for now; half of
// the time that a round has at most, so that those that vote still can. It costs nothing where a
// quorum votes.
func (l *Locker) awaitVoters(ctx context.Context, timeout time.Duration) {
	if l.members.View().Enough {
		return
	}
	until := l.clock.Now().Add(timeout / 2)
	for !l.members.View().Enough {
		changed := l.members.Undecided()
		if changed == nil || !l.await(ctx, changed, until) {
			return
		}
	}
}
