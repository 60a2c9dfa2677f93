package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/schedule"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// TryLock acquires the lock if it is free, with one round and without waiting for a holder. A name
// is 1 to 4,096 arbitrary bytes; the key (prefix and name) must not begin with "redquorum:".
// TryLock returns within the node timeout, or when ctx ends; within two where it takes a second
// round, for a token that a quorum does not have at once, and within four where too few masters
// follow to a token. It does not queue behind the callers of Lock, and may overtake a waiter while
// the lock is on its way there: a few times per wait at most, over all callers, if all clients use
// this library and messages arrive.
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
	return l.try(ctx, &c)
}

// try makes the one attempt of a call that does not wait.
func (l *Locker) try(ctx context.Context, c *call) (*Lock, error) {
	lock, _, err := l.tryAcquire(ctx, c)
	return lock, c.missed(err)
}

// call is one call that asks for a lock. Its options are what the user said.
type call struct {
	lockConfig

	locker *Locker
	kind   kind
	name   [1]string // of a permit: that of the semaphore
	list   []string  // of several names
	first  string    // of the names of a call that asks for this one of them; "" for a call of its own

	guards bool // a function of Do
	part   bool // one name of a set that takes its names one after the other
	waits  bool // it did not get the lock at once
	waited bool // and hooks are told of that, with the time since
	since  clock.Instant
	yields bool         // gives way to waiters elsewhere, even if the round is won
	taken  *atomic.Bool // for one of several waits of a call: one of them took its lock
	asks   int64        // since when, with WithHistory: Unix time in milliseconds
}

// newCall returns a call for a mutex, after checking all of its arguments.
func (l *Locker) newCall(ctx context.Context, name string, opts []LockOption) (call, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	c := call{lockConfig: cfg, locker: l, kind: mutex{}, name: [1]string{name}}
	if c.history {
		c.asks = l.clock.Wall().UnixMilli()
	}
	return c, err
}

// asked returns the name that hooks know the call by.
func (c *call) asked() string { return cmp.Or(c.first, c.name[0]) }

// newLock returns the lock of one attempt.
func (c *call) newLock() *Lock {
	l := c.locker
	lock := &Lock{
		locker: l, kind: c.kind.fresh(), renews: !c.withoutRenewal, guards: c.guards, fenced: c.fencing, office: c.office, noted: c.history, part: c.part,
		ttl: c.ttl.Truncate(time.Millisecond), timeout: l.config.timeout(c.ttl), heldUntil: schedule.Never,
		minHold: uint32(ceilMillis(c.minHold).Milliseconds()),
	}
	var room [valueRoom]byte
	value := c.appendValue(room[:0], l.clock.Wall(), c.waits)
	if c.list == nil && !lock.kind.chooses() { // one name
		lock.claim, lock.key[0], lock.value = l.config.terms.Claim(l.config.keyPrefix, c.name[0], value, lock.life(), lock.grace())
	} else {
		lock.value = string(value)
	}
	return lock
}

