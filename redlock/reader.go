package redlock

import (
	"context"
	"errors"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Shared locks, by the protocol of internal/proof/search/shared. Only what nodes are asked differs
// from the mutex (shared.lua): rounds, validity, renewal and undo are the same. Every attempt to
// read has a random value, because two readers with one value would be one.

// TryRLock acquires a shared lock, with one round and without waiting. Any number of readers hold a
// name together. Its writers are all other calls that lock the name (Lock, TryLock, LockAll and so
// on): they exclude readers and each other. So do clients of other Redlock libraries. Each reader
// has a TTL of its own and is renewed like any lock, so a reader that died keeps a writer out only
// until its own TTL ends.
//
// The result is a [Lock] like any other. It cannot become a writer's lock: of two readers that want
// that, each would wait for the other. Unlock it, and lock the name anew; a writer may come in
// between.
//
// With [WithFencing], the token of a reader is not below that of any writer before it, and below
// that of every writer after it. Readers may have equal tokens. A resource that tells readers from
// writers keeps two numbers (docs/fencing.md).
//
// Errors: those of [Locker.TryLock]. [ErrTaken] says that a writer has the lock, or waits for it
// and keeps new readers out. [WithMinHold] is [ErrInvalid]: it says "not again within d" to those
// that come later, while readers come together.
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, name)
	defer func() { span.end(err) }()
	c, err := l.callToRead(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return l.try(ctx, &c)
}

// callToRead returns the call of a reader.
func (l *Locker) callToRead(ctx context.Context, name string, opts []LockOption) (call, error) {
	c, err := l.newCall(ctx, name, opts)
	switch {
	case err != nil:
		return c, err
	case c.minHold != 0:
		return c, invalid("WithMinHold is not for readers")
	}
	c.kind = reader{}
	return c, nil
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

func (reader) extend(lock *Lock, x *wire.Extension, _ clock.Instant) {
	x.AddShared(lock.key[:], lock.value, lock.ttl)
}

func (reader) prefer(_ *Lock, p *wire.Prefer) pipeline.Request { return p.SharedRequest() }

func (reader) verify(lock *Lock) pipeline.Request { return wire.VerifyShared(lock.key[0], lock.value) }

func (reader) raise(lock *Lock, token int64) pipeline.Request {
	return wire.RaiseShared(lock.key[0], lock.value, token, lock.locker.config.fenceLife())
}

func (reader) release(lock *Lock) pipeline.Request {
	return wire.ReleaseShared(lock.key[0], lock.value, lock.grace(), lock.process())
}

func (reader) settle(ctx context.Context, lock *Lock, r *round.Round) (told *round.Round, reason, ended error) {
	return lock.settleReadFence(ctx, r)
}

// settleReadFence is settleFence for a reader. A raise that too few nodes follow, because the token
// is far ahead of their clocks, is made again only with another token: more grants can make it
// smaller, or bring a node that is there already.
func (lock *Lock) settleReadFence(ctx context.Context, r *round.Round) (told *round.Round, reason, ended error) {
	var room [usualNodes]int64
	var more chan struct{}
	for tried := int64(0); ; {
		fences, granted, need, all := r.Fences(room[:], more)
		token, at, below := quorum.DecideReadToken(fences, granted, need)
		if token != 0 && below.Empty() {
			lock.fence = token
			return r, nil, nil
		}
		if token != 0 && token != tried {
			tried = token
			told, reason, ended = lock.raise(ctx, token, at, below)
			switch {
			case reason == nil && ended == nil:
				lock.fence = token
				return r, nil, nil
			case !errors.Is(reason, ErrNoQuorum):
				return told, reason, ended
			}
			continue // votes may have come in meanwhile
		}
		switch {
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

// RLock acquires a shared lock, as [Locker.TryRLock] does, and waits for it as [Locker.Lock] does.
// Readers and writers get the lock nearly in the order in which they came. Readers that wait
// together, with no writer between them, get it together. While a writer waits, readers that come
// later wait behind it. So it gets the lock once the readers before it are done, whatever readers
// come. (A writer that only calls TryLock again and again keeps nobody out.)
//
// Errors: those of [Locker.Lock]. [WithMinHold] is [ErrInvalid].
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
	return lockOf(l.waiters.AcquireTogether(ctx, &c))
}
