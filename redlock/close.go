package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
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
		l.history.send(true)
		l.life.leave()
		<-l.life.idle
		l.end()
		close(l.life.ended)
	}
	<-l.life.ended
	return l.life.undelivered
}

// end is the rest of Close, once no call is under way.
func (l *Locker) end() {
	l.expiry.Stop()
	l.renewals.Stop()
	l.releaseHeld(ErrClosed)     // locks that were briefly off the schedule
	l.undoLost(l.renewals.All()) // locks that were lost meanwhile
	l.waiters.Subscriptions.Close()
	l.members.Stop()
	l.life.undelivered = l.undelivered()
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

// undelivered waits for the nodes that have not answered a release, and returns what is left of the
// Locker's locks when its time is up.
func (l *Locker) undelivered() error {
	left := multierror.Append(&multierror.Error{ErrorFormat: onOneLine}, l.drain()...)
	l.life.mu.Lock()
	if n := l.life.guarded; n > 0 {
		left = multierror.Append(left, fmt.Errorf("%d functions of Do are still running, their locks stay until their TTL ends", n))
	}
	l.life.mu.Unlock()
	if left.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUndelivered, left)
}

func onOneLine(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// drain waits for the nodes that have not answered a release, and returns an error for each that
// still has not when its time is up. Members alone count: what another master keeps excludes
// nobody, so it only gets what it can take meanwhile.
func (l *Locker) drain() (errs []error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := l.clock.AfterFunc(closePatience, cancel)
	defer timer.Stop()
	nodes, first := l.own()
	nonMembers := l.members.View().NonMembers
	left := make([]int, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		if !nonMembers.Has(first+i) || node.State() == pool.Up {
			all.Go(func() { left[i] = node.Drain(ctx) })
		}
	}
	all.Wait()
	for i, node := range nodes {
		if left[i] == 0 || nonMembers.Has(first+i) {
			continue
		}
		why := node.Stats().Err
		if why == nil {
			why = pool.ErrTimeout
		}
		errs = append(errs, &NodeError{Endpoint: node.Endpoint(), Err: fmt.Errorf("%d of them: %w", left[i], why)})
	}
	return errs
}

// awaitGuarded waits for the functions of Do, within the patience of Close.
func (l *Locker) awaitGuarded() {
	late, timer := clock.After(l.clock, closePatience)
	defer timer.Stop()
	select {
	case <-l.life.rest:
	case <-late:
	}
}
