package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Extend gives the lock a new TTL, from now on, with one round: a quorum of nodes must confirm that
// they still hold it. A node that no longer has the key refuses. It gets the key back then, and
// refuses once more: it votes from the second round on that finds the key. The limits of [WithTTL]
// apply. Renewal continues with the new TTL, even if the round failed.
//
// A TTL shorter than what is left shortens the validity at once, whatever becomes of the round.
// Otherwise a round that fails leaves the present validity as it is. The nodes that it reached
// still keep the key for the new TTL, and renewal, unless it is off, tries again before the
// validity ends: the lock survives if a quorum answers by then. If the rest of [WithMinHold] is
// longer than the TTL, the nodes keep the key for that.
//
// Errors: [ErrLost] when a quorum says that it does not have the lock, to this extension or to the
// last ones, or the validity ended first (a lost lock never comes back), [ErrReleased],
// [ErrNoQuorum] in a [*QuorumError] when too few nodes answered or they disagree, [ErrInvalid], and
// the error of a ctx that ended (the round continues, and counts).
func (lock *Lock) Extend(ctx context.Context, ttl time.Duration) (err error) {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	l := lock.locker
	ctx, span := l.trace(ctx, OperationExtend, lock.Name())
	defer func() { span.end(err) }()
	if err := l.config.checkTTL(ttl); err != nil {
		return err
	}
	if err := l.checkMaxTTL("TTL", ttl); err != nil {
		return err
	}
	for {
		if err := lock.awaitExtension(ctx); err != nil {
			return err
		}
		if !l.life.enter() {
			return lock.closing()
		}
		x := l.extend([]*Lock{lock}, func(*Lock) time.Duration { return ttl })
		if x == nil { // another extension came first, or the lock has ended
			l.life.leave()
			continue
		}
		var ended error
		select {
		case <-x.decided:
		case <-ctx.Done():
			ended = round.EndOf(ctx)
		}
		l.life.leave()
		return x.result(lock, ended)
	}
}

// awaitExtension waits until no extension of the lock is under way. The nodes keep the TTL of the
// last one that reaches them, so with two at once their TTL and ours could differ.
func (lock *Lock) awaitExtension(ctx context.Context) error {
	for {
		lock.mu.Lock()
		lock.expireLocked(lock.locker.clock.Now())
		if err := lock.err; err != nil || !lock.extending {
			lock.mu.Unlock()
			if err == nil && ctx.Err() != nil {
				return fmt.Errorf("redlock: extend %q: %w", lock.Name(), round.EndOf(ctx))
			}
			return err
		}
		if lock.extended == nil {
			lock.extended = make(chan struct{})
		}
		over := lock.extended
		lock.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return fmt.Errorf("redlock: extend %q: %w", lock.Name(), round.EndOf(ctx))
		}
	}
}

// result returns what Extend returns. The verdict comes first, then what it made of the lock.
func (x *extension) result(lock *Lock, ended error) error {
	v, votes, errs := x.batch.Outcome(0)
	if v != quorum.Pending {
		<-x.decided // the goroutine that counted the last vote is telling the lock
	}
	err := lock.Err()
	if v == quorum.Won || err != nil && v != quorum.Denied {
		return err
	}
	reason := ErrNoQuorum
	if err != nil {
		reason = err
	}
	return newQuorumError("extend", lock.Name(), lock.locker.nodes(), votes, errs, reason, ended)
}

// maxExtended bounds the keys of one extension. A script of that length keeps a node busy for less
// than a millisecond, and its reply is far below the limits of what a node may answer.
const maxExtended = 256

// extension gives many locks a new time to live. Extend makes one of a single lock, renewal one of
// all that are due. It implements round.BatchObserver.
type extension struct {
	batch   *round.Batch
	start   clock.Instant // before the first byte was sent
	epoch   uint64        // of the membership at that time
	items   []extended
	decided chan struct{} // closed when the first lock has its verdict
}

// extended is one lock of an extension.
type extended struct {
	lock  *Lock
	until clock.Instant // the end of its validity, if the extension is granted
}

// extend sends an extension of those of the locks that are held and have none under way, each with
// its own TTL. It returns nil if there is no such lock.
//
// All their mutexes are held until every node has been given its call, so that no release of one of
// them comes in between: behind its release, an extension would prolong what is left of a minimum
// hold. Only renew takes the mutexes of many locks, one batch at a time, so their order does not
// matter.
func (l *Locker) extend(locks []*Lock, ttl func(*Lock) time.Duration) *extension {
	x := &extension{
		epoch: l.members.Epoch(), start: l.clock.Now(),
		items: make([]extended, 0, len(locks)), decided: make(chan struct{}),
	}
	x.batch = round.NewBatch(l.members, len(locks), x)
	request := wire.NewExtension(len(locks))
	var timeout time.Duration
	for _, lock := range locks {
		lock.mu.Lock()
		if lock.expireLocked(x.start); lock.err != nil || lock.extending {
			if lock.state == lost && lock.release == nil && x.start >= lock.undoAtLocked() {
				lock.undoNowLocked() // as planned
			}
			lock.mu.Unlock()
			continue
		}
		lock.beginExtensionLocked(x, ttl(lock))
		timeout = max(timeout, lock.timeout)
		lock.kind.extend(lock, request, x.start)
		x.batch.Add(len(lock.keys()), lock.denials.Lacks())
	}
	if len(x.items) == 0 {
		return nil
	}
	x.batch.Send(request.Request(), x.start.Add(timeout))
	for i := range x.items {
		x.items[i].lock.mu.Unlock()
	}
	x.batch.Deliver()
	return x
}

