package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Adopt takes over a lock that another process holds, by its name and its [Lock.Value]: a quorum of
// nodes swaps the value for a fresh one. The lock that it returns is renewed and released like any
// other. Of several callers that adopt the same lock, at most one succeeds.
//
// The old holder is not asked. Its handle is lost at its next round, that is, when renewal, Extend
// or Verify next asks the nodes; it can then neither extend nor release what it held. Without a
// round it believes that it holds the lock until its validity ends. Until then both may act on the
// lock, so a holder that gives its value away must stop using the lock first.
//
// Within the time of [WithMinHold], a lock can be adopted even if it was released. That time does
// not travel with it: give your own, which counts from the adoption. The lock of a reader cannot be
// adopted: the other process can read beside it instead ([Locker.RLock]).
//
// Errors: [ErrLost] in a [*QuorumError] when a quorum does not hold that value, [ErrNoQuorum],
// [ErrNoValidity], [ErrInvalid], [ErrClosed], and the error of a ctx that ended. After any error
// the swap is undone where it took place, and the old holder keeps its lock, unless it asked the
// nodes while a majority was swapped: then it is told that the lock is lost, and nobody holds it.
// If the undo does not arrive, because this process dies or the node stays away for longer than
// [Locker.Close] waits, the key stays swapped until its TTL ends: neither the old holder nor anyone
// else has that node's vote.
func (l *Locker) Adopt(ctx context.Context, name, value string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.newCall(ctx, name, opts)
	switch {
	case err != nil:
		return nil, err
	case value == "" || len(value) > maxValue:
		return nil, invalid("value has %d bytes, not 1 to %d", len(value), maxValue)
	case value == wire.Marker:
		return nil, invalid("a lock that readers hold cannot be adopted")
	case !l.life.enter():
		return nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: adopt %q: %w", name, round.EndOf(ctx))
	}
	lock := c.newLock()
	began := l.clock.Now()
	lock.begin(l.awaitVoters(ctx, began, lock.timeout, lock.life()), c.maxHold)
	if err := l.refusal(lock); err != nil {
		return nil, err
	}
	request := wire.Adopt(lock.keys()[0], value, lock.value, lock.life(), lock.fencing())
	r := lock.newGrant(&round.Spec{Request: request, Rule: quorum.DecideHeld})
	r.Send(began.Add(lock.timeout), 0)
	v, ended := r.Wait(ctx)
	reason, told := ErrNoQuorum, r
	switch v {
	case quorum.Won:
		if told, reason, ended = lock.settle(ctx, r); reason == nil && ended == nil {
			reason = l.take(lock, r, &c)
		}
		if reason == nil && ended == nil {
			l.counts.acquired.Add(1)
			l.forgetAdoption(lock)
			return lock, nil
		}
		if errors.Is(reason, ErrTaken) { // a quorum had it
			reason = errGone
		}
	case quorum.Denied:
		reason = fmt.Errorf("%w: a quorum of nodes does not hold it under that value", ErrLost)
	case quorum.NoQuorum, quorum.Pending:
	}
	lock.restore(r.MayHold())
	if l.life.isClosed() {
		return nil, ErrClosed
	}
	return nil, roundError(cmp.Or(told, r), "adopt", name, cmp.Or(reason, ErrNoQuorum), ended)
}

// forgetAdoption removes the notes of a swap that stands, in the background. A note that it misses
// expires when the key would have.
func (l *Locker) forgetAdoption(lock *Lock) {
	r := l.rounds.New(&round.Spec{
		Request: wire.Forget(lock.keys()[0], lock.value), Meaning: wire.None, Rule: quorum.DecideHeld, Background: true,
	})
	r.Send(lock.acquired.Add(lock.timeout), 0)
}

// restore gives the old holder its lock back, in the background, on every node that may have
// swapped the value. There the restore comes behind the swap, on the same connection or after the
// old connection was killed (S6), and is kept for a node that is away. Until it arrives, nobody
// holds the key: it cannot be acquired there, and the old holder's rounds count the node as
// refusing.
func (lock *Lock) restore(mayHold quorum.NodeSet) {
	l := lock.locker
	request := wire.Restore(lock.keys()[0], lock.value, l.config.grace(lock.timeout))
	r := l.rounds.New(&round.Spec{Request: request, Meaning: wire.Yes, Rule: quorum.DecideHeld, Background: true})
	r.Send(l.clock.Now().Add(lock.timeout), mayHold)
}
