package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A counter lives for many locks' time after the last one that it fenced. One that is forgotten does no harm: the clock has by
// then moved on by more than two clients' clocks can be apart (S16 in docs/safety.md).
const (
	fenceLifeTTLs = 10
	fenceLifeMin  = 10 * time.Minute
)

func (c *config) fenceLife() time.Duration { return max(fenceLifeTTLs*c.maxTTL, fenceLifeMin) }

// Fence returns the fencing token of the lock, or 0 without [WithFencing]. Of two locks of one
// name, the one that was acquired later has the larger token, whatever the clocks of clients did,
// and that of one master of three or more while the others are up. The protected resource remembers
// the largest token that it has seen and refuses smaller ones: so it is safe from a holder that was
// paused beyond its validity and does not know it yet.
//
// A token is about the time in microseconds since 1970 and below 2^53: an exact number also where numbers are doubles. That of a set is
// larger than all earlier tokens of each of its names.
func (lock *Lock) Fence() int64 { return lock.fence }

// fencing makes a script raise the fences; it raises none without fencing. All nodes are given one
// time, also where one is asked before the others: otherwise their fences would differ, and take a
// second round.
func (lock *Lock) fencing() wire.Fencing {
	if !lock.fenced {
		return wire.Fencing{}
	}
	return wire.Fencing{Wall: lock.fence, Life: lock.locker.config.fenceLife()}
}

// settleFence finds the fencing token of a round that a quorum granted. In the ordinary case all nodes
// gave the caller's clock, and it is settled. Otherwise the nodes that are behind are raised to it,
// with a second round. It returns why there is no token, and the context's error where ctx ended
// it.
//
// Where the fences of the quorum are too far apart, one of its nodes has a wrong clock or counter,
// and its fence is no use: then the grants that are still to come are awaited, until the node
// timeout.
func (lock *Lock) settleFence(ctx context.Context, r *round.Round) (reason, ended error) {
	if !lock.fenced {
		return nil, nil
	}
	var more chan struct{}
	var ahead quorum.NodeSet // where the first raise went to
	for raises := 0; ; {
		fences, granted, all := r.Fences(more)
		token, at, below := quorum.NextToken(fences, granted, ahead, raises, all)
		if !below.Empty() {
			raises++
			reason, ended = lock.raise(ctx, token, at, below)
			if errors.Is(reason, ErrNoQuorum) { // what was granted stays granted: another number may do
				reason = nil
				for i, fence := range fences {
					if raises == 1 && fence >= token {
						ahead.Add(i)
					}
				}
				continue
			}
		}
		switch {
		case reason != nil || ended != nil:
			return reason, ended
		case token != 0:
			lock.fence = token
			lock.mend(fences, granted)
			return nil, nil
		case all:
			return errFarApart, nil
		case more == nil:
			more = make(chan struct{}, 1)
			continue // with what came before it was there
		}
		select {
		case <-more: // at the node timeout at the latest, when every vote is in
		case <-ctx.Done():
			return nil, round.EndOf(ctx)
		}
	}
}

// raise brings nodes below a token to it: the second round. S22 (docs/safety.md) wants it soon
// after the first.
func (lock *Lock) raise(ctx context.Context, token int64, at, below quorum.NodeSet) (reason, ended error) {
	l := lock.locker
	if l.clock.Now().Sub(lock.acquired) > quorum.RaiseWithin {
		return ErrNoValidity, nil
	}
	l.counts.secondRounds.Add(1)
	request := wire.Raise(lock.keys, lock.valueArg, token, l.config.fenceLife())
	r := round.New(l.members, request, wire.Raised, quorum.DecideAcquire).Announce()
	r.Only(at.Or(below))
	r.Grant(at)
	r.Send(l.clock.Now().Add(lock.timeout), 0) // a round of its own
	v, ended := r.Wait(ctx)
	switch v {
	case quorum.Denied:
		return ErrTaken, nil
	case quorum.NoQuorum:
		return errFarApart, nil
	case quorum.Won:
	case quorum.Pending: // ctx ended
	}
	return nil, ended
}

// errFarApart is why there is no token where a quorum granted and cannot agree on one.
var errFarApart = fmt.Errorf("%w: no quorum is near one fencing token", ErrNoQuorum)

// mend brings the counters of nodes back that are far ahead of the token, in the background. It is
// behind the grant on each connection, and before the release.
func (lock *Lock) mend(fences []int64, granted quorum.NodeSet) {
	l := lock.locker
	to := lock.fence + quorum.MendAhead
	for i, fence := range fences {
		if !granted.Has(i) || fence-lock.fence <= quorum.MendBeyond {
			continue
		}
		l.life.enterAnyway()
		request := wire.Mend(lock.keys, lock.valueArg, fence, to, l.config.fenceLife())
		r := round.New(l.members, request, wire.None, quorum.DecideHeld) // it says nothing about waiters there
		r.Only(quorum.Only(i))
		r.Observe((*releaseObserver)(l))
		r.Send(l.clock.Now().Add(lock.timeout), 0)
	}
}
