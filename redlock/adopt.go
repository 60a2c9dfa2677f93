package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/pool"
)

// Adopt takes over a lock that another process holds, by its name and its [Lock.Value]: a quorum of nodes swaps the value for
// a fresh one. The lock that is returned is renewed and released like any; the old handle is lost at its next round, and can
// neither extend nor release what it held. Of two that adopt the same lock, one at most succeeds.
//
// Errors: [ErrLost] in a [*QuorumError] when a quorum does not hold that value, [ErrNoQuorum], [ErrNoValidity], [ErrInvalid], [ErrClosed], and
// the error of a ctx that ended. After each of them the swap is undone where it took place, and the old holder keeps its lock,
// unless it looked while a majority was swapped: it then believes that it is lost, and nobody holds it.
func (l *Locker) Adopt(ctx context.Context, name, value string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.config.lockConfig(ctx, name, opts)
	switch {
	case err != nil:
		return nil, err
	case value == "" || len(value) > maxValue+1+maxOwner:
		return nil, invalid("value has %d bytes, not 1 to %d", len(value), maxValue+1+maxOwner)
	case cfg.value != "" && cfg.newValue() == value:
		return nil, invalid("WithValue: the new value is the old one")
	case !l.enter():
		return nil, ErrClosed
	}
	defer l.leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("redlock: adopt %q: %w", name, endOf(ctx))
	}
	lock := newLock(l, []string{name}, &cfg)
	epoch := l.voters.now()
	start := l.clock.Now()
	lock.begin(epoch, start, cfg.maxHold)
	args := append([]any{value, lock.valueArg, lock.ttl.Milliseconds()}, lock.fenceArgs()...)
	r := &round{
		request: pool.Request{Script: adoptScript, Args: adoptScript.Args(nil, lock.keys, args...), Key: lock.key(), Accept: isGrant, Prove: l.voters.proves()},
		read:    readGrant, rule: decideHeld, decided: make(chan struct{}),
	}
	if lock.fenced {
		r.rare = &rare{fences: make([]int64, len(l.nodes))}
	}
	r.send(l, start.Add(lock.timeout), 0)
	v, ended := r.wait(ctx)
	reason := ErrNoQuorum
	switch v {
	case won:
		if reason, ended = lock.settle(ctx, r); reason == nil && ended == nil {
			reason = l.take(lock, r, &cfg)
		}
		if reason == nil && ended == nil {
			l.counts.acquired.Add(1)
			l.forgetAdoption(lock, value)
			return lock, nil
		}
	case denied:
		reason = fmt.Errorf("%w: a quorum of nodes does not hold it under that value", ErrLost)
	case noQuorum, pending:
	}
	lock.restore(value, r.mayHold())
	if l.isClosed() {
		return nil, ErrClosed
	}
	return nil, r.failure(l, "adopt", name, reason, ended)
}

// adoptionNote is the key that adopt.lua writes beside a lock's key.
const adoptionNote = "redquorum:adopt:"

// forgetAdoption removes the notes of a swap that stands, in the background. What it misses ends with its TTL.
func (l *Locker) forgetAdoption(lock *Lock, old string) {
	l.enterAnyway()
	note := adoptionNote + lock.key()
	r := &round{
		request: pool.Request{
			Script: releaseScript, Args: releaseScript.Args(nil, []any{note}, old, l.grace(lock.timeout)), Key: note, Accept: isInteger,
		},
		read: readOne, rule: decideHeld, locker: l,
	}
	r.send(l, lock.acquired.Add(lock.timeout), 0)
}

// restore gives the old holder its lock back, in the background, on every node that may have swapped the value.
func (lock *Lock) restore(old string, mayHold uint64) {
	l := lock.locker
	l.enterAnyway()
	r := &round{
		request: pool.Request{
			Script: restoreScript, Args: restoreScript.Args(nil, lock.keys, lock.valueArg, old, l.grace(lock.timeout)), Key: lock.key(), Accept: isInteger,
		},
		read: readOne, rule: decideHeld, locker: l,
	}
	r.send(l, l.clock.Now().Add(lock.timeout), mayHold)
}
