package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Verify asks the nodes whether a quorum still holds the lock, and returns nil if so. The answer is
// about the past: see [Lock.Remaining] for how long the lock can be trusted.
//
// Errors: [ErrLost] when a quorum does not hold it (the lock is lost from then on), [ErrReleased],
// [ErrNoQuorum] in a [*QuorumError] when too few nodes answered, [ErrInvalid], and the error of a
// ctx that ended.
func (lock *Lock) Verify(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if err := lock.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: verify %q: %w", lock.names[0], round.EndOf(ctx))
	}
	l := lock.locker
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	r := round.New(l.members, wire.Verify(lock.keys, lock.valueArg), wire.Yes, quorum.DecideHeld).Announce()
	lock.mu.Lock()
	timeout := lock.timeout
	lock.mu.Unlock()
	r.Send(l.clock.Now().Add(timeout), 0)
	v, ended := r.Wait(ctx)
	lock.mu.Lock()
	lock.expireLocked(l.clock.Now())
	if v == quorum.Denied && lock.state == held {
		lock.endLocked(lost, errGone)
	}
	err := lock.err
	lock.mu.Unlock()
	switch {
	case err != nil:
		return err
	case v == quorum.Won:
		return nil
	default:
		return l.failure(r, "verify", lock.names[0], ErrNoQuorum, ended)
	}
}
