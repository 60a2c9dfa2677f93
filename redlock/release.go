package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Unlock releases the lock on every node, including those that did not grant it. ctx does not cut
// it short: it ends when a quorum has answered, at the latest at the node timeout. Nodes that
// cannot be reached get the release when they are back, if that is before the end of
// [Locker.Close].
//
// It returns nil when a quorum confirmed that it deleted the lock, or gave it to a waiter; if some
// nodes do not answer, nodes that never granted the lock count as well. It returns [ErrLost] when
// the lock was lost before, or a quorum no longer had it, and a [*QuorumError] with [ErrNoQuorum]
// when too few nodes answered (the lock is free there at the end of its TTL at the latest). Called
// again, it does nothing and returns the same.
//
// Within the time of [WithMinHold] a node keeps the key for the rest of it instead of deleting it.
// Unlock does not wait for that.
func (lock *Lock) Unlock(ctx context.Context) (err error) {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	_, span := lock.locker.trace(ctx, OperationRelease, lock.Name())
	defer func() { span.end(err) }()
	r := lock.startRelease(nil)
	r.Await() // every vote is in by the node timeout
	lock.mu.Lock()
	ended := lock.err // for good
	lock.mu.Unlock()
	if errors.Is(ended, ErrLost) {
		return ended
	}
	reason := ErrNoQuorum
	switch r.Verdict() {
	case quorum.Won:
		lock.locker.confirmed(lock, r)
		return nil
	case quorum.Denied:
		reason = ErrLost
	case quorum.Pending, quorum.NoQuorum:
	}
	return lock.locker.failure(r, "release", lock.Name(), reason, nil)
}

// startRelease ends the lock and sends the releases, once; all callers get the same round. Why, if
// not nil, is a further reason.
//
// The mutex is held until every node has been given its release, as it is for an extension. So on
// each node the two come in the order in which they happened to the lock, and no extension is made
// after the release.
func (lock *Lock) startRelease(why error) *round.Round {
	l := lock.locker
	lock.mu.Lock()
	if lock.release != nil {
		defer lock.mu.Unlock()
		return lock.release
	}
	now := l.clock.Now()
	lock.expireLocked(now)
	if lock.state == held {
		lock.endLocked(released, releasedFor(why))
	}
	l.life.enterAnyway()
	r := lock.newLastReleaseLocked(round.Spec{Rule: quorum.DecideRelease, Expected: lock.touched})
	lock.release = r
	r.Send(now.Add(lock.timeout), lock.mayHoldLocked())
	lock.mu.Unlock()
	l.expiry.Remove(lock)
	return r
}

func releasedFor(why error) error {
	if why == nil {
		return ErrReleased
	}
	return fmt.Errorf("%w: %w", ErrReleased, why)
}

// newRelease returns a round that deletes the lock's keys where they hold the lock's value, or
// hands them over.
func (lock *Lock) newRelease(how round.Spec) *round.Round {
	how.Request, how.Meaning, how.Background = lock.kind.release(lock), wire.Released, true
	return lock.locker.rounds.New(&how)
}

// process names this process on the wait lists that the lock may be on; "" if it is on none.
func (lock *Lock) process() string {
	if !lock.listed {
		return ""
	}
	return lock.locker.desk.Subscriptions.Process()
}

// countRelease records whether a lock was handed over. A caller that sees the end of the release,
// and that the pilot has answered, then finds in the record what it said.
func (l *Locker) countRelease(r *round.Round, node int, kind quorum.Vote) {
	l.desk.Record.Released(node, kind, func() []string { return wire.Queued(r.Request()) })
}

// released takes a vote of a round in the background. The Locker entered for it, and leaves with
// the last.
func (l *Locker) released(r *round.Round, vote round.Vote) {
	if vote.Kind == quorum.Handed {
		l.counts.handedOver.Add(1)
		l.events.handed(strings.TrimPrefix(r.Request().Key, l.config.keyPrefix))
	}
	if vote.Awaited {
		l.desk.Pending.Answered(wire.Queued(r.Request())[0], r)
	}
	if vote.Last {
		l.life.leave()
	}
}

// holder is a held lock as the [round.Holder] of its round. A method value for it would cost every
// lock an allocation.
type holder Lock

// Late takes a refusal that came after the lock was won without that node. An extension may have
// given the node the key since.
func (h *holder) Late(vote round.Vote) {
	lock := (*Lock)(h)
	if vote.Stray {
		lock.dropStrays(quorum.Only(vote.Node))
	}
	if vote.Kind != quorum.Refused {
		return
	}
	lock.mu.Lock()
	if !lock.healing {
		lock.touched.Remove(vote.Node)
	}
	lock.mu.Unlock()
	if !vote.Stray {
		lock.locker.overtook(lock, quorum.Only(vote.Node))
	}
}

