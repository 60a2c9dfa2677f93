package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/round"
)

// closePatience is how long Close waits for nodes that have not answered a release: long enough to
// redial a node that was away for a moment, and short enough for a program that is exiting.
const closePatience = time.Second

// Close releases all held locks, undoes what is left of lost ones, waits until the nodes have
// answered or have been given up, and stops all background work of the Locker. It takes at most
// about two node timeouts, plus up to a second if a node that may have one of the locks has not
// answered a release by then. Calls under way and later calls end with [ErrClosed]. A second Close
// waits for the first and returns the same.
//
// The context of a function that [Locker.Do] runs ends at once, and its lock is released when it
// has returned: Close waits up to a second for that, too. The lock of one that runs for longer is
// left to its TTL, and is not renewed. A function that closes its own Locker waits for itself that
// long.
//
// The error is nil, or [ErrUndelivered] with a [*NodeError] for each member that has still not
// answered: its keys stay until their TTL ends, and are free on all other nodes. It is also
// [ErrUndelivered] if functions of Do are still running. Nodes of
// [NewFromNodes] stay open and deliver what is left when they can, so Close does not wait for them:
// see [pool.Node.Drain].
func (l *Locker) Close() error {
	if l.life.close() {
		// From here on no lock is added: hold checks closed before it adds one.
		l.releaseHeld(ErrClosed)
		l.undoLost(l.renewals.All())
		l.awaitGuarded()
		l.life.leave()
	}
	<-l.life.idle
	l.life.ending.Do(l.end)
	return l.life.undelivered
}

// end is the rest of Close, once no call is under way.
func (l *Locker) end() {
	l.expiry.Stop()
	l.renewals.Stop()
	l.releaseHeld(ErrClosed)     // locks that were briefly off the schedule
	l.undoLost(l.renewals.All()) // locks that were lost meanwhile
	l.desk.Subscriptions.Close()
	l.members.Stop()
	l.life.undelivered = l.drain()
	l.life.undelivered = l.stillGuarded(l.life.undelivered)
	l.events.undelivered(l.life.undelivered)
	l.events.stop()
	own, _ := l.own()
	closeNodes(own)
}

// own returns the nodes that are the Locker's to close, and the index of the first.
func (l *Locker) own() (nodes []*pipeline.Node, first int) {
	for !l.owns && first < len(l.nodes()) && l.members.Listed(first) {
		first++
	}
	return l.nodes()[first:], first
}

// undoLost undoes at once those of the locks that were lost and are to be undone later. The time
// until then lets the holder notice that its validity has ended (planUndoLocked); a holder that
// closes its Locker has no more use for it, nor for the rest of the locks that are released with
// it. This endangers nobody: the validity is over before this is sent, the value is the lock's own,
// and on each connection this is behind everything that may have written it.
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

// drain waits for the nodes that have not answered a release, and returns an error for those that
// still have not when its time is up. Members alone count: what another master keeps excludes
// nobody, so it only gets what it can take meanwhile.
func (l *Locker) drain() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := l.clock.AfterFunc(closePatience, cancel)
	defer timer.Stop()
	nodes, first := l.own()
	strangers := l.members.View().Strangers
	left := make([]int, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		if !strangers.Has(first+i) || node.State() == pool.Up {
			all.Go(func() { left[i] = node.Drain(ctx) })
		}
	}
	all.Wait()
	err, sep := ErrUndelivered, ": "
	for i, node := range nodes {
		if left[i] == 0 || strangers.Has(first+i) {
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

// life counts what is under way in a Locker. It ends once the Locker is closed and nothing is under
// way.
type life struct {
	running atomic.Int64  // calls and rounds under way, and lifeOver once the Locker is closed
	closing chan struct{} // closed by close
	idle    chan struct{} // closed when running was lifeOver
	over    sync.Once     // closes idle

	mu      sync.Mutex    // guards the fields below; never held over a call to a node
	closed  bool          // as running says; for what must happen in one step with it
	guarded int           // locks of Do whose function may be running
	rest    chan struct{} // closed when closed is set and guarded is 0

	ending      sync.Once // the rest of Close
	undelivered error     // what Close returns; written in ending
}

// lifeOver is more than ever is under way.
const lifeOver = 1 << 62

func (l *life) init() {
	l.closing, l.idle, l.rest = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// close sets closed, and reports whether it was not set before. If so, the caller has entered.
func (l *life) close() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	l.running.Add(lifeOver + 1) // 1 until all releases are under way, and count themselves
	if l.guarded == 0 {
		close(l.rest)
	}
	close(l.closing)
	return true
}

// enter counts a call, and reports false once the Locker is closed. Every call that entered must
// leave.
func (l *life) enter() bool {
	if l.running.Add(1) > lifeOver {
		l.leave()
		return false
	}
	return true
}

// few reports whether there is one call, and at most the releases before it whose last votes are
// out.
func (l *life) few() bool { return l.running.Load() <= 3 }

func (l *life) isClosed() bool { return l.running.Load() >= lifeOver }

// enterAnyway counts work that must be done even while the Locker is closing: releases.
func (l *life) enterAnyway() { l.running.Add(1) }

func (l *life) leave() {
	if l.running.Add(-1) == lifeOver {
		l.over.Do(func() { close(l.idle) }) // once, although a late Unlock of a lost lock may follow
	}
}

// await waits for a channel to be closed. It reports false if the instant comes, or ctx or the
// Locker ends, first.
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

// awaitVoters waits until a quorum of nodes votes, or it is clear that none will for now. It waits
// for at most half a node timeout, so that the nodes that vote still have time to. It costs nothing
// if a quorum votes. It returns the time, now if it has not waited.
func (l *Locker) awaitVoters(ctx context.Context, now clock.Instant, timeout time.Duration) clock.Instant {
	if l.members.View().Enough {
		return now
	}
	until := now.Add(timeout / 2)
	for !l.members.View().Enough {
		changed := l.members.Undecided()
		if changed == nil || !l.await(ctx, changed, until) {
			break
		}
	}
	return l.clock.Now()
}
