package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// choose makes the lock that of the one which its round chose: a slot, or one of the names.
func (lock *Lock) choose(one int) {
	set := lock.set
	if set.semaphore == nil {
		set.names, set.keys = set.names[one-1:one], set.all[one-1:one]
		return
	}
	set.slot = one
	suffix := wire.Slot(one)
	set.names[0], set.keys[0] = set.semaphore.name+suffix, set.semaphore.wire.Key+suffix
}

// unchoose makes the release of a lock that was not taken reach all that nodes may have given it.
// That of a permit does so anyway.
func (lock *Lock) unchoose() {
	if lock.set != nil && lock.set.all != nil {
		lock.mu.Lock() // its observer may be at work
		lock.set.keys = lock.set.all
		lock.mu.Unlock()
	}
}

// dropStrays releases what nodes have, or may have, under the lock's value beside the key that was
// chosen: in the first round each node gave any. A node that may yet answer is not among them: the
// observer of the round will be told of it. If a permit has been released, its release went to all
// nodes, behind the round, and was for all slots.
func (lock *Lock) dropStrays(nodes quorum.NodeSet) {
	if nodes.Empty() {
		return
	}
	l, set := lock.locker, lock.set
	lock.mu.Lock()
	defer lock.mu.Unlock()
	grace := l.config.grace(lock.timeout)
	if s := set.semaphore; s != nil && lock.release != nil {
		return
	} else if s != nil {
		u := l.rounds.New(&round.Spec{
			Request: s.wire.GiveBack(lock.value, grace, set.slot, ""), Meaning: wire.Released, Rule: quorum.DecideHeld,
			Only: nodes, Background: true,
		})
		lock.undoLocked(u, nodes, l.clock.Now().Add(lock.timeout))
		return
	}
	others := slices.DeleteFunc(slices.Clone(set.all), func(key string) bool { return key == set.keys[0] })
	if len(others) == 0 {
		return
	}
	u := l.rounds.New(&round.Spec{
		Request: wire.Release(&wire.Claim{}, others, lock.value, grace, "", false), Meaning: wire.Released, Rule: quorum.DecideHeld,
		Only: nodes, Background: true,
	})
	lock.undoLocked(u, nodes, l.clock.Now().Add(lock.timeout))
}

// TryLockAny acquires the first of the names that is free; [Lock.Name] says which. It takes 1 to
// 256 names, each once, and one round, or two if the nodes do not all have the same name free. It
// returns within a node timeout for each. Otherwise it works like [Locker.TryLock]. The lock is
// like any other of its name.
//
// It cannot be combined with [WithValue] ([ErrInvalid]).
func (l *Locker) TryLockAny(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	cfg, err := l.anyConfig(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.tryAcquireAny(ctx, names, &cfg)
}

func (l *Locker) anyConfig(ctx context.Context, names []string, opts []LockOption) (lockConfig, error) {
	cfg, err := l.setConfig(ctx, names, opts)
	if err == nil && cfg.value != "" {
		// A node takes equal values for one attempt, and would give two callers one lock.
		return cfg, invalid("WithValue cannot be used with several names to choose from")
	}
	return cfg, err
}

// tryAcquireAny is [Semaphore.tryAcquire] with names for slots.
func (l *Locker) tryAcquireAny(ctx context.Context, names []string, cfg *lockConfig) (*Lock, error) {
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: acquire %q: %w", names[0], round.EndOf(ctx))
	}
	lock := newBareLock(l, cfg)
	lock.value = string(cfg.appendValue(nil, l.clock.Wall()))
	lock.set = &set{names: slices.Clone(names)}
	for _, name := range names {
		lock.set.keys = append(lock.set.keys, l.config.keyPrefix+name)
	}
	lock.set.all = lock.set.keys
	lock.begin(l.awaitVoters(ctx, l.clock.Now(), lock.timeout), cfg.maxHold)
	r := lock.newTakeAny(round.Spec{Any: true})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	if v, _ := r.Wait(ctx); v == quorum.Denied { //nolint:errcheck // finish waits, too
		if one := r.Available(0); one != 0 {
			before := r.MayHold()
			lock.begin(l.clock.Now(), cfg.maxHold)
			r = lock.newTakeAny(round.Spec{One: one, Before: before})
			r.Send(lock.acquired.Add(lock.timeout), 0)
		}
	}
	return l.finish(ctx, lock, r, cfg)
}

func (lock *Lock) newTakeAny(how round.Spec) *round.Round {
	take := wire.TakeAny{
		Keys: lock.set.all, Value: lock.value, TTL: lock.life(), Grace: lock.locker.config.grace(lock.timeout),
		Only: how.One, Fencing: lock.fencing(),
	}
	how.Request = take.Request()
	return lock.newGrant(&how)
}

// LockAny acquires the first of the names that is free, and waits for one as long as ctx allows:
// for each name as [Locker.Lock] does, at the same time. It takes 1 to 256 names, each once.
// [Lock.Name] says which it got. It cannot be combined with [WithValue] ([ErrInvalid]).
func (l *Locker) LockAny(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	cfg, err := l.anyConfig(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	if len(names) == 1 {
		return l.acquire(ctx, names, &cfg)
	}
	since := l.clock.Now()
	if !l.desk.Record.Contended(l.config.keyPrefix, names) {
		lock, err := l.tryAcquireAny(ctx, names, &cfg)
		var failure *QuorumError
		if !errors.As(err, &failure) || failure.ended != nil {
			return lock, err
		}
	}
	return l.awaitAny(ctx, names, cfg, since)
}

// awaitAny waits for all names, each with a value of its own. The first wait that is granted a lock
// takes it, and ends the others, which undo what they have as always.
func (l *Locker) awaitAny(ctx context.Context, names []string, cfg lockConfig, since clock.Instant) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationWait, names[0])
	defer func() { span.end(err) }()
	l.counts.waits.Add(1)
	l.counts.waiting.Add(1)
	defer l.counts.waiting.Add(-1)
	l.events.waiting(names[0])
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg.taken = new(atomic.Bool)
	type result struct {
		lock *Lock
		err  error
	}
	results := make(chan result, len(names))
	for _, name := range names {
		go func() {
			one := cfg
			lock, err := l.acquire(waiting, []string{name}, &one)
			results <- result{lock, err}
		}()
	}
	var got *Lock
	var failed error
	for range names {
		switch r := <-results; {
		case r.err == nil:
			got = r.lock
			cancel()
		case failed == nil:
			failed = r.err
			if errors.Is(failed, ErrClosed) {
				cancel()
			}
		}
	}
	if got == nil {
		return nil, failed
	}
	l.events.waited(got, l.clock.Now().Sub(since))
	return got, nil
}