// overtook is told which nodes refused a lock that was won without them. If the pilot is among
// them, somebody else had its vote and we were faster: next time we queue behind that waiter.
func (l *Locker) overtook(lock *Lock, refused quorum.NodeSet) {
	if refused.Empty() || len(lock.keys()) > 1 {
		return
	}
	queued := lock.kind.queueOf(lock)[0]
	if pilot := l.desk.Pilots.First(queued); refused.Has(pilot) {
		l.desk.Record.Mark(queued, pilot)
	}
}

// confirmed notes a release that a quorum confirmed, unless the pilot has already answered.
func (l *Locker) confirmed(lock *Lock, r *round.Round) {
	if len(lock.keys()) > 1 {
		return
	}
	queued := lock.kind.queueOf(lock)[0]
	pilot := l.desk.Pilots.First(queued)
	if r.HasVoted(pilot) {
		return
	}
	now := l.clock.Now()
	l.desk.Pending.Add(queued, r, pilot, now.Add(r.Took(now, lock.timeout)))
}

// UnlockAll releases all locks that this Locker holds, concurrently, and returns nil when a quorum
// confirmed each. Otherwise it returns the errors of [Lock.Unlock] in a *multierror.Error. Locks
// can be acquired meanwhile.
func (l *Locker) UnlockAll(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if l.life.isClosed() {
		return ErrClosed
	}
	var failed *multierror.Error
	for _, lock := range l.releaseHeld(nil) {
		if err := lock.Unlock(ctx); err != nil {
			failed = multierror.Append(failed, err)
		}
	}
	return failed.ErrorOrNil()
}

// maxReleased bounds the releases that are under way at once when all locks are released, so that
// they fit into the queues of the nodes.
const maxReleased = 4096

// releaseHeld releases all locks that are held.
func (l *Locker) releaseHeld(why error) []*Lock {
	locks := l.expiry.All()
	if why == nil { // the parts of a set are no caller's
		locks = slices.DeleteFunc(locks, func(lock *Lock) bool { return lock.part })
	}
	inChunks(locks, func(lock *Lock) *round.Round {
		if why != nil && lock.guards {
			lock.endGuarded(why)
			return nil
		}
		return lock.startRelease(why)
	})
	return locks
}

// inChunks sends a release of each lock (send returns nil for none), as fast as the nodes take
// them. Once a quorum does not answer, it goes on without waiting: what the nodes do not take ends
// with its TTL.
func inChunks(locks []*Lock, send func(lock *Lock) *round.Round) {
	rounds := make([]*round.Round, 0, min(len(locks), maxReleased))
	answered := true
	for chunk := range slices.Chunk(locks, maxReleased) {
		rounds = rounds[:0]
		for _, lock := range chunk {
			rounds = append(rounds, send(lock))
		}
		for _, r := range rounds {
			if answered && r != nil {
				r.Await()
				answered = r.Verdict() != quorum.NoQuorum
			}
		}
	}
}

// ForceUnlock deletes a lock on every node, whoever holds it, or hands it to the longest waiter. It
// is for an operator who knows that the holder is gone. A holder that is not gone learns of it at
// its next round, or with [WithoutRenewal] at the end of its validity, and believes until then that
// it holds the lock. ForceUnlock returns nil when a quorum of nodes has deleted the lock, handed it
// over or held nothing. Nodes that are away keep it until its TTL ends.
//
// If readers hold the lock, it ends for all of them. The name of a [Semaphore] is not that of its
// permits, which have one each ([Lock.Name]).
//
// The log of the nodes gets an entry of it: `redlock log` shows that.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	_, err := l.forceUnlock(ctx, name, "")
	return err
}

func (l *Locker) forceUnlock(ctx context.Context, name, why string) (f journal.Taken, err error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return f, err
	}
	if !l.life.enter() {
		return f, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return f, fmt.Errorf("redlock: force-unlock %q: %w", name, round.EndOf(ctx))
	}
	key, timeout := l.config.keyPrefix+name, l.config.timeout(cfg.ttl)
	var mu sync.Mutex // guards seen and held; late replies still use them
	seen, held := f, map[string]int{}
	take := func(_ int, reply any) {
		mu.Lock()
		defer mu.Unlock()
		value, left := wire.ReadForced(reply)
		seen.Left = max(seen.Left, left)
		if held[value]++; value != "" && held[value] > held[seen.Value] {
			seen.Value = value
		}
	}
	r := l.rounds.New(&round.Spec{
		Request: wire.Force(key, l.config.grace(timeout)), Meaning: wire.Any, Rule: quorum.DecideHeld, Replies: take,
	})
	l.awaitVoters(ctx, l.clock.Now(), timeout)
	r.Send(l.clock.Now().Add(timeout), 0)
	v, ended := r.Wait(ctx)
	if v != quorum.Won {
		return f, l.failure(r, "force-unlock", name, ErrNoQuorum, ended)
	}
	mu.Lock()
	told := seen
	mu.Unlock()
	if told.Value != "" {
		holder, _ := ownerAndSince(told.Value)
		told.Unlogged = l.log(ctx, forcedEntry(key, holder, why))
	}
	return told, nil
}
