package redlock

import (
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// WithMinHold sets for how long the name stays taken at least, counted from the start of the round
// that acquires the lock (default 0; at most [WithMaxTTL]). If the lock ends earlier, because it is
// released, it is lost or its process dies, nobody can acquire the name until then: "not again
// within d". So a short periodic job runs once per period, even if the clocks of the machines that
// start it differ. The masters count the time, each by its own clock (docs/safety.md, S30).
//
// Validity, renewal, Unlock, Close and hooks are as without it: once released, the lock is held by
// nobody. [Locker.Inspect] shows the name as taken, with the value of that lock. Nobody is exempt:
// a second Lock of the same Locker waits as well. Waiters get the name when the time is over.
// Nobody hands it over then, so the order between processes is not kept. An attempt that fails
// leaves nothing behind.
//
// A semaphore and readers refuse it ([ErrInvalid]).
//
// [Locker.ForceUnlock] frees the name at once, and so may [Locker.Adopt] with the value of the
// lock: the minimum hold does not travel, the adopter gives its own.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error {
		if d < 0 {
			return invalid("minimum hold %v is negative", d)
		}
		c.minHold = d // checked against MaxTTL when all options are known
		return nil
	})
}

// A lock with a minimum hold d (WithMinHold) keeps its name taken until acquired + d, however it
// ends: S30 (docs/safety.md).
//
//   - Every node that grants it sets the key for d or longer, and every extension gives the key the
//     rest or more. So a process that dies and a lock that is lost need no further message.
//   - A release within d gives the keys the rest (retain.lua) instead of deleting them. That only
//     shortens what an extension with a longer TTL has set.
//   - Only a lock that was held leaves a rest. An attempt that failed is undone as without it.
//
// Errors of time are late. Acquired is read before the first byte is sent, and a node counts d from
// when it runs the SET. The rest is computed when the release is written, by the clock that counts
// suspends, is rounded up to a millisecond, and counts from when the node runs it. A release that
// is written again, because the connection broke or the node was away, gets what is left then;
// after the end it deletes. If a node runs a release late all the same, the key's own end still
// applies (retain.lua). Only a node whose clock is faster than ours is early, by the drift of A1
// over d.
//
// If a quorum says that the lock is gone, an operator forced it or somebody adopted it. Its last
// extension has set it again on nodes that had deleted it. Then the release deletes, so that the
// name is free after ForceUnlock.

// life returns how long a node that grants the lock keeps the key.
func (lock *Lock) life() time.Duration { return max(lock.ttl, lock.minimum()) }

// lifeAt returns how long a node that is asked at an instant must keep the key of a held lock.
func (lock *Lock) lifeAt(now clock.Instant) time.Duration {
	return max(lock.ttl, ceilMillis(lock.acquired.Add(lock.minimum()).Sub(now)))
}

func (lock *Lock) minimum() time.Duration { return time.Duration(lock.minHold) * time.Millisecond }

// newLastReleaseLocked returns the release of a lock that was held. Within its minimum hold the
// keys stay for the rest.
func (lock *Lock) newLastReleaseLocked(how round.Spec) *round.Round {
	l := lock.locker
	until := lock.acquired.Add(lock.minimum())
	if lock.minHold == 0 || l.clock.Now() >= until || errors.Is(lock.err, errGone) {
		return lock.newRelease(how)
	}
	how.Request = wire.Retain(lock.keys(), lock.value, lock.grace(), lock.process(), lock.reused)
	how.Meaning, how.Background, how.Until = wire.Released, true, until
	return l.rounds.New(&how)
}

// ceilMillis rounds up to whole milliseconds, in which nodes count.
func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
