package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/handoff"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Clients of other Redlock libraries hand nothing over and wake nobody: when one of them releases a
// lock, the lock is free for as long as they take to lock it again, a round trip. A waiter behind
// such a holder must poll for that moment. Only the oldest waiter on the list of a node does, so
// the load does not grow with their number. It asks all nodes at once, because after asking the
// pilot first it would come a round trip too late at the others.
//
// others.lua makes sure that those clients get their turn as well.

const (
	// The oldest waiter polls this often at first, and less often the longer another library's
	// client holds the lock without a change.
	hasteMin   = 2 * time.Millisecond
	hasteShare = 8

	// During their turn it polls whether they have come.
	turnPoll = 20 * time.Millisecond
)

// placeOfOthers returns the place that clients of other libraries take on a list. Until one has
// been seen, they have none if a hand-over leaves enough nodes free for a quorum: free for a round
// trip, which is as good a chance as they give each other. So where there are no such clients, they
// cost nothing. With one or two nodes they could never be seen. There, after the lock was handed
// over without a gap for a second, it is left free for 25 ms, and then less and less often while
// nobody comes: in the end for 120 ms per minute.
func (w *waiter) placeOfOthers() string {
	view := w.locker.members.View()
	switch {
	case w.seesOthers():
		return "others"
	case view.Need() == view.Seats():
		return "anyone"
	default:
		return ""
	}
}

// seesOthers reports whether a client of another library was seen recently at the name that the
// waiter waits for.
func (w *waiter) seesOthers() bool {
	return w.locker.desk.Sightings.Has(w.names()[w.target], w.locker.clock.Now())
}

// seeOthers notes what an answer says about them.
func (w *waiter) seeOthers(answer *wire.WaitReply) {
	if !answer.Granted && answer.Other >= wire.OtherTaken { // a turn says nothing about a client
		w.locker.desk.Sightings.Add(w.names()[answer.Taken], w.locker.clock.Now())
	}
}

// awaitAfter waits after an answer of the pilot, for as long as suits the holder that it names.
func (w *waiter) awaitAfter(ctx context.Context, answer *wire.WaitReply) wake {
	if answer.Other == wire.OtherNone {
		return w.awaitTogether(ctx, answer.Left)
	}
	now := w.locker.clock.Now()
	w.seeOthers(answer)
	switch {
	case answer.Other == wire.OtherTurn:
		return w.awaitWake(ctx, min(answer.Left+random.N(expirySpread), turnPoll/2+random.N(turnPoll)))
	case answer.Other == wire.OtherReads:
		return w.awaitReaders(ctx, answer.Left)
	case answer.Other <= wire.OtherTaken:
		return w.awaitTogether(ctx, answer.Left)
	case answer.Other != w.holder:
		w.holder, w.holderAge = answer.Other, now
	}
	haste := max(hasteMin, now.Sub(w.holderAge)/hasteShare)
	pause := min(haste/2+random.N(haste), w.retryMax)
	if answer.Left >= 0 && answer.Left < pause {
		pause = answer.Left + time.Millisecond + random.N(expirySpread)
	}
	return w.awaitWake(ctx, pause)
}

// askAgain asks the pilot once more, and if the holder is a client of another library, or one that
// the other nodes may not know, all other nodes with it. The value is the same: if all refuse, no
// node has it. Without an answer, the round may still be won, or must be undone.
func (w *waiter) askAgain(ctx context.Context, lock *Lock, pilot int, last *wire.WaitReply) (r *round.Round, answer *wire.WaitReply, late bool) {
	l := w.locker
	l.counts.polls.Add(1)
	if last.Other == wire.OtherReads {
		lock.announce(pilot, w.target)
	}
	if last.Other <= wire.OtherTaken && !w.outlived(last.Left) || l.members.View().Seats() == 1 {
		r, answer = w.askPilot(ctx, lock, pilot)
		return r, answer, w.judge(lock, r, pilot, answer != nil)
	}
	if r, answer = w.snatch(ctx, lock, pilot); answer == nil {
		w.hops = -1 // the next attempt comes after a pause anyway
	}
	return r, answer, false
}

// outlived reports whether a key that is left for so long may have outlived its lock: no lock has
// more than MaxTTL left, so the node's clock was set back since, or somebody took its time to live
// away. Then the other nodes may have forgotten the lock in time, and nobody would ever hear of it
// at this one.
func (w *waiter) outlived(left time.Duration) bool {
	return left < 0 || left > w.locker.members.LongestTTL()
}

// snatch is an attempt at a lock that a client of another library holds. It asks the pilot as a
// waiter, so that it keeps its place there, and all other nodes as well. If the lock is not won and
// no node is slow, it waits for all of them: afterwards it is known whether one has our value. The
// pilot's answer is returned only if none has.
func (w *waiter) snatch(ctx context.Context, lock *Lock, pilot int) (*round.Round, *wire.WaitReply) {
	l := w.locker
	var answer *wire.WaitReply
	r := lock.newConfirm(w, pilot, false, round.Spec{Rule: w.allVotes(), Replies: func(node int, reply any) {
		if node == pilot {
			a := wire.ReadWait(reply)
			answer = &a
		}
	}})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	v, _ := r.Wait(ctx) //nolint:errcheck // the verdict is Pending then
	w.slowNode = l.clock.Now().Sub(lock.acquired) > handoff.LateAfter
	if v == quorum.Won || v == quorum.Pending || !r.MayHold().Empty() {
		return r, nil // the pilot's vote may still come in
	}
	return r, answer
}
