package redlock

import (
	"math/bits"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
)

// A lock is renewed a third of its TTL after the round that it is held by began; after a round without a verdict, again
// a twelfth of it later, so that several fit into what is left.
const (
	renewalShare = 3
	retryShare   = 12
	retryMin     = 5 * time.Millisecond // where little is left
	maxRenewed   = 16 * maxExtended     // at once: what a node does in about 10 ms, so that its other callers do not wait behind renewals
	quantumShare = 32                   // by how much of its TTL a renewal may come early, so that many come together
)

// renewalAt returns when to renew a lock whose round began at start. It is brought forward to a multiple of a power of two, so
// that locks that were taken at about the same time are renewed with one script.
func renewalAt(start clock.Instant, after, ttl time.Duration) clock.Instant {
	quantum := clock.Instant(1) << (bits.Len64(uint64(max(min(ttl/quantumShare, after/2), 1))) - 1)
	at := start.Add(after)
	return max(at-at%quantum, start)
}

// renew extends the locks that are due. It is called by the renewal schedule.
func (l *Locker) renew(due []*Lock, _ clock.Instant) {
	if !l.life.enter() {
		l.undoLost(due) // Close does not find them on the schedule any more
		return
	}
	defer l.life.leave()
	l.renewing.Lock()
	defer l.renewing.Unlock()
	for len(due) > 0 {
		n, keys := 0, 0
		for n < len(due) && (n == 0 || keys+len(due[n].keys) <= maxExtended) {
			keys += len(due[n].keys)
			n++
		}
		l.extend(due[:n], func(lock *Lock) time.Duration { return lock.ttl })
		due = due[n:]
	}
}

// hold makes the lock one of the held ones, and reports false where the Locker was closed
// meanwhile: then the lock was never held, and is undone like an attempt that failed. Close
// collects the held ones after it has set closed, which this looks at in the same step as it adds
// the lock: so Close releases every lock that this has added, and its caller may tell the two
// apart. (Adopt must: it gives back what it took.)
func (l *Locker) hold(lock *Lock) bool {
	lock.mu.Lock()
	l.life.mu.Lock()
	closed := l.life.closed
	if !closed {
		l.expiry.Add(lock, lock.until)
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
	lock.nodesForgot() // also those that did before the lock was on the schedule
	return true
}

// takeExtension takes the verdict on an extension: the lock is held longer, or lost, or all stays as it is.
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
	// A TTL that was to be longer may have reached no node: what is left of the validity counts.
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

// planRenewalLocked puts the lock on the renewal schedule, where it is to be renewed and would not end before.
func (lock *Lock) planRenewalLocked(from clock.Instant, after time.Duration) {
	if !lock.renews || lock.until == lock.heldUntil {
		return
	}
	lock.locker.renewals.Add(lock, renewalAt(from, after, lock.ttl))
}
