package redlock

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/handoff"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A release hands over the votes of those nodes on whose lists somebody waits. An ordinary waiter
// is on one list, the pilot's: it owns that vote and must still ask for the others, which are free
// for a round trip. Whoever spins with TryLock can be faster, again and again. So a waiter that was
// overtaken takes a place on the list of every node. The next release, whoever's it is, then gives
// it all votes that were the holder's, and there is no moment in which a node is free for anybody
// else.
//
// The places have one value, and the waiter keeps each vote that it gets until a quorum is its own:
//
//	ask all ──quorum──▶ held
//	 ▲   └──refused by a quorum──▶ wait for a vote to be handed over
//	 └── handed over, or time ◀───────┘
//
// Two who have some votes each would wait for each other: so whoever waits with votes that are no
// quorum gives them back after a while, the one who has waited longest last, and takes its places
// anew. The node gives such a vote to the oldest on its list, who is likely to be on the other
// lists as well.
//
// This is as safe as a round like any other. Only the votes of one round are counted, and each of
// them says that the node has set the key to our value, with the full TTL, after that round began:
// wait.lua sets a key that is ours already once more. Nothing of ours takes a vote back in between,
// because the value is released only when the attempt is over. A node hands a vote to a place
// without the fence of fencing tokens; the round that counts the vote has raised it.

// With votes that are no quorum nobody waits for longer than these bounds: the lock may be free.
const (
	standoffMin   = 5 * time.Millisecond
	standoffMax   = time.Second
	standoffShare = 8
)

// maxOvertaken is how often a waiter may own the pilot's vote and be refused by the others, or have
// to come back to the pilot because of that, before it takes a place at every node.
const maxOvertaken = 2

// wantsPlaces reports whether the waiter is to take a place at every node: it was overtaken, and
// could be handed a quorum of votes. (Without messages it would keep the votes that it has from
// those who could use them.) Of a set of names, a place is for one of them only.
func (w *waiter) wantsPlaces() bool {
	return w.overtaken >= maxOvertaken && len(w.names) == 1 && len(w.locker.nodes) > 1 && w.locker.desk.Pilots.QuorumIsUp() &&
		!w.seesOthers()
}

// takePlaces is an attempt with a place at every node. It reports false where too few nodes could
// wake it, and has then done nothing.
func (w *waiter) takePlaces(ctx context.Context) (got *Lock, err error, done bool) {
	l := w.locker
	lock := newLock(l, w.names, w.cfg)
	if !w.listenAtQuorum(ctx, l.clock.Now().Add(lock.timeout)) {
		return nil, nil, false
	}
	w.wakeup.WaitEverywhere()
	lock.listed = true
	l.desk.Subscriptions.Await(lock.value, w.wakeup)
	defer l.desk.Subscriptions.Forget(lock.value, w.wakeup)
	var before quorum.NodeSet // nodes that may have our value since an earlier round
	var placed quorum.NodeSet // nodes that may have us on their lists
	for {
		var left atomic.Int64
		r := w.askAll(lock, before, &left)
		v, ended := r.Wait(ctx)
		w.slowNode = l.clock.Now().Sub(lock.acquired) > handoff.LateAfter
		placed |= r.Reached()
		if v != quorum.Denied || ended != nil {
			got, err = l.finish(ctx, lock, r, w.cfg)
			return got, err, true
		}
		if w.seesOthers() { // their releases hand nothing over: others.go
			return nil, w.giveUpPlaces(ctx, lock, r, placed), true
		}
		before = r.MayHold()
		w.note(l.failure(r, "acquire", w.names[0], ErrTaken, nil))
		pause := time.Duration(left.Load()) - 1
		standoff := !r.MayHold().Empty()
		if standoff { // with a holder who has a quorum, or with others who have none either
			pause = w.standoff()
		}
		switch woke := w.awaitHandOver(ctx, pause); {
		case woke == wakeHanded:
		case woke == wakeEnded || standoff:
			w.hops = 0 // that was the pause
			return nil, w.giveUpPlaces(ctx, lock, r, placed), true
		default:
			l.counts.polls.Add(1)
		}
	}
}

// standoff is for how long to wait with votes that are no quorum: the longer, the older the waiter.
// So those who have waited for less give back first, and what they give goes to the oldest.
func (w *waiter) standoff() time.Duration {
	age := w.locker.clock.Now().Sub(w.since)
	return min(max(age/standoffShare, standoffMin), standoffMax) + rand.N(standoffMin)
}

// askAll asks every node for its vote, or for a place on its list. Into left goes for how long the
// lock is taken, plus one; 0 where that is not known.
func (w *waiter) askAll(lock *Lock, before quorum.NodeSet, left *atomic.Int64) *round.Round {
	l := w.locker
	w.wakeup.ClearAgain() // that is what we do
	lock.begin(w.cfg.maxHold)
	r := lock.newGrant(lock.waitRequest(w, l.desk.Subscriptions.Process()), w.allVotes())
	r.Before(before)
	r.TakeReplies(func(_ int, reply any) {
		answer := wire.ReadWait(reply)
		w.seeOthers(&answer)
		if !answer.Granted && answer.Left >= 0 {
			left.CompareAndSwap(0, int64(answer.Left)+1)
		}
	})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}

// allVotes decides as an acquisition does, but a refusal only when all have answered: then it is
// known which votes are ours. It does not wait for them where one of the nodes was slow the last
// time.
func (w *waiter) allVotes() func(votes quorum.Tally) quorum.Verdict {
	slow := w.slowNode
	return func(votes quorum.Tally) quorum.Verdict {
		if v := quorum.DecideAcquire(votes); v == quorum.Won || slow || votes.Outstanding() == 0 {
			return v
		}
		return quorum.Pending
	}
}

// giveUpPlaces gives up all places, and the votes that were handed to them.
func (w *waiter) giveUpPlaces(ctx context.Context, lock *Lock, r *round.Round, placed quorum.NodeSet) error {
	l := w.locker
	lock.mu.Lock()
	lock.undoLocked(lock.newRelease(quorum.DecideHeld), placed, l.clock.Now().Add(lock.timeout))
	lock.mu.Unlock()
	if l.life.isClosed() {
		return ErrClosed
	}
	var ended error
	if ctx.Err() != nil {
		ended = round.EndOf(ctx)
	}
	return l.failure(r, "acquire", lock.names[0], ErrTaken, ended)
}

// listenAtQuorum begins to listen at all nodes that are up, and reports whether a quorum can wake
// us.
func (w *waiter) listenAtQuorum(ctx context.Context, deadline clock.Instant) bool {
	l := w.locker
	listening := l.desk.Subscriptions.ListenAt(ctx, l.desk.Pilots.Up(), deadline)
	return listening.And(l.members.View().Voting).Len() >= quorum.Need(len(l.nodes))
}
