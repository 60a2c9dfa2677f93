package redlock

import (
	"errors"
	"math/bits"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A lock is renewed a third of its TTL after the beginning of the round that it is held by. After a
// round without a verdict it is renewed again a twelfth of its TTL later, so that several attempts
// fit into what is left.
const (
	renewalShare = 3
	retryShare   = 12
	retryMin     = 5 * time.Millisecond // when little is left

	// maxRenewed bounds the keys that are renewed at once: a node does that many in about 10 ms, so
	// its other callers do not wait long behind renewals.
	maxRenewed = 16 * maxExtended

	// quantumShare is the part of its TTL by which a renewal may come early, so that many come
	// together.
	quantumShare = 32
)

// renewalAt returns when to renew a lock whose round began at start. The time is brought forward to
// a multiple of a power of two, so that locks acquired at about the same time are renewed with one
// script.
func renewalAt(start clock.Instant, after, ttl time.Duration) clock.Instant {
	quantum := clock.Instant(1) << (bits.Len64(uint64(max(min(ttl/quantumShare, after/2), 1))) - 1)
	at := start.Add(after)
	return max(at-at%quantum, start)
}

// renew extends the locks that are due. The renewal schedule calls it.
func (l *Locker) renew(due []*Lock, _ clock.Instant) {
	if !l.life.enter() {
		l.undoLost(due) // Close no longer finds them on the schedule
		return
	}
	defer l.life.leave()
	l.renewing.Lock()
	defer l.renewing.Unlock()
	for len(due) > 0 {
		n, keys := 0, 0
		for n < len(due) && (n == 0 || keys+due[n].kind.pairs(due[n]) <= maxExtended) {
			keys += due[n].kind.pairs(due[n])
			n++
		}
		l.extend(due[:n], func(lock *Lock) time.Duration { return min(lock.ttl, l.members.MaxTTL()) })
		due = due[n:]
	}
}

// hold makes the lock one of the held ones. It reports false if the Locker was closed meanwhile:
// then the lock was never held, and is undone like an attempt that failed. Close sets closed and
// then collects the held locks; hold checks closed in the same step as it adds the lock. So Close
// releases every lock that hold has added, and the caller can tell the two cases apart. (Adopt
// must: it gives back what it took.)
func (l *Locker) hold(lock *Lock) bool {
	lock.mu.Lock()
	l.life.mu.Lock()
	closed := l.life.closed
	if !closed {
		l.expiry.Add(lock, lock.until)
	}
	if !closed && lock.guards {
		l.life.guarded++
	}
	l.life.mu.Unlock()
	if closed {
		lock.mu.Unlock()
		return false
	}
	if lock.part {
		l.counts.parts.Add(1)
	}
	l.events.acquired(lock)
	lock.planRenewalLocked(lock.acquired, lock.ttl/renewalShare)
	lock.mu.Unlock()
	l.members.Patrol()
	lock.nodesForgot() // a node may have forgotten before the lock was on the schedule
	return true
}

// takeExtension applies the verdict on an extension: the lock is held longer, is lost, or stays as
// it is.
func (lock *Lock) takeExtension(x *extension, item *extended, result round.Result) {
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := l.clock.Now()
	lock.touched = lock.touched.Or(result.MayHold)
	lock.expireLocked(now)
	lock.extending = false
	if lock.extended != nil {
		close(lock.extended)
		lock.extended = nil
	}
	if lock.state == held && result.Verdict == quorum.Denied {
		lock.endLocked(lost, errGone)
	}
	if lock.state != held {
		return
	}
	// A longer TTL may have reached no node: what is left of the validity counts.
	after := max(min(lock.ttl/retryShare, lock.until.Sub(now)/renewalShare), retryMin)
	from := now
	if result.Verdict == quorum.Won {
		lock.epoch = x.epoch
		if item.until > lock.until {
			lock.until = item.until
			l.expiry.Add(lock, item.until)
		}
		after, from = lock.ttl/renewalShare, x.start
		if !lock.part {
			l.counts.renewed.Add(1)
			l.events.renewed(lock)
		}
	}
	lock.planRenewalLocked(from, after)
}

// planRenewalLocked puts the lock on the renewal schedule, unless it is not renewed or already
// reaches its maximum hold.
func (lock *Lock) planRenewalLocked(from clock.Instant, after time.Duration) {
	if !lock.renews || lock.until == lock.heldUntil {
		return
	}
	lock.locker.renewals.Add(lock, renewalAt(from, after, lock.ttl))
}

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