// beginExtensionLocked adds a held lock to an extension. A TTL shorter than what is left shortens
// the validity before a byte is sent: nodes that apply it forget the lock earlier, whatever becomes
// of the round.
func (lock *Lock) beginExtensionLocked(x *extension, ttl time.Duration) {
	l := lock.locker
	lock.ttl = ttl.Truncate(time.Millisecond)
	if timeout := l.config.timeout(lock.ttl); timeout != lock.timeout {
		lock.timeout, lock.claim = timeout, wire.Claim{} // which has another grace
	}
	until := lock.boundedLocked(l.config.drift.Validity(x.start, lock.ttl))
	if until < lock.until {
		lock.until = until
		l.expiry.Add(lock, until)
	}
	lock.extending, lock.tried = true, x
	x.items = append(x.items, extended{lock: lock, until: until})
}

// Decided passes a lock its verdict.
func (x *extension) Decided(item int, verdict quorum.Verdict, said round.Said) {
	it := &x.items[item]
	it.lock.takeExtension(x, it, verdict, said)
	if item == 0 {
		close(x.decided)
	}
}

// takeExtension applies the verdict on an extension: the lock is held longer, is lost, or stays as
// it is.
func (lock *Lock) takeExtension(x *extension, item *extended, verdict quorum.Verdict, said round.Said) {
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := l.clock.Now()
	lock.expireLocked(now)
	lock.extending = false
	if lock.extended != nil {
		close(lock.extended)
		lock.extended = nil
	}
	lock.denials.Decided(verdict)
	healed := lock.takeSaidLocked(said, verdict == quorum.Denied)
	if lock.state != held {
		return
	}
	// A longer TTL may have reached no node: what is left of the validity counts.
	after := max(min(lock.ttl/retryShare, lock.until.Sub(now)/renewalShare), retryMin)
	from := now
	if verdict == quorum.Won {
		lock.epoch, lock.tried = x.epoch, nil
		if item.until > lock.until {
			lock.until = item.until
			l.expiry.Add(lock, item.until)
		}
		if after = lock.soon(); !healed {
			after, from = lock.ttl/renewalShare, x.start
		}
		if !lock.part {
			l.counts.renewed.Add(1)
			l.events.renewed(lock)
		}
	} else if !lock.part && l.events.wantsUnrenewed() {
		l.events.unrenewed(lock, lock.becauseLocked(ErrNoQuorum))
	}
	lock.planRenewalLocked(from, after)
}

// takeSaidLocked takes what nodes have said to an extension, also after its verdict: a lock that a
// majority says it does not have is lost, and one that some nodes lack asks them for their votes.
// It reports whether nodes are healed that were not when they were last asked.
func (lock *Lock) takeSaidLocked(said round.Said, denied bool) (healed bool) {
	l := lock.locker
	fresh := said.Absent.Minus(lock.denials.Lacks())
	lock.denials.Add(said.Absent.Or(said.Taken), said.Back)
	lock.mayHold = lock.mayHold.Or(said.Back)
	count := func(b *quorum.Ballot) quorum.Tally { return l.members.View().Count(b, quorum.All(len(l.nodes()))) }
	if lock.state == held && (denied || lock.denials.Lost(count)) {
		lock.endLocked(lost, lock.becauseLocked(errGone))
	}
	if lock.state == held { // no release has been sent (S8)
		lock.healLocked(said.Absent)
		lock.preferLocked(said.Taken)
	}
	return !fresh.Empty()
}

// soon is when a lock is extended again after nodes were healed. Until they vote, it is a lock of
// fewer nodes.
func (lock *Lock) soon() time.Duration { return min(retryMin, lock.ttl/retryShare) }

// becauseLocked returns a reason with what the nodes said to the last extension, unless a quorum
// granted it. Of one that is under way, it tells what is known so far: where the TTL is short, the
// validity may end before the nodes' time is up.
func (lock *Lock) becauseLocked(reason error) error {
	x := lock.tried
	if x == nil {
		return reason
	}
	item := slices.IndexFunc(x.items, func(it extended) bool { return it.lock == lock })
	_, votes, errs := x.batch.Outcome(item)
	return newQuorumError("extend", lock.Name(), lock.locker.nodes(), votes, errs, reason, nil)
}

