package redlock

import (
	"math/bits"
	"time"

	"github.com/redquorum/redquorum/clock"
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

// renew extends the locks that are due. It is called by the renewal agenda.
func (l *Locker) renew(due []*Lock, _ clock.Instant) {
	if !l.enter() {
		l.undoLost(due) // Close does not find them on the agenda any more
		return
	}
	defer l.leave()
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

// takeExtension takes the verdict on an extension: the lock is held longer, or lost, or all stays as it is.
func (lock *Lock) takeExtension(x *extension, item *extended) {
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := l.clock.Now()
	lock.touched |= item.mayHold
	lock.expireLocked(now)
	lock.extending = false
	if lock.extended != nil {
		close(lock.extended)
		lock.extended = nil
	}
	if lock.state == held && item.verdict == denied {
		lock.endLocked(lost, errGone)
	}
	if lock.state != held {
		return
	}
	// A TTL that was to be longer may have reached no node: what is left of the validity counts.
	after := max(min(lock.ttl/retryShare, lock.until.Sub(now)/renewalShare), retryMin)
	from := now
	if item.verdict == won {
		lock.epoch = x.epoch
		if item.until > lock.until {
			lock.until = item.until
			l.expiry.add(lock, item.until)
		}
		after, from = lock.ttl/renewalShare, x.start
		if !lock.part {
			l.counts.renewed.Add(1)
			l.events.renewed(lock)
		}
	}
	lock.planRenewalLocked(from, after)
}

// planRenewalLocked puts the lock on the renewal agenda, where it is to be renewed and would not end before.
func (lock *Lock) planRenewalLocked(from clock.Instant, after time.Duration) {
	if !lock.renews || lock.until == lock.heldUntil {
		return
	}
	lock.locker.renewals.add(lock, renewalAt(from, after, lock.ttl))
}
