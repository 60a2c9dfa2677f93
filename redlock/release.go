package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
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
// again after that, it asks the nodes anew, and returns nil once a quorum has answered, by which
// each of them has run the release. Otherwise, called again, it does nothing and returns the same.
//
// Within the time of [WithMinHold] a node keeps the key for the rest of it instead of deleting it.
// Unlock does not wait for that.
func (lock *Lock) Unlock(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	return lock.unlock(ctx, func() *round.Round { return lock.startRelease(nil, true) })
}

// unlock waits for a release that is under way once start has returned, and says what became of it.
func (lock *Lock) unlock(ctx context.Context, start func() *round.Round) (err error) {
	_, span := lock.locker.trace(ctx, OperationRelease, lock.Name())
	defer func() { span.end(err) }()
	r := start()
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
	return roundError(r, "release", lock.Name(), reason, nil)
}

// startRelease ends the lock and sends the releases; all callers get the same round, until that has
// failed. Why, if not nil, is a further reason. Alone is as in [round.Spec].
//
// The mutex is held until every node has been given its release, as it is for an extension. So on
// each node the two come in the order in which they happened to the lock, and no extension is made
// after the release.
func (lock *Lock) startRelease(why error, alone bool) *round.Round {
	l := lock.locker
	lock.mu.Lock()
	if lock.release != nil {
		defer lock.mu.Unlock()
		if lock.state == released && lock.release.Verdict() == quorum.NoQuorum {
			lock.release = lock.askReleasedLocked()
		}
		return lock.release
	}
	now := l.clock.Now()
	lock.expireLocked(now)
	if lock.state == held {
		lock.endLocked(released, releasedFor(why))
	}
	r := lock.newLastReleaseLocked(round.Spec{Rule: quorum.DecideRelease, Expected: lock.mayHold, Alone: alone})
	lock.release = r
	r.Send(now.Add(lock.timeout), lock.mayHoldLocked())
	lock.mu.Unlock()
	return r
}

// askReleasedLocked finds out what became of a release that too few nodes had answered. It goes to
// every node on the connection of that release, or on one that began with it if it was kept. So
// whatever a node answers, the release was run there before. It is a release like that one, which
// also heals what was not kept, or failed.
func (lock *Lock) askReleasedLocked() *round.Round {
	l := lock.locker
	r := lock.newLastReleaseLocked(round.Spec{Rule: quorum.DecideAnswered})
	r.Send(l.clock.Now().Add(lock.timeout), 0)
	return r
}

func releasedFor(why error) error {
	if why == nil {
		return ErrReleased
	}
	return fmt.Errorf("%w: %w", ErrReleased, why)
}

// UnlockAll releases all locks that this Locker holds, concurrently, and returns nil when a quorum
// confirmed each. Otherwise its error has those of [Lock.Unlock], for errors.Is and errors.As.
// Called again, it also asks anew for those that it released and that too few nodes had answered,
// until their TTL has ended; a lock whose Unlock they did not answer is left to its Unlock. Locks
// can be acquired meanwhile.
func (l *Locker) UnlockAll(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if l.life.isClosed() {
		return ErrClosed
	}
	locks, rounds := l.releaseHeld(nil, l.unanswered.take(l.clock.Now())...)
	var failed *multierror.Error
	for i, lock := range locks {
		err := lock.unlock(ctx, func() *round.Round { return rounds[i] }) // not what others have asked since
		if err != nil {
			failed = multierror.Append(failed, err)
		}
		if errors.Is(err, ErrNoQuorum) {
			l.unanswered.add(lock)
		}
	}
	return failed.ErrorOrNil()
}

// unanswered are locks that [Locker.UnlockAll] has released, and that too few nodes have answered.
type unanswered struct {
	mu    sync.Mutex // guards locks; never held over a call to a node
	locks []*Lock
}

func (u *unanswered) add(lock *Lock) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.locks = append(u.locks, lock)
}

// take takes those that nodes may still have.
func (u *unanswered) take(now clock.Instant) []*Lock {
	u.mu.Lock()
	defer u.mu.Unlock()
	locks := u.locks
	u.locks = nil
	return slices.DeleteFunc(locks, func(lock *Lock) bool {
		lock.mu.Lock()
		defer lock.mu.Unlock()
		return now >= lock.undoAtLocked()
	})
}

// maxReleased bounds the releases that are under way at once when all locks are released, so that
// they fit into the queues of the nodes.
const maxReleased = 4096

// releaseHeld releases all locks that are held, and asks anew for others beside them: a master that
// does not answer takes its time once. It returns them with the round of each, as inChunks does.
func (l *Locker) releaseHeld(why error, again ...*Lock) (locks []*Lock, rounds []*round.Round) {
	locks = l.expiry.All()
	if why == nil { // the parts of a set are no caller's
		locks = slices.DeleteFunc(locks, func(lock *Lock) bool { return lock.part })
	}
	locks = append(locks, again...)
	return locks, inChunks(locks, func(lock *Lock) *round.Round {
		if why != nil && lock.guards {
			lock.endGuarded(why)
			return nil
		}
		return lock.startRelease(why, false)
	})
}

// inChunks sends a release of each lock (send returns nil for none), as fast as the nodes take
// them, and returns them. Once a quorum does not answer, it goes on without waiting: what the nodes
// do not take ends with its TTL.
func inChunks(locks []*Lock, send func(lock *Lock) *round.Round) []*round.Round {
	rounds := make([]*round.Round, 0, len(locks))
	answered := true
	for chunk := range slices.Chunk(locks, maxReleased) {
		for _, lock := range chunk {
			rounds = append(rounds, send(lock))
		}
		for _, r := range rounds[len(rounds)-len(chunk):] {
			if answered && r != nil {
				r.Await()
				answered = r.Verdict() != quorum.NoQuorum
			}
		}
	}
	return rounds
}

// A lock of Do guards a function, which goes on until it notices that its context has ended. So
// Close ends such a lock, and leaves its release to Do, which sends it when the function has
// returned:
//
//	held ──Close──▶ released for its user, still at the nodes ──fn returns──▶ deleted there
//	                                     └──closePatience──▶ left to its TTL
//
// Close counts the locks in the same step in which hold adds them, so it misses none. It waits for
// them before it lets go of the nodes, and a release that Do sends is counted before the lock no
// longer is: so Close waits for that as well. Nobody renews the lock meanwhile.

// endGuarded ends a lock of Do for its user, and keeps it at the nodes.
func (lock *Lock) endGuarded(why error) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expireLocked(lock.locker.clock.Now())
	if lock.state == held {
		lock.endLocked(released, releasedFor(why))
	}
}

// undoLost undoes at once those of the locks that were lost and are to be undone later. The time
// until then lets the holder notice that its validity has ended (planUndoLocked); a holder that
// closes its Locker has no more use for it, nor for the rest of the locks that are released with
// it. This endangers nobody: the validity is over before this is sent, the value is the lock's own,
// and on each connection this is behind everything that may have written it.
func (l *Locker) undoLost(locks []*Lock) {
	inChunks(locks, func(lock *Lock) *round.Round {
		lock.mu.Lock()
		defer lock.mu.Unlock()
		l.renewals.Remove(lock)
		if lock.state != lost || lock.release != nil {
			return nil
		}
		return lock.undoNowLocked()
	})
}
