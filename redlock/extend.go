package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// Extend gives the lock a new TTL, from now on, with one round: a quorum of nodes must still hold it. A node that lost the
// key gets it back, and votes from the next round on. It takes the limits of [WithTTL].
//
// A TTL shorter than what is left shortens the validity at once, whatever becomes of the round. Otherwise a round that fails
// changes nothing: the lock is held until its present validity ends. Errors: [ErrLost] when a quorum no longer has the lock or validity
// ended first (a lost lock never comes back), [ErrReleased], [ErrNoQuorum] in a [*QuorumError] when too few nodes answered,
// [ErrInvalid], and the error of a ctx that ended.
func (lock *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if err := lock.locker.config.checkTTL(ttl); err != nil {
		return err
	}
	if err := lock.beginExtension(ctx); err != nil {
		return err
	}
	defer lock.endExtension()
	r, until, epoch, err := lock.sendExtend(ttl)
	if err != nil {
		return err
	}
	v, ended := r.wait(ctx)
	return lock.extended(r, v, until, epoch, ended)
}

// beginExtension waits until no other extension is under way: the nodes keep the TTL of the last one that reaches
// them, so two at once would leave them and us with different ideas of it.
func (lock *Lock) beginExtension(ctx context.Context) error {
	lock.mu.Lock()
	if lock.extender == nil {
		lock.extender = make(chan struct{}, 1)
	}
	token := lock.extender
	lock.mu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: extend %q: %w", lock.name, endOf(ctx))
	}
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redlock: extend %q: %w", lock.name, endOf(ctx))
	}
}

func (lock *Lock) endExtension() { <-lock.extender }

// sendExtend sends the extension of a lock that is held, and returns the validity that it gives when it is granted.
// The mutex is held over the sending, so that no release comes between: behind one, an extension would bring the key back.
func (lock *Lock) sendExtend(ttl time.Duration) (r *round, until clock.Instant, epoch uint64, err error) {
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	start := l.clock.Now()
	lock.expireLocked(start)
	if lock.err != nil {
		return nil, 0, 0, lock.err
	}
	ttlMillis, counted := millis(ttl)
	until = l.config.drift.Validity(start, counted)
	if until < lock.until { // nodes that take the shorter TTL forget the lock earlier
		lock.until = until
		l.expiry.add(lock, until)
	}
	lock.ttl, lock.timeout = counted, l.config.timeout(counted)
	epoch = l.voters.now()
	r = &round{
		request: pool.Request{
			Script: extendScript, Args: extendScript.Args(make([]any, 0, 5), lock.keyArg, lock.valueArg, ttlMillis),
			Key: lock.key, Accept: isInteger,
		},
		read: readExtend, rule: decideHeld, decided: make(chan struct{}),
	}
	r.send(l, start.Add(lock.timeout), 0)
	lock.touched |= r.mayHold()
	return r, until, epoch, nil
}

// extended takes the verdict on an extension.
func (lock *Lock) extended(r *round, v verdict, until clock.Instant, epoch uint64, ended error) error {
	l := lock.locker
	lock.mu.Lock()
	lock.expireLocked(l.clock.Now())
	if v == denied && lock.state == held {
		lock.endLocked(lost, errGone)
	}
	if lock.err == nil && v == won {
		lock.epoch = epoch
		if until > lock.until {
			lock.until = until
			l.expiry.add(lock, until)
		}
	}
	err, unlocked := lock.err, lock.release != nil
	lock.mu.Unlock()
	switch {
	case errors.Is(err, ErrLost):
		l.expiry.remove(lock)
		if !unlocked {
			// The round may have written the key anew on some nodes, for a lock that nobody holds.
			lock.undo(r.mayHold())
		}
		if v == denied {
			return r.failure(l, "extend", lock.name, err, nil)
		}
		return err
	case err != nil:
		return err
	case v == won:
		return nil
	default:
		return r.failure(l, "extend", lock.name, ErrNoQuorum, ended)
	}
}

// readExtend reads the answer of extend.lua.
func readExtend(reply any) vote {
	switch reply {
	case int64(1):
		return granted
	case int64(2):
		return healed
	default:
		return refused
	}
}

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
		return fmt.Errorf("redlock: verify %q: %w", lock.name, endOf(ctx))
	}
	l := lock.locker
	r := &round{
		request: pool.Request{Name: "GET", Args: []any{lock.keyArg}, Key: lock.key, Accept: isBulk},
		read: func(reply any) vote {
			if value, ok := reply.([]byte); ok && string(value) == lock.value {
				return granted
			}
			return refused
		},
		rule: decideHeld, decided: make(chan struct{}),
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
		return r.failure(l, "verify", lock.name, ErrNoQuorum, ended)
	}
}

func isBulk(reply any) bool {
	_, ok := reply.([]byte)
	return ok || reply == nil
}
