package redlock

import (
	"math/bits"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
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
