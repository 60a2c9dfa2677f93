package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Lock acquires the lock, and waits for it as long as ctx allows; ctx bounds only the wait, not the
// lock. It keeps waiting while no quorum of nodes answers. When ctx ends, the error matches that of
// ctx and the last reason why the lock was not acquired, such as [ErrTaken].
//
// Waiters for a name get it in the order in which they came: exactly within a Locker, and nearly so
// between Lockers, as long as they reach the same nodes. The release hands the lock over, so
// waiters need not poll; [WithRetry] is for when messages do not arrive. While readers have the
// lock, a waiter keeps new ones out, see [Locker.RLock].
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.lock(ctx, name, opts, false)
}

// lock is Lock; guards says that it is for a function of Do.
func (l *Locker) lock(ctx context.Context, name string, opts []LockOption, guards bool) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.newCall(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	c.guards = guards
	return l.acquire(ctx, &c)
}

// Do calls fn while it holds the lock, which it waits for as [Locker.Lock] does. The context of fn
// ends when ctx ends or the lock is lost; context.Cause says why. The lock is released when fn
// returns or panics; a panic continues.
//
// With errors.Is, the error of Do matches the error of fn, [ErrLost] if the lock was lost
// meanwhile, [ErrClosed] if the Locker was closed meanwhile, and the error of the release. None of
// them undoes what fn did: fn may have done all of it. If the lock cannot be acquired, fn is not
// called and the error is that of Lock. Both may be [ErrNoQuorum]; that of the release is a
// [*QuorumError] whose Op is "release". A release by fn itself, or by [Locker.UnlockAll], is no
// error.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) (err error) {
	if fn == nil {
		return invalid("fn is nil")
	}
	lock, err := l.lock(ctx, name, opts, true)
	if err != nil {
		return err
	}
	defer l.life.leaveGuarded()
	// Unlock of a lost lock returns ErrLost.
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	err = fn(lock.Context(ctx), lock)
	if l.life.isClosed() { // also after the lock was lost
		err = errors.Join(err, ErrClosed)
	}
	return err
}

// acquire waits for the lock of a call: package wait does, and makes attempts by what is below.
func (l *Locker) acquire(ctx context.Context, c *call) (*Lock, error) {
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	lock, err := lockOf(l.waiters.Acquire(ctx, c))
	return lock, c.missed(err)
}

// call implements wait.Call.
var _ wait.Call = (*call)(nil)

// Wanted returns what the call waits for.
func (c *call) Wanted() wait.Wanted {
	w := wait.Wanted{Prefix: c.locker.config.keyPrefix, Names: c.names(), Shortest: c.retryMin, Longest: c.retryMax}
	w.Queue = wait.NameOf(w.Names)
	c.kind.wanted(&w)
	return w
}

// Try makes one attempt, as TryLock does.
func (c *call) Try(ctx context.Context, yields bool) (wait.Attempt, *round.Round, error) {
	c.yields = yields
	lock, r, err := c.locker.tryAcquire(ctx, c)
	c.yields = false
	return (*attempt)(lock), r, failed(err)
}

// Attempt returns a lock that has not been asked for.
func (c *call) Attempt() wait.Attempt {
	return (*attempt)(c.newLock())
}

// Begin begins a round of an attempt.
func (c *call) Begin(a wait.Attempt, now clock.Instant) { lockIn(a).begin(now, c.maxHold) }

// SendSlot asks all nodes for a slot of a semaphore.
func (c *call) SendSlot(a wait.Attempt, slot int, before quorum.NodeSet) *round.Round {
	return lockIn(a).sendOne(c, slot, before)
}

// Finish waits for the verdict of an attempt's round.
func (c *call) Finish(ctx context.Context, a wait.Attempt, r *round.Round) error {
	_, err := c.locker.finish(ctx, lockIn(a), r, c)
	return failed(err)
}

// Waits counts a call that did not get its lock at once, and tells of it. One of several waits of a
// call does not: the call does.
func (c *call) Waits(ctx context.Context, since clock.Instant) (context.Context, func(wait.Attempt, error)) {
	c.waits = true
	if c.taken != nil {
		ctx, span := c.locker.trace(ctx, OperationWait, c.name[0])
		return ctx, func(_ wait.Attempt, err error) { span.end(told(err)) }
	}
	c.waited, c.since = true, since
	ctx, over := c.locker.waiting(ctx, c, since)
	return ctx, func(_ wait.Attempt, err error) { over(told(err)) }
}

// waiting counts a call that has to wait, and has since then, and tells of it. Over is told how
// that ended.
func (l *Locker) waiting(ctx context.Context, c *call, since clock.Instant) (_ context.Context, over func(error)) {
	name := c.name[0]
	ctx, span := l.trace(ctx, OperationWait, name)
	counts := &l.waiters.Counts
	counts.Waits.Add(1)
	counts.Waiting.Add(1)
	end := func() {}
	if !c.office {
		end = counts.Begun.Add(since)
	}
	l.events.waiting(name)
	return ctx, func(err error) {
		end()
		counts.Waiting.Add(-1)
		span.end(err)
	}
}

