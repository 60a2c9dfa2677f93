package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/pool"
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
// see [pipeline.Node.Drain].
func (l *Locker) Close() error {
	l.mu.Lock()
	first := !l.closed
	if first {
		l.closed = true
		l.running++ // until all releases are under way, and count themselves
		close(l.closing)
	}
	l.mu.Unlock()
	if first {
		// From here on no lock is added: hold looks at closed before it adds one.
		l.releaseHeld(ErrClosed)
		l.undoLost(l.renewals.all())
		l.leave()
	}
	<-l.idle
	l.ending.Do(l.end)
	return l.undelivered
}

// end is the rest of Close, when no call is under way any more.
func (l *Locker) end() {
	l.expiry.stop()
	l.renewals.stop()
	l.releaseHeld(ErrClosed)     // what was off the agenda for the moment in which it was looked at
	l.undoLost(l.renewals.all()) // what was lost meanwhile
	for _, stop := range l.unwatch {
		stop()
	}
	l.ears.close()
	l.voters.stop()
	if l.owns {
		l.undelivered = l.drain()
		l.events.undelivered(l.undelivered)
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
	inChunks(locks, func(lock *Lock) *round {
		lock.mu.Lock()
		defer lock.mu.Unlock()
		l.renewals.remove(lock)
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
