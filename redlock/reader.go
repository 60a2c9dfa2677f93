package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Shared locks, by the protocol of internal/proof/search/shared. To a node, a reader is a member of
// a sorted set beside the key, and the key has a value that no client has. All else is that of the
// mutex: rounds, validity, renewal and undo.
//
// Two readers with one value would be one member, and the release of one would end the lock of the
// other. So every attempt to read has a random value.

// TryRLock acquires a shared lock, with one round and without waiting. Any number of readers hold a
// name together. Its writers are all other calls that lock the name (Lock, TryLock, LockAll and so
// on): they exclude readers and each other. So do clients of other Redlock libraries. Each reader
// has a TTL of its own and is renewed like any lock, so a reader that died keeps a writer out only
// until its own TTL ends.
//
// The result is a [Lock] like any other; [Lock.Shared] tells it from a writer's. It cannot become a
// writer's lock: of two readers that want that, each would wait for the other. Unlock it, and lock
// the name anew; a writer may come in between.
//
// With [WithFencing], the token of a reader is not below that of any writer before it, and below
// that of every writer after it. Readers may have equal tokens. A resource that tells readers from
// writers keeps two numbers (docs/fencing.md).
//
// Errors: those of [Locker.TryLock]. [ErrTaken] says that a writer has the lock, or waits for it
// and keeps new readers out. [WithValue] and [WithMinHold] are [ErrInvalid]: two readers with one
// value would end each other's lock, and a minimum hold says "not again within d" to those that
// come later, while readers come together.
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.callToRead(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	lock, _, err := l.tryAcquire(ctx, &c)
	return lock, err
}

// callToRead returns the call of a reader.
func (l *Locker) callToRead(ctx context.Context, name string, opts []LockOption) (call, error) {
	c, err := l.newCall(ctx, name, opts)
	switch {
	case err != nil:
		return c, err
	case c.value != "":
		return c, invalid("WithValue is not for readers: two with one value would end each other's lock")
	case c.minHold != 0:
		return c, invalid("WithMinHold is not for readers")
	}
	c.kind = reader{}
	return c, nil
}

// Shared reports whether this is the lock of a reader, see [Locker.TryRLock].
func (lock *Lock) Shared() bool {
	_, reads := lock.kind.(reader)
	return reads
}

// reader is the kind of a shared lock.
type reader struct{ mutex }

func (reader) fresh() kind { return reader{} }

func (reader) acquire(lock *Lock, _ int, turn bool) pipeline.Request {
	return wire.AcquireShared(lock.key[0], lock.value, lock.ttl, turn, lock.process(), lock.fencing())
}

func (reader) wait(_ *Lock, ask *wire.Wait, turn bool) pipeline.Request {
	return ask.SharedRequest(turn)
}

func (reader) extend(lock *Lock, x *wire.Extension, b *round.Batch, _ clock.Instant) {
	x.AddShared(lock.key[:], lock.value, lock.ttl)
	b.Add(1)
}

func (reader) verify(lock *Lock) pipeline.Request { return wire.VerifyShared(lock.key[0], lock.value) }

func (reader) raise(lock *Lock, token int64) pipeline.Request {
	return wire.RaiseShared(lock.key[0], lock.value, token, lock.locker.config.fenceLife())
}

func (reader) release(lock *Lock) pipeline.Request {
	return wire.ReleaseShared(lock.key[0], lock.value, lock.grace(), lock.process(), lock.reused)
}

func (reader) settle(ctx context.Context, lock *Lock, r *round.Round) (reason, ended error) {
	return lock.settleReadFence(ctx, r)
}

// settleReadFence is settleFence for a reader. A raise that too few nodes follow, because the token
// is far ahead of their clocks, is made again only with another token: more grants can make it
// smaller, or bring a node that is there already.
func (lock *Lock) settleReadFence(ctx context.Context, r *round.Round) (reason, ended error) {
	var more chan struct{}
	for tried := int64(0); ; {
		fences, granted, need, all := r.Fences(more)
		token, at, below := quorum.DecideReadToken(fences, granted, need)
		if token != 0 && below.Empty() {
			lock.fence = token
			return nil, nil
		}
		if token != 0 && token != tried {
			tried = token
			reason, ended = lock.raise(ctx, token, at, below)
			switch {
			case reason == nil && ended == nil:
				lock.fence = token
				return nil, nil
			case !errors.Is(reason, ErrNoQuorum):
				return reason, ended
			}
			continue // votes may have come in meanwhile
		}
		switch {
		case all:
			return errFarApart, nil
		case more == nil:
			more = make(chan struct{}, 1)
			continue // count the votes that came before it existed
		}
		select {
		case <-more: // at the node timeout at the latest, when every vote is in
		case <-ctx.Done():
			return nil, round.EndOf(ctx)
		}
	}
}

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
