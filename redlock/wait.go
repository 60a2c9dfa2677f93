package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/random"
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

// acquire joins the wait queue of the call. At its front it seeks the lock: with a round like that
// of TryLock, and if the lock is taken, as a waiter.
func (l *Locker) acquire(ctx context.Context, c *call) (*Lock, error) {
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	since, queue := l.clock.Now(), c.queue()
	ticket := l.desk.Queue.Join(queue)
	defer l.desk.Queue.Leave(queue, ticket)
	if ticket != nil {
		return l.awaitTurn(ctx, newWaiter(c, since), ticket)
	}
	lock, w, err := l.acquireAtOnce(ctx, c, since)
	if w != nil {
		return l.awaitTurn(ctx, w, nil)
	}
	return lock, err
}

// acquireAtOnce makes an attempt without waiting, unless our last release has given the lock to
// somebody else. It returns a waiter if the caller has to wait.
func (l *Locker) acquireAtOnce(ctx context.Context, c *call, since clock.Instant) (*Lock, *waiter, error) {
	prefix, names := c.queued()
	if len(names) == 1 {
		l.desk.Pending.Await(ctx, l.life.closing, l.clock, prefix+names[0])
	}
	if l.desk.Record.Contended(prefix, names) {
		return nil, newWaiter(c, since), nil
	}
	c.yields = true
	lock, r, err := l.tryAcquire(ctx, c)
	c.yields = false
	var failure *QuorumError
	if !errors.As(err, &failure) || failure.ended != nil {
		return lock, nil, err
	}
	w := newWaiter(c, since)
	w.refused = failure
	if w.permit != nil {
		w.learn(r)
	}
	return nil, w, nil
}

// awaitTurn is the rest of acquire, for a caller that did not get the lock at once.
func (l *Locker) awaitTurn(ctx context.Context, w *waiter, ticket *wait.Ticket) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationWait, w.names()[0])
	defer func() { span.end(err) }()
	if w.taken == nil { // otherwise the call counts, and reports
		l.counts.waits.Add(1)
		l.counts.waiting.Add(1)
		defer l.counts.waiting.Add(-1)
		l.events.waiting(w.names()[0])
	}
	if w.refused != nil {
		w.note(w.refused)
	}
	if ticket != nil {
		select {
		case <-ticket.Turn():
		case <-ctx.Done():
			var last *QuorumError
			errors.As(l.desk.Queue.Trouble(w.queueName), &last)
			return nil, waitEnded(last, round.EndOf(ctx))
		case <-l.life.closing:
			return nil, ErrClosed
		}
	}
	lock, err := w.seek(ctx)
	if err == nil && w.taken == nil {
		l.events.waited(lock, l.clock.Now().Sub(w.since))
	}
	return lock, err
}

// whyEnded returns why a wait ended early: the Locker was closed, or ctx ended.
func (l *Locker) whyEnded(ctx context.Context) error {
	select {
	case <-l.life.closing:
		return ErrClosed
	default:
		return round.EndOf(ctx)
	}
}

// waitEnded joins why a wait ended with the last failure before that; nil where there was none.
// ErrInvalid is about the number of permits, and the last failure does not matter.
func waitEnded(last *QuorumError, why error) error {
	if last == nil || errors.Is(why, ErrClosed) || errors.Is(why, ErrInvalid) {
		return why
	}
	told := *last
	told.ended = why
	return &told
}

// A wake is why a waiter goes on.
type wake uint8

const (
	wakeHanded wake = iota // the pilot's vote is ours
	wakeDue                // time to ask again
	wakeEnded              // ctx or the Locker ended
)

// awaitRefused waits after a refusal of the pilot. A wait of some length makes up for the attempts
// before it.
func (w *waiter) awaitRefused(ctx context.Context, answer *wire.WaitReply) wake {
	began := w.locker.clock.Now()
	woke := w.awaitAfter(ctx, answer)
	if w.locker.clock.Now().Sub(began) > outageMax {
		// Not sooner: waiters that are handed a vote that they cannot use, because no quorum
		// answers or another name of their set is taken, hand it on at once, and would keep passing
		// it around in a circle.
		w.hops = 0
		w.outage.Reset()
		w.crowd.Reset()
	}
	return woke
}

// awaitHandOver waits for the message that the lock was handed over, for the end of the holder's
// time, or for the next poll: messages may be lost, or forbidden, or not sent by the holder.
func (w *waiter) awaitHandOver(ctx context.Context, left time.Duration) wake {
	pause := w.poll.Next()
	if left >= 0 && left < pause {
		pause = left + time.Millisecond + random.N(expirySpread)
	}
	return w.awaitWake(ctx, pause)
}

// noPause is the pause of a waiter for which another one of its process polls.
const noPause time.Duration = -1

// awaitWake waits for the message, or until a pause is over.
func (w *waiter) awaitWake(ctx context.Context, pause time.Duration) wake {
	l := w.locker
	var over <-chan struct{}
	if pause != noPause {
		alarm, timer := clock.After(l.clock, pause)
		defer timer.Stop()
		over = alarm
	}
	select {
	case <-w.wakeup.Handed:
		l.counts.woken.Add(1)
		return wakeHanded
	case <-w.wakeup.Again:
	case <-over:
	case <-ctx.Done():
		return wakeEnded
	case <-l.life.closing:
		return wakeEnded
	}
	return wakeDue
}
