package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Unlock releases the lock on every node, also on those that did not grant it. It is not cut short
// by ctx: it ends when a quorum has answered, at the latest at the node timeout, and nodes that
// cannot be reached now get the release when they are back, if that is before the end of
// [Locker.Close].
//
// It returns nil when a quorum confirmed that it deleted the lock, or gave it to one who waits; nodes that never granted it count
// where others do not answer. [ErrLost] when the lock was lost before, or a quorum did not have
// it any more; a [*QuorumError] with [ErrNoQuorum] when too few nodes answered (the lock is free there at the end of its TTL at the latest).
// Called again, it returns the same without doing anything.
func (lock *Lock) Unlock(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	r := lock.startRelease(nil)
	<-r.decided // every vote is in by the node timeout
	if err := lock.Err(); errors.Is(err, ErrLost) {
		return err
	}
	reason := ErrNoQuorum
	switch r.verdict {
	case won:
		lock.locker.confirmed(lock, r)
		return nil
	case denied:
		reason = ErrLost
	case pending, noQuorum:
	}
	return r.failure(lock.locker, "release", lock.names[0], reason, nil)
}

// startRelease ends the lock and sends the releases, once; all callers get the one round. Why, where it is not nil, is
// a further reason.
//
// The mutex is held until every node has been given its release, as it is for an extension: so on each node the two
// come in the order in which they happened to the lock, and no extension is made after the release.
func (lock *Lock) startRelease(why error) *round {
	l := lock.locker
	lock.mu.Lock()
	if lock.release != nil {
		defer lock.mu.Unlock()
		return lock.release
	}
	now := l.clock.Now()
	lock.expireLocked(now)
	if lock.state == held {
		reason := ErrReleased
		if why != nil {
			reason = fmt.Errorf("%w: %w", ErrReleased, why)
		}
		lock.endLocked(released, reason)
	}
	l.enterAnyway()
	r := lock.newRelease()
	r.decided = make(chan struct{})
	r.locker = l
	lock.release = r
	r.expected, r.rule = lock.touched, decideRelease
	r.send(l, now.Add(lock.timeout), lock.mayHoldLocked())
	lock.mu.Unlock()
	l.expiry.remove(lock)
	return r
}

// newRelease returns a round that deletes the lock's keys where they hold the lock's value.
func (lock *Lock) newRelease() *round {
	script := releaseScript
	if lock.reused {
		script = orderedReleaseScript
	}
	l := lock.locker
	args := script.Args(make([]any, 0, 6), lock.keys, lock.valueArg, l.grace(lock.timeout))
	if lock.listed {
		args = append(args, l.ears.process)
	}
	return &round{
		request: pipeline.Request{Script: script, Args: args, Key: lock.key(), Accept: isInteger},
		read:    readRelease, rule: decideHeld,
	}
}

// readRelease reads the answer of release.lua.
func readRelease(reply any) vote {
	switch n, _ := reply.(int64); n {
	case 1:
		return granted
	case 2:
		return handed
	case 3:
		return spared
	default:
		return refused
	}
}

func isInteger(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

// readOne reads the answer of a script that returns 1 where the key was ours.
func readOne(reply any) vote {
	if n, _ := reply.(int64); n == 1 {
		return granted
	}
	return refused
}
