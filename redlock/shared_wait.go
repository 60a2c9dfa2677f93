package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A writer that waits keeps new readers out of every node by an intent (announce.lua). It learns
// from its pilot that readers have the lock, and announces itself there and at all other nodes, at
// once and again while it waits. The intent lives for three of these rounds, so that a writer that
// died keeps nobody out for long. So does an intent that arrives late, after its writer has left or
// got the lock. Nothing depends on intents but how long others wait: internal/proof/search/shared
// searches them at any time.
const (
	intentLife = 3 * intentPoll
	intentPoll = time.Second
)

// RLock acquires a shared lock, as [Locker.TryRLock] does, and waits for it as [Locker.Lock] does.
// Readers and writers get the lock nearly in the order in which they came. Readers that wait
// together, with no writer between them, get it together. While a writer waits, readers that come
// later wait behind it. So it gets the lock once the readers before it are done, whatever readers
// come. (A writer that only calls TryLock again and again keeps nobody out.)
//
// Errors: those of [Locker.Lock]. [WithValue] and [WithMinHold] are [ErrInvalid].
func (l *Locker) RLock(ctx context.Context, name string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.callToRead(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	// Readers do not queue within the Locker: each has its own place at the pilot, because all of
	// them can be served at once.
	lock, w, err := l.acquireAtOnce(ctx, &c, l.clock.Now())
	if w == nil {
		return lock, err
	}
	w.readers = l.desk.Crowds.Join(l.config.keyPrefix+name, w.wakeup)
	lock, err = l.awaitTurn(ctx, w, nil)
	w.readers.Leave(err == nil && !w.handed)
	return lock, err
}

// announce announces a writer that has met readers, at the other nodes in the background and at the
// pilot when it next asks. On each connection the intent comes before the release that withdraws
// it. A set announces itself for the name that it waits for: it waits for one at a time, and does
// not know yet who has the others.
func (lock *Lock) announce(pilot, target int) {
	l := lock.locker
	lock.intent = true
	others := quorum.All(len(l.nodes())).Minus(quorum.Only(pilot))
	if others.Empty() {
		return
	}
	l.life.enterAnyway()
	// Read as a refusal: the answer says nothing about waiters there.
	r := l.rounds.New(&round.Spec{
		Request: wire.Intend(lock.keys()[target], lock.value, intentLife), Meaning: wire.None, Rule: quorum.DecideHeld,
		Only: others, Background: true,
	})
	r.Send(l.clock.Now().Add(lock.timeout), 0)
}

// awaitTogether is awaitHandOver, but only one of the readers of a Locker polls.
func (w *waiter) awaitTogether(ctx context.Context, left time.Duration) wake {
	if w.readers != nil && !w.readers.Polls() {
		return w.awaitWake(ctx, noPause)
	}
	return w.awaitHandOver(ctx, left)
}

// awaitReaders waits behind readers, until the writer announces itself again.
func (w *waiter) awaitReaders(ctx context.Context, left time.Duration) wake {
	if !w.announced {
		w.announced = true
		return wakeDue // at once
	}
	pause := w.poll.Next()
	if pause > intentPoll {
		pause = intentPoll/2 + random.N(intentPoll/2)
	}
	if left >= 0 && left < pause {
		pause = left + time.Millisecond + random.N(expirySpread)
	}
	return w.awaitWake(ctx, pause)
}
