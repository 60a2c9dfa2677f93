package redlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TryLock acquires the lock if it is free, with one round and without waiting for a holder. A name
// is 1 to 4,096 arbitrary bytes; the key (prefix and name) must not begin with "redquorum:".
// TryLock returns within the node timeout, or when ctx ends. It does not queue behind the callers
// of Lock, and may overtake a waiter while the lock is on its way there: a few times per wait at
// most, over all callers, if all clients use this library and messages arrive.
//
// Errors: [ErrTaken], [ErrNoQuorum] and [ErrNoValidity] in a [*QuorumError]; [ErrInvalid];
// [ErrClosed]; and the error of a ctx that ended. After any error, whatever was or may have been
// granted is being released.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.newCall(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	lock, _, err := l.tryAcquire(ctx, &c)
	return lock, err
}

// tryAcquire makes one attempt, which is a round: send, count, decide, and undo if it was not won.
// Where each node may give one of several, and that gives none a quorum, but the answers show that
// one could have a quorum, a second round asks for that one. It returns the last round, nil if
// there was none.
func (l *Locker) tryAcquire(ctx context.Context, c *call) (*Lock, *round.Round, error) {
	if !l.life.enter() {
		return nil, nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("redlock: acquire %q: %w", c.name[0], round.EndOf(ctx))
	}
	lock := c.newLock()
	began := l.clock.Now()
	lock.begin(l.awaitVoters(ctx, began, lock.timeout), c.maxHold)
	if err := l.refusal(lock); err != nil {
		return nil, nil, err
	}
	chooses := lock.kind.chooses()
	r := lock.newAcquire(round.Spec{Any: chooses}, false)
	r.Send(began.Add(lock.timeout), 0)
	if chooses {
		if v, _ := r.Wait(ctx); v == quorum.Denied { //nolint:errcheck // finish waits, too
			if one := r.Available(0); one != 0 {
				r = lock.sendOne(c, one, r.MayHold())
			}
		}
	}
	got, err := l.finish(ctx, lock, r, c)
	return got, r, err
}

// finish waits for the verdict of an attempt's round. Afterwards the lock is held or undone.
func (l *Locker) finish(ctx context.Context, lock *Lock, r *round.Round, c *call) (*Lock, error) {
	v, ended := r.Wait(ctx)
	name := lock.Name()
	var reason error
	switch v {
	case quorum.Won:
		lock.kind.take(lock, r)
		if reason, ended = lock.settle(ctx, r); c.value != "" {
			r, reason, ended = lock.settleValue(ctx, r, string(c.appendChosen(nil)))
		}
		if reason == nil && ended == nil {
			reason = l.take(lock, r, c)
		}
		if reason == nil && ended == nil {
			if !lock.part {
				l.counts.acquired.Add(1)
			}
			return lock, nil
		}
	case quorum.Denied:
		reason = ErrTaken
		if !lock.listed { // otherwise the pilot was asked first, which must not count
			l.desk.Pilots.Took(l.clock.Now().Sub(lock.acquired))
		}
		if !r.Granted().Empty() {
			l.counts.split.Add(1)
		}
	case quorum.NoQuorum:
		reason = ErrNoQuorum
	case quorum.Pending: // ctx ended
	}
	lock.kind.untake(lock)
	how := round.Spec{Rule: quorum.DecideHeld}
	if v == quorum.Denied && !lock.kind.chooses() { // with a choice no key refuses by its type
		how.Confirms = r
	}
	u := lock.newRelease(how)
	// Within the one node timeout that the caller was promised. A release that this cuts short goes
	// to a node that refused; the others are kept.
	lock.mu.Lock()
	lock.undoLocked(u, r.MayHold(), r.Deadline())
	lock.mu.Unlock()
	if how.Confirms != nil && !r.RefusalsConfirmed(ctx, u) {
		reason = ErrNoQuorum
	}
	if l.life.isClosed() {
		return nil, ErrClosed
	}
	var err error = l.failure(r, "acquire", name, reason, ended)
	if v == quorum.Denied {
		err = cmp.Or(lock.kind.refused(lock, r), err)
	}
	if !lock.part {
		l.counts.notAcquired(err)
		l.events.refused(name, err)
	}
	return nil, err
}