// Refused counts a round that did not get the lock while its attempt goes on, and tells of it.
func (c *call) Refused(a wait.Attempt, r *round.Round) {
	lock, reason := lockIn(a), ErrTaken
	if r.Verdict() == quorum.NoQuorum {
		reason = ErrNoQuorum
	}
	c.refused(lock, r, roundError(r, "acquire", lock.Name(), reason, nil))
}

// Failed tells of an attempt that failed.
func (c *call) Failed(f wait.Failure) {
	c.locker.events.failed(c.asked(), (*QuorumError)(f.(*failure)))
}

// attempt is a lock that is not held yet, as package wait knows it. [wait.Attempt] has what each
// method is for.
type attempt Lock

func lockIn(a wait.Attempt) *Lock { return (*Lock)(a.(*attempt)) }

// lockOf returns the result of a wait, as its caller gets it.
func lockOf(a wait.Attempt, err error) (*Lock, error) {
	if err != nil {
		return nil, told(err)
	}
	return lockIn(a), nil
}

func (a *attempt) Value() string                             { return a.value }
func (a *attempt) Timeout() time.Duration                    { return a.timeout }
func (a *attempt) Key(of int) string                         { return a.kind.queueOf((*Lock)(a))[of] }
func (a *attempt) Answer(reply any) wire.WaitReply           { return a.kind.answer(reply) }
func (a *attempt) List()                                     { a.listed = true }
func (a *attempt) Process() string                           { return (*Lock)(a).process() }
func (a *attempt) Announced() bool                           { return a.intent }
func (a *attempt) Grant(how *round.Spec) *round.Round        { return (*Lock)(a).newGrant(how) }
func (a *attempt) Guard(ctx context.Context) context.Context { return (*Lock)(a).Context(ctx) }
func (a *attempt) Release()                                  { (*Lock)(a).startRelease(nil, false) }

func (a *attempt) Acquire(how round.Spec, turn bool) *round.Round {
	return (*Lock)(a).newAcquire(how, turn)
}

func (a *attempt) Ask(ask *wire.Wait, turn bool) pipeline.Request {
	lock := (*Lock)(a)
	ask.Keys, ask.Value, ask.TTL, ask.Grace, ask.Fencing = lock.keys(), lock.value, lock.life(), lock.grace(), lock.fencing()
	return lock.kind.wait(lock, ask, turn)
}

// Announce keeps new readers out. On each connection the intent comes before the release that
// withdraws it. A set announces itself for the name that it waits for: it waits for one at a time,
// and does not know yet who has the others.
func (a *attempt) Announce(of int, others quorum.NodeSet) {
	lock, l := (*Lock)(a), a.locker
	lock.intent = true
	if others.Empty() {
		return
	}
	// Read as a refusal: the answer says nothing about waiters there.
	r := l.rounds.New(&round.Spec{
		Request: wire.Intend(lock.keys()[of], lock.value, wait.IntentLife), Meaning: wire.None, Rule: quorum.DecideHeld,
		Only: others, Background: true,
	})
	r.Send(l.clock.Now().Add(lock.timeout), 0)
}

func (a *attempt) GiveUp(ctx context.Context, r *round.Round, only, kept quorum.NodeSet, reason error) error {
	lock, l := (*Lock)(a), a.locker
	u := lock.newRelease(round.Spec{Rule: quorum.DecideHeld, Only: only})
	lock.undo(u, kept, l.clock.Now().Add(lock.timeout))
	if l.life.isClosed() {
		return ErrClosed
	}
	var ended error
	if ctx.Err() != nil {
		ended = round.EndOf(ctx)
	}
	return failed(roundError(r, "acquire", lock.Name(), reason, ended))
}

func (a *attempt) Failure(r *round.Round, reason error) wait.Failure {
	return (*failure)(roundError(r, "acquire", (*Lock)(a).Name(), reason, nil))
}

// failure is the error of an attempt, as package wait knows it ([wait.Failure]).
type failure QuorumError

// failed returns an error of an attempt for package wait. One about arguments, which only the nodes
// know to be bad, ends the call.
func failed(err error) error {
	var f *QuorumError
	switch {
	case !errors.As(err, &f):
		return err
	case errors.Is(f.reason, ErrInvalid):
		return f.reason
	default:
		return (*failure)(f)
	}
}

// told returns an error of package wait as the caller gets it.
func told(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return (*QuorumError)(f)
	}
	return err
}

func (f *failure) Error() string   { return (*QuorumError)(f).Error() }
func (f *failure) Unwrap() []error { return (*QuorumError)(f).Unwrap() }
func (f *failure) Reason() error   { return f.reason }
func (f *failure) Ended() error    { return f.ended }

func (f *failure) End(why error) error { return failed((*QuorumError)(f).endedBy(why)) }
