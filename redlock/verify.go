package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Verify asks the nodes whether a quorum still holds the lock, and returns nil if so. Errors: [ErrLost] (and the lock is lost from now on)
// when a quorum does not, [ErrReleased], [ErrNoQuorum] in a [*QuorumError] when too few nodes answered, [ErrInvalid], and
// the error of a ctx that ended. Its answer is about the past: see [Lock.Remaining] for how long the lock can be trusted.
func (lock *Lock) Verify(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if err := lock.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: verify %q: %w", lock.names[0], endOf(ctx))
	}
	l := lock.locker
	if !l.enter() {
		return ErrClosed
	}
	defer l.leave()
	r := &round{
		request: pipeline.Request{
			Script: verifyScript, Args: verifyScript.Args(nil, lock.keys, lock.valueArg), Accept: isInteger, Prove: l.voters.proves(),
		},
		read: readOne, rule: decideHeld, decided: make(chan struct{}),
	}
	lock.mu.Lock()
	timeout := lock.timeout
	lock.mu.Unlock()
	r.send(l, l.clock.Now().Add(timeout), 0)
	v, ended := r.wait(ctx)
	lock.mu.Lock()
	lock.expireLocked(l.clock.Now())
	if v == denied && lock.state == held {
		lock.endLocked(lost, errGone)
	}
	err := lock.err
	lock.mu.Unlock()
	switch {
	case err != nil:
		return err
	case v == won:
		return nil
	default:
		return r.failure(l, "verify", lock.names[0], ErrNoQuorum, ended)
	}
}