// take makes a lock that a quorum granted a held one, or returns why it cannot: too little validity
// is left, or the Locker was closed.
func (l *Locker) take(lock *Lock, r *round.Round, c *call) error {
	if c.yields && l.desk.Record.Contended("", lock.kind.queueOf(lock)) {
		// One of our releases, still under way when this began, gave the lock to a waiter, which we
		// overtook.
		return ErrTaken
	}
	lock.mu.Lock() // from Hold on, refusals reach the lock
	lock.until = lock.boundedLocked(l.config.drift.Validity(lock.acquired, lock.ttl))
	touched, refused := r.Hold((*holder)(lock))
	lock.touched = touched
	lock.mu.Unlock()
	if lock.kind.chooses() {
		strays := r.Strays()
		refused = refused.Minus(strays)
		lock.dropStrays(strays)
	}
	l.overtook(lock, refused)
	if lock.until.Sub(l.clock.Now()) <= c.minValidity {
		return ErrNoValidity
	}
	if err := l.refusal(lock); err != nil { // the cluster was not known before
		return err
	}
	if c.taken != nil && !c.taken.CompareAndSwap(false, true) {
		return ErrTaken // another wait of the same call was faster
	}
	if !l.hold(lock) {
		return ErrClosed
	}
	return nil
}

// refusal returns why the cluster does not permit a lock, nil if it does: it would outlast what a
// master that forgets, and a change of members, wait for.
func (l *Locker) refusal(lock *Lock) error {
	if err := l.members.Conflict(); err != nil {
		return invalid("%w", err)
	}
	return l.checkMaxTTL(lock.life())
}

func (l *Locker) checkMaxTTL(ttl time.Duration) error {
	if most := l.members.MaxTTL(); ttl > most {
		return invalid("TTL %v is above the cluster's maximum of %v (`redlock members max-ttl %v` raises it)", ttl, most, ttl)
	}
	return nil
}

// newGrant returns a round that may win the lock.
func (lock *Lock) newGrant(how *round.Spec) *round.Round {
	how.Meaning, how.Fences = wire.Grant, lock.fenced
	if how.Rule == nil {
		how.Rule = quorum.DecideAcquire
	}
	return lock.locker.rounds.New(how)
}

// undoLocked releases what an attempt was granted, may have been, or may yet be: on every node, in
// the background, with a deadline of its own, whatever became of the caller's context. If the SET
// has not been answered, the release is behind it on the same connection. If the connection broke,
// the node delivers the release before anything else when it is back.
func (lock *Lock) undoLocked(u *round.Round, mayHold quorum.NodeSet, deadline clock.Instant) {
	l := lock.locker
	l.life.enterAnyway()
	u.Send(deadline, mayHold)
}

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
// adopted: the other process can read beside it instead ([Locker.RLock]). [WithValue] is
// [ErrInvalid].
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
	case value == "" || len(value) > maxValue+1+maxOwner:
		return nil, invalid("value has %d bytes, not 1 to %d", len(value), maxValue+1+maxOwner)
	case value == wire.Marker:
		return nil, invalid("a lock that readers hold cannot be adopted")
	case c.value != "": // the undo of one adoption would hit another with this value
		return nil, invalid("WithValue cannot be used with Adopt")
	case !l.life.enter():
		return nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: adopt %q: %w", name, round.EndOf(ctx))
	}
	lock := c.newLock()
	lock.begin(l.clock.Now(), c.maxHold)
	request := wire.Adopt(lock.keys()[0], value, lock.value, lock.life(), lock.fencing())
	r := lock.newGrant(&round.Spec{Request: request, Rule: quorum.DecideHeld})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	v, ended := r.Wait(ctx)
	reason := ErrNoQuorum
	switch v {
	case quorum.Won:
		if reason, ended = lock.settle(ctx, r); reason == nil && ended == nil {
			reason = l.take(lock, r, &c)
		}
		if reason == nil && ended == nil {
			l.counts.acquired.Add(1)
			l.forgetAdoption(lock)
			return lock, nil
		}
	case quorum.Denied:
		reason = fmt.Errorf("%w: a quorum of nodes does not hold it under that value", ErrLost)
	case quorum.NoQuorum, quorum.Pending:
	}
	lock.restore(r.MayHold())
	if l.life.isClosed() {
		return nil, ErrClosed
	}
	return nil, l.failure(r, "adopt", name, reason, ended)
}

// forgetAdoption removes the notes of a swap that stands, in the background. A note that it misses
// expires when the key would have.
func (l *Locker) forgetAdoption(lock *Lock) {
	l.life.enterAnyway()
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
	l.life.enterAnyway()
	request := wire.Restore(lock.keys()[0], lock.value, l.config.grace(lock.timeout))
	r := l.rounds.New(&round.Spec{Request: request, Meaning: wire.Yes, Rule: quorum.DecideHeld, Background: true})
	r.Send(l.clock.Now().Add(lock.timeout), mayHold)
}