// Late takes what a node answered after the verdict.
func (x *extension) Late(item int, said round.Said) {
	lock := x.items[item].lock
	lock.mu.Lock()
	defer lock.mu.Unlock()
	now := lock.locker.clock.Now()
	lock.expireLocked(now)
	if lock.takeSaidLocked(said, false) && lock.state == held && !lock.extending {
		lock.planRenewalLocked(now, lock.soon())
	}
}

// healLocked sets the keys again at nodes that lack them.
func (lock *Lock) healLocked(absent quorum.NodeSet) {
	if absent.Empty() {
		return
	}
	request := wire.Heal()
	lock.kind.extend(lock, request, lock.locker.clock.Now())
	lock.askForVoteLocked(request.Request(), absent)
}

// preferLocked asks nodes where somebody else has the lock for the vote, once it is free. Waiters
// pass it around: each of them is refused by the others, and gives it back. Without it a lock of a
// bare majority would stay one for as long as others wait, and be lost with one node that is
// silent.
func (lock *Lock) preferLocked(taken quorum.NodeSet) {
	if taken.Empty() {
		return
	}
	lock.listed = true
	ttl := max(lock.until.Sub(lock.locker.clock.Now()), 0)
	prefer := wire.Prefer{Keys: lock.keys(), Value: lock.value, Process: lock.process(), TTL: ttl}
	lock.askForVoteLocked(lock.kind.prefer(lock, &prefer), taken)
}

// askForVoteLocked asks nodes that lack the lock for their votes. It goes to the nodes under the
// mutex, and so before the release, which takes back what it brings (S8).
func (lock *Lock) askForVoteLocked(request pipeline.Request, nodes quorum.NodeSet) {
	l := lock.locker
	r := l.rounds.New(&round.Spec{
		Request: request, Meaning: wire.None, Rule: quorum.DecideAnswered, Only: nodes, Background: true,
	})
	r.Send(l.clock.Now().Add(lock.timeout), 0)
}

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
	// together: enough to fill a few scripts. More would keep the nodes busy all at once, and idle
	// in between.
	quantumShare = 32
	quantumKeys  = 4 * maxExtended
)

// renewalAt returns when to renew one of so many locks, whose round began at start. The time is
// brought forward to a multiple of a power of two, so that locks acquired at about the same time
// are renewed with one script.
func renewalAt(start clock.Instant, after, ttl time.Duration, locks int) clock.Instant {
	early := min(ttl/quantumShare, after/2, after/time.Duration(max(locks, 1))*quantumKeys)
	quantum := clock.Instant(1) << (bits.Len64(uint64(max(early, 1))) - 1)
	at := start.Add(after)
	return max(at-at%quantum, start)
}

// planRenewalLocked puts the lock on the renewal schedule, unless it is not renewed or already
// reaches its maximum hold.
func (lock *Lock) planRenewalLocked(from clock.Instant, after time.Duration) {
	if !lock.renews || lock.until == lock.heldUntil {
		return
	}
	lock.locker.renewals.AddAmong(lock, func(locks int) clock.Instant { return renewalAt(from, after, lock.ttl, locks) })
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
		for n < len(due) && (n == 0 || keys+len(due[n].keys()) <= maxExtended) {
			keys += len(due[n].keys())
			n++
		}
		l.extend(due[:n], func(lock *Lock) time.Duration { return min(lock.ttl, l.members.View().MaxTTL()) })
		due = due[n:]
	}
}

// closing returns why a lock of a closed Locker is not asked about. Close may be about to release
// it, which nothing can stop any more.
func (lock *Lock) closing() error {
	if err := lock.Err(); err != nil {
		return errors.Join(err, ErrClosed)
	}
	return releasedFor(ErrClosed)
}

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
		return fmt.Errorf("redlock: verify %q: %w", lock.Name(), round.EndOf(ctx))
	}
	l := lock.locker
	if !l.life.enter() {
		return lock.closing()
	}
	defer l.life.leave()
	r := l.rounds.New(&round.Spec{Request: lock.kind.verify(lock), Meaning: wire.Yes, Rule: quorum.DecideHeld})
	lock.mu.Lock()
	timeout := lock.timeout
	lock.mu.Unlock()
	r.Send(l.clock.Now().Add(timeout), 0)
	v, ended := r.Wait(ctx)
	lock.mu.Lock()
	lock.expireLocked(l.clock.Now())
	if v == quorum.Denied && lock.state == held {
		lock.endLocked(lost, roundError(r, "verify", lock.Name(), errGone, nil))
	}
	err := lock.err
	lock.mu.Unlock()
	switch {
	case err != nil:
		return err
	case v == quorum.Won:
		return nil
	default:
		return roundError(r, "verify", lock.Name(), ErrNoQuorum, ended)
	}
}