// names returns all names that the call asks for.
func (c *call) names() []string {
	if c.list != nil {
		return c.list
	}
	return c.name[:]
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
	lock.begin(l.awaitVoters(ctx, began, lock.timeout, lock.life()), c.maxHold)
	if err := l.refusal(lock); err != nil {
		return nil, nil, err
	}
	chooses := lock.kind.chooses()
	r := lock.newAcquire(round.Spec{Any: chooses, Alone: true}, false)
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

// sendOne asks every node for one particular slot or name. The nodes in before may hold another one
// for us, which this returns. The TTL, and with it the validity, begins anew at every node that
// grants.
func (lock *Lock) sendOne(c *call, one int, before quorum.NodeSet) *round.Round {
	lock.begin(lock.locker.clock.Now(), c.maxHold)
	r := lock.newAcquire(round.Spec{One: one, Before: before, Alone: true}, false)
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}

// begin notes that the round that acquires the lock begins now. It is called before the first byte
// is sent, so every node counts the TTL from a later moment.
func (lock *Lock) begin(now clock.Instant, maxHold time.Duration) {
	l := lock.locker
	lock.epoch, lock.acquired = l.members.Epoch(), now
	if lock.fenced {
		lock.fence = l.clock.Wall().UnixMicro()
	}
	if maxHold > 0 {
		lock.heldUntil = lock.acquired.Add(maxHold)
	}
}

// newGrant returns a round that may win the lock.
func (lock *Lock) newGrant(how *round.Spec) *round.Round {
	how.Meaning, how.Wall = wire.Grant, lock.fencing().Wall
	if how.Rule == nil && !how.Any {
		how.Rule = quorum.DecideAcquire
	}
	return lock.locker.rounds.New(how)
}

// newAcquire returns the round of an attempt.
func (lock *Lock) newAcquire(how round.Spec, turn bool) *round.Round {
	how.Request = lock.kind.acquire(lock, how.One, turn)
	return lock.newGrant(&how)
}

// finish waits for the verdict of an attempt's round. Afterwards the lock is held or undone.
func (l *Locker) finish(ctx context.Context, lock *Lock, r *round.Round, c *call) (*Lock, error) {
	v, ended := r.Wait(ctx)
	name := lock.Name()
	var told *round.Round // the one that says why the lock is not held, if r does not
	var reason error
	switch v {
	case quorum.Won:
		lock.kind.take(lock, r)
		if told, reason, ended = lock.settle(ctx, r); reason == nil && ended == nil {
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
		if !lock.listed { // otherwise the coordinator was asked first, which must not count
			l.waiters.Coordinators.Took(l.clock.Now().Sub(lock.acquired))
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
	lock.undo(u, r.MayHold(), r.Deadline())
	if how.Confirms != nil {
		if confirmed, cut := r.RefusalsConfirmed(ctx, u); !confirmed {
			reason, ended = ErrNoQuorum, cut
		}
	}
	if l.life.isClosed() {
		return nil, ErrClosed
	}
	var err error = roundError(cmp.Or(told, r), "acquire", name, reason, ended)
	if v == quorum.Denied {
		err = cmp.Or(lock.kind.refused(lock, r), err)
	}
	c.refused(lock, r, err)
	return nil, err
}

// refused counts a round that did not get the lock, and tells of it.
func (c *call) refused(lock *Lock, r *round.Round, err error) {
	l := c.locker
	if r.Verdict() == quorum.Denied && !r.Granted().Empty() {
		l.counts.split.Add(1)
	}
	if lock.part || errors.Is(err, errFaster) { // the call may have its lock
		return
	}
	l.counts.notAcquired(err)
	l.events.refused(cmp.Or(c.first, lock.Name()), err)
}

// take makes a lock that a quorum granted a held one, or returns why it cannot: too little validity
// is left, or the Locker was closed.
func (l *Locker) take(lock *Lock, r *round.Round, c *call) error {
	if c.yields && l.waiters.Record.Contended("", lock.kind.queueOf(lock)) {
		// One of our releases, still under way when this began, gave the lock to a waiter, which we
		// overtook.
		return errHanded
	}
	lock.mu.Lock() // from Hold on, refusals reach the lock
	lock.until = lock.boundedLocked(l.config.drift.Validity(lock.acquired, lock.ttl))
	mayHold, refused := r.Hold((*holder)(lock))
	lock.mayHold = mayHold
	lock.mu.Unlock()
	if lock.kind.chooses() {
		strays := r.Strays()
		refused = refused.Minus(strays)
		lock.dropStrays(strays)
	}
	l.overtook(lock.keys(), lock.kind.queueOf(lock), refused)
	if lock.until.Sub(l.clock.Now()) <= c.minValidity {
		return ErrNoValidity
	}
	if err := l.refusal(lock); err != nil { // the cluster was not known before
		return err
	}
	if c.taken != nil && !c.taken.CompareAndSwap(false, true) {
		return errFaster
	}
	if !l.hold(lock, c) {
		return ErrClosed
	}
	return nil
}

// hold makes the lock one of the held ones. It reports false if the Locker was closed meanwhile:
// then the lock was never held, and is undone like an attempt that failed. Close sets closed and
// then collects the held locks; hold checks closed in the same step as it adds the lock. So Close
// releases every lock that hold has added, and the caller can tell the two cases apart. (Adopt
// must: it gives back what it took.)
func (l *Locker) hold(lock *Lock, c *call) bool {
	lock.mu.Lock()
	l.life.mu.Lock()
	closed := l.life.closed
	if !closed {
		l.expiry.Add(lock, lock.until)
	}
	if !closed && lock.guards {
		l.life.guarded++
	}
	l.life.mu.Unlock()
	if closed {
		lock.mu.Unlock()
		return false
	}
	if lock.part {
		l.counts.parts.Add(1)
	} else {
		if lock.noted {
			lock.noteBegan()
		}
		l.events.acquired(lock)
		if c.waited { // in the same step: the lock may end at any moment
			l.events.waited(lock, l.clock.Now().Sub(c.since))
		}
	}
	lock.planRenewalLocked(lock.acquired, lock.ttl/renewalShare)
	lock.mu.Unlock()
	l.members.CheckHealth()
	lock.nodesForgot() // a node may have forgotten before the lock was on the schedule
	return true
}
