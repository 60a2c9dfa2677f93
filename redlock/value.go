package redlock

import (
	"context"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// settleValue gives a lock that was won the value of WithValue. It returns the round that did, or
// why it could not, or the context's error if ctx ended it.
//
//	a random value ──won──▶ swapped where it is held, or free ──won──▶ the value of WithValue
//
// To the nodes, two attempts with one value are one. So every attempt, its wait and its undo have a
// value that is used once. A chosen value is at a node only once a quorum has granted the attempt:
// while another lock has that quorum, this sends nothing that names the value, and so can neither
// take that lock for its own nor release it. The votes are those of the swap, each at a node that
// set all keys after the attempt began, as for a set by parts (parts.go).
//
// If the swap fails, it is undone where it may have taken place, behind it on the same connection,
// and never later: a release that is kept for a node that is away might find another lock with the
// value. There the key stays until its TTL ends.
func (lock *Lock) settleValue(ctx context.Context, won *round.Round, value string) (_ *round.Round, reason, ended error) {
	l := lock.locker
	random, rest := lock.value, lock.newRelease(round.Spec{Rule: quorum.DecideHeld})
	parts := slices.Repeat([]string{random}, len(lock.keys()))
	r := lock.newGrant(&round.Spec{Request: wire.Join(lock.keys(), value, lock.life(), parts, wire.Fencing{})})
	deadline := l.clock.Now().Add(lock.timeout)
	r.Send(deadline, 0)
	v, ended := r.Wait(ctx)
	claim := lock.claim
	lock.value, lock.claim, lock.reused = value, wire.Claim{}, true
	if v == quorum.Won {
		// What is left of the random value: at nodes that missed the swap, and on wait lists.
		lock.mu.Lock()
		lock.undoLocked(rest, quorum.All(len(l.nodes())).Minus(r.Granted()), deadline)
		lock.mu.Unlock()
		return r, nil, nil
	}
	if swapped := r.MayHold(); !swapped.Empty() {
		lock.mu.Lock()
		lock.undoLocked(lock.newRelease(round.Spec{Rule: quorum.DecideHeld, Only: swapped}), 0, deadline)
		lock.mu.Unlock()
	}
	lock.value, lock.claim, lock.reused = random, claim, false // which the caller undoes
	switch v {
	case quorum.Denied:
		reason = ErrTaken
	case quorum.NoQuorum:
		reason = ErrNoQuorum
	case quorum.Won, quorum.Pending: // ctx ended
	}
	return won, reason, ended
}
