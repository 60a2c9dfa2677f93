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
	cfg, err := l.readConfig(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return l.tryAcquire(ctx, []string{name}, &cfg)
}

// readConfig is lockConfig for a reader.
func (l *Locker) readConfig(ctx context.Context, name string, opts []LockOption) (lockConfig, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	switch {
	case err != nil:
		return cfg, err
	case cfg.value != "":
		return cfg, invalid("WithValue is not for readers: two with one value would end each other's lock")
	case cfg.minHold != 0:
		return cfg, invalid("WithMinHold is not for readers")
	}
	cfg.shared = true
	return cfg, nil
}

// Shared reports whether this is the lock of a reader, see [Locker.TryRLock].
func (lock *Lock) Shared() bool { return lock.shared }

// sharedRequest asks for the lock of a reader, or for that of a writer which keeps readers out if
// it is refused. Turn says that the pilot has handed its vote to the reader.
func (lock *Lock) sharedRequest(turn bool) pipeline.Request {
	if lock.shared {
		return wire.AcquireShared(lock.key[0], lock.value, lock.ttl, turn, lock.process(), lock.fencing())
	}
	return wire.Announce(lock.key[0], lock.value, lock.life(), intentLife, lock.fencing())
}

func (lock *Lock) endSharedRequest() pipeline.Request {
	grace := lock.locker.config.grace(lock.timeout)
	if lock.intent {
		return wire.ReleaseAnnounced(lock.keys(), lock.value, grace, lock.process(), lock.reused)
	}
	return wire.ReleaseShared(lock.key[0], lock.value, grace, lock.process(), lock.reused)
}

// addTo adds the lock to an extension that begins now.
func (lock *Lock) addTo(x *wire.Extension, now clock.Instant) {
	if s := lock.semaphore(); s != nil {
		x.AddPermit(lock.keys()[0], s.wire, lock.value, lock.ttl)
	} else if lock.shared {
		x.AddShared(lock.keys(), lock.value, lock.ttl)
	} else {
		x.Add(lock.keys(), lock.value, lock.lifeAt(now))
	}
}

func (lock *Lock) verifyRequest() pipeline.Request {
	if lock.shared {
		return wire.VerifyShared(lock.key[0], lock.value)
	}
	return wire.Verify(lock.keys(), lock.value)
}

func (lock *Lock) raiseRequest(token int64) pipeline.Request {
	life := lock.locker.config.fenceLife()
	if lock.shared {
		return wire.RaiseShared(lock.key[0], lock.value, token, life)
	}
	return wire.Raise(lock.keys(), lock.value, token, life)
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
