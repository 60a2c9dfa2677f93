package redlock

import (
	"errors"
	"strings"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// newRelease returns a round that deletes the lock's keys where they hold the lock's value, or
// hands them over.
func (lock *Lock) newRelease(how round.Spec) *round.Round {
	how.Request, how.Meaning, how.Background = lock.kind.release(lock), wire.Released, true
	return lock.locker.rounds.New(&how)
}

// newLastReleaseLocked returns the release of a lock that was held. Within its minimum hold the
// keys stay for the rest, unless a quorum no longer has the only one: then somebody has taken it
// by force, and what other nodes have goes, too. Of a set the other names are still ours.
func (lock *Lock) newLastReleaseLocked(how round.Spec) *round.Round {
	l := lock.locker
	until := lock.acquired.Add(lock.minimum())
	gone := errors.Is(lock.err, errGone) && len(lock.keys()) == 1
	if lock.minHold == 0 || l.clock.Now() >= until || gone {
		return lock.newRelease(how)
	}
	how.Request = wire.Retain(lock.keys(), lock.value, lock.grace(), lock.process(), lock.intent)
	how.Meaning, how.Background, how.Until = wire.Released, true, until
	return l.rounds.New(&how)
}

// undo releases what an attempt was granted, may have been, or may yet be: on every node, in the
// background, with a deadline of its own, whatever became of the caller's context. If the SET has
// not been answered, the release is behind it on the same connection. If the connection broke, the
// node delivers the release before anything else when it is back.
func (lock *Lock) undo(u *round.Round, mayHold quorum.NodeSet, deadline clock.Instant) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	u.Send(deadline, mayHold)
}

// mayHoldLocked returns the nodes that a release must reach, now or later. Those that lacked the
// lock have been asked for their votes.
func (lock *Lock) mayHoldLocked() quorum.NodeSet { return lock.mayHold.Or(lock.denials.Lacks()) }

func (lock *Lock) undoAtLocked() clock.Instant {
	return lock.until.Add(lock.locker.config.drift.Of(lock.ttl))
}

func (lock *Lock) undoNowLocked() *round.Round {
	u := lock.newLastReleaseLocked(round.Spec{Rule: quorum.DecideHeld})
	u.Send(lock.locker.clock.Now().Add(lock.timeout), lock.mayHoldLocked())
	return u
}

// dropStrays releases what nodes have, or may have, under the lock's value beside the key that was
// chosen: in the first round each node gave any. A node that may yet answer is not among them: the
// lock is told of it later.
func (lock *Lock) dropStrays(nodes quorum.NodeSet) {
	if nodes.Empty() {
		return
	}
	l := lock.locker
	lock.mu.Lock()
	defer lock.mu.Unlock()
	request, some := lock.kind.strays(lock)
	if !some {
		return
	}
	u := l.rounds.New(&round.Spec{
		Request: request, Meaning: wire.Released, Rule: quorum.DecideHeld, Only: nodes, Background: true,
	})
	u.Send(l.clock.Now().Add(lock.timeout), nodes)
}

// countRelease records whether a lock was handed over. A caller that sees the end of the release,
// and that the coordinator has answered, then finds in the record what it said.
func (l *Locker) countRelease(r *round.Round, node int, kind quorum.Vote) {
	l.waiters.Record.Released(node, kind, func() []string { return wire.Queued(r.Request()) })
}

// released takes a vote of a round in the background. The Locker entered for it, and leaves with
// the last.
func (l *Locker) released(r *round.Round, vote round.Vote) {
	if vote.Kind == quorum.Handed {
		l.counts.handedOver.Add(1)
		l.events.handed(strings.TrimPrefix(r.Request().Key, l.config.keyPrefix))
	}
	if vote.Awaited {
		l.waiters.Pending.Answered(wire.Queued(r.Request())[0], r)
	}
	if vote.Last {
		l.life.leave()
	}
}

// holder is a held lock as the [round.Holder] of its round. A method value for it would cost every
// lock an allocation.
type holder Lock

// Late takes a refusal that came after the lock was won without that node. It comes before the
// node's answer to an extension, and so before the node may be given the key.
func (h *holder) Late(vote round.Vote) {
	lock := (*Lock)(h)
	if vote.Stray {
		lock.dropStrays(quorum.Only(vote.Node))
	}
	if vote.Kind != quorum.Refused {
		return
	}
	lock.mu.Lock()
	lock.mayHold.Remove(vote.Node)
	keys, queued := lock.keys(), lock.kind.queueOf(lock) // which an attempt that is given up changes (untake)
	lock.mu.Unlock()
	if !vote.Stray {
		lock.locker.overtook(keys, queued, quorum.Only(vote.Node))
	}
}

// overtook is told which nodes refused a lock that was won without them, with its keys and those
// of its waiters. If the coordinator is among them, somebody else had its vote
// and we were faster: next time we queue behind that waiter.
func (l *Locker) overtook(keys, queued []string, refused quorum.NodeSet) {
	if refused.Empty() || len(keys) > 1 {
		return
	}
	if coordinator := l.waiters.Coordinators.First(queued[0]); refused.Has(coordinator) {
		l.waiters.Record.Mark(queued[0], coordinator)
	}
}

// confirmed notes a release that a quorum confirmed, unless the coordinator has already answered.
func (l *Locker) confirmed(lock *Lock, r *round.Round) {
	if len(lock.keys()) > 1 {
		return
	}
	queued := lock.kind.queueOf(lock)[0]
	coordinator := l.waiters.Coordinators.First(queued)
	if r.HasVoted(coordinator) {
		return
	}
	now := l.clock.Now()
	l.waiters.Pending.Add(queued, r, coordinator, now.Add(r.Took(now, lock.timeout)))
}
