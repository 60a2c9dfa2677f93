package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// settle finds the fencing token of a round that a quorum granted, if the lock has one. If there is
// no token, it returns why, or the context's error if ctx ended it, and the round that says so: r
// (or nil), or a second one.
func (lock *Lock) settle(ctx context.Context, r *round.Round) (told *round.Round, reason, ended error) {
	if !lock.fenced {
		return r, nil, nil
	}
	return lock.kind.settle(ctx, lock, r)
}

// settleFence finds the fencing token of a round that a quorum granted. In the common case all
// nodes returned the caller's clock, and that is the token. Otherwise a second round raises the
// nodes that are behind. It returns what settle does.
//
// If the fences of the quorum are too far apart, one of its nodes has a wrong clock or counter, and
// its fence is of no use. Then settleFence waits for the grants that are still to come, until the
// node timeout.
func (lock *Lock) settleFence(ctx context.Context, r *round.Round) (told *round.Round, reason, ended error) {
	var room [usualNodes]int64
	var more chan struct{}
	var ahead quorum.NodeSet // the nodes that were at the first raise's token, or past it
	for raises := 0; ; {
		fences, granted, need, all := r.Fences(room[:], more)
		token, at, below := quorum.NextToken(fences, granted, ahead, need, raises, all)
		if !below.Empty() {
			raises++
			told, reason, ended = lock.raise(ctx, token, at, below)
			if errors.Is(reason, ErrNoQuorum) {
				reason = nil // what was granted stays granted: another number may do
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
			return told, reason, ended
		case token != 0:
			lock.fence = token
			lock.mend(fences, granted)
			return r, nil, nil
		case all:
			return r, errFarApart, nil
		case more == nil:
			more = make(chan struct{}, 1)
			continue // count the votes that came before it existed
		}
		select {
		case <-more: // at the node timeout at the latest, when every vote is in
		case <-ctx.Done():
			return r, errFarApart, round.EndOf(ctx)
		}
	}
}

// usualNodes are as many as nearly all clusters have: for more, a fenced lock costs more memory.
const usualNodes = 9

// raise is the second round: it brings the nodes below a token to it. S22 (docs/safety.md) requires
// it soon after the first.
func (lock *Lock) raise(ctx context.Context, token int64, at, below quorum.NodeSet) (r *round.Round, reason, ended error) {
	l := lock.locker
	if l.clock.Now().Sub(lock.acquired) > quorum.RaiseWithin {
		return nil, ErrNoValidity, nil
	}
	l.counts.secondRounds.Add(1)
	r = l.rounds.New(&round.Spec{
		Request: lock.kind.raise(lock, token), Meaning: wire.Raised, Rule: quorum.DecideAcquire, Only: at.Or(below), Granted: at,
	})
	r.Send(l.clock.Now().Add(lock.timeout), 0) // a round of its own
	v, ended := r.Wait(ctx)
	switch v {
	case quorum.Denied:
		return r, lock.whyGone(), nil
	case quorum.NoQuorum:
		return r, errFarApart, nil
	case quorum.Won:
	case quorum.Pending: // ctx ended
	}
	return r, nil, ended
}

// whyGone returns why nodes refuse the second round of a lock that a quorum granted: its time has
// ended there, or somebody else has taken it.
func (lock *Lock) whyGone() error {
	l := lock.locker
	if l.config.drift.Validity(lock.acquired, lock.ttl) <= l.clock.Now() {
		return ErrNoValidity
	}
	return ErrTaken
}

// errFarApart is why there is no token when a quorum granted and cannot agree on one.
var errFarApart = fmt.Errorf("%w: no quorum is near one fencing token", ErrNoQuorum)

// mend brings counters that are far ahead of the token back, in the background. On each connection
// it is behind the grant and before the release.
func (lock *Lock) mend(fences []int64, granted quorum.NodeSet) {
	l := lock.locker
	to := lock.fence + quorum.MendAhead
	for i, fence := range fences {
		if !granted.Has(i) || fence-lock.fence <= quorum.MendBeyond {
			continue
		}
		request := wire.Mend(lock.keys(), lock.value, fence, to, l.config.fenceLife())
		// Read as a refusal: the answer says nothing about waiters there.
		r := l.rounds.New(&round.Spec{
			Request: request, Meaning: wire.None, Rule: quorum.DecideHeld, Only: quorum.Only(i), Background: true,
		})
		r.Send(l.clock.Now().Add(lock.timeout), 0)
	}
}
