package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Extend gives the lock a new TTL, from now on, with one round: a quorum of nodes must say that
// they still hold it. A node that no longer has the key gets it back; it counts as one that
// refused, and votes from the next round on. Extend takes the limits of [WithTTL]. Renewal goes on
// with the new TTL, also where the round failed.
//
// A TTL shorter than what is left shortens the validity at once, whatever becomes of the round.
// Otherwise a round that fails leaves the present validity as it is. The nodes that it reached keep
// the key for the new TTL all the same, and renewal, unless it is off, tries again before validity
// ends: the lock lives on if a quorum answers by then.
//
// Errors: [ErrLost] when a quorum says that it does not have the lock, or validity ended first (a
// lost lock never comes back), [ErrReleased], [ErrNoQuorum] in a [*QuorumError] when too few nodes
// answered or they disagree, [ErrInvalid], and the error of a ctx that ended (the round goes on,
// and counts).
func (lock *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	l := lock.locker
	if err := l.config.checkTTL(ttl); err != nil {
		return err
	}
	for {
		if err := lock.awaitExtension(ctx); err != nil {
			return err
		}
		if !l.enter() {
			return errors.Join(lock.Err(), ErrClosed)
		}
		x := l.extend([]*Lock{lock}, func(*Lock) time.Duration { return ttl })
		if x == nil { // another one came first, or the lock has ended
			l.leave()
			continue
		}
		var ended error
		select {
		case <-x.decided:
		case <-ctx.Done():
			ended = endOf(ctx)
		}
		l.leave()
		return x.result(lock, ended)
	}
}

// awaitExtension waits until no extension of the lock is under way: the nodes keep the TTL of the last one that reaches
// them, so two at once would leave them and us with different ideas of it.
func (lock *Lock) awaitExtension(ctx context.Context) error {
	for {
		lock.mu.Lock()
		lock.expireLocked(lock.locker.clock.Now())
		if err := lock.err; err != nil || !lock.extending {
			lock.mu.Unlock()
			if err == nil && ctx.Err() != nil {
				return fmt.Errorf("redlock: extend %q: %w", lock.names[0], endOf(ctx))
			}
			return err
		}
		if lock.extended == nil {
			lock.extended = make(chan struct{})
		}
		over := lock.extended
		lock.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return fmt.Errorf("redlock: extend %q: %w", lock.names[0], endOf(ctx))
		}
	}
}

// result returns what the caller of Extend is told.
func (x *extension) result(lock *Lock, ended error) error {
	err := lock.Err()
	x.mu.Lock()
	defer x.mu.Unlock()
	item := &x.items[0]
	if item.verdict == won && ended == nil {
		return err
	}
	if err != nil && item.verdict != denied {
		return err
	}
	reason := ErrNoQuorum
	if err != nil {
		reason = err
	}
	l := x.locker
	votes := l.voters.count(len(x.calls), item.granted, item.refused, item.failed)
	e := &QuorumError{
		Op: "extend", Name: lock.names[0], Need: quorum(votes.nodes), Granted: votes.granted, Refused: votes.refused,
		reason: reason, ended: ended,
	}
	for i, node := range l.nodes {
		err := l.voters.why(i)
		if x.errs != nil && x.errs[i] != nil {
			err = l.unproven(i, x.errs[i])
		}
		if err != nil {
			e.Nodes = multierror.Append(e.Nodes, &NodeError{Endpoint: node.Endpoint(), Err: err})
		}
	}
	return e
}
