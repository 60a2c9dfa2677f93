package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A release hands over the votes of the nodes on whose wait lists somebody has a place. An ordinary
// waiter is on one list, the pilot's: it owns that vote and must still ask for the others, which
// are free for a round trip. A client that spins with TryLock can be faster, again and again. So a
// waiter that was overtaken takes a place on the list of every node. The next release, whoever
// sends it, then gives it all votes that the holder had, and at no moment is a node free for
// anybody else.
//
// All places have the same value, and the waiter keeps each vote that it gets until it has a
// quorum:
//
//	ask all ──quorum──▶ held
//	 ▲   └──refused by a quorum──▶ wait for a vote to be handed over
//	 └── handed over, or time ◀───────┘
//
// Two waiters with some votes each would wait for each other. So a waiter whose votes are no quorum
// gives them back after a while, the oldest waiter last, and takes its places anew. The node gives
// such a vote to the oldest on its list, which is probably on the other lists as well.
//
// But waiters of the same age stand on each list in the order in which their requests arrived,
// which differs from node to node. Their votes would split again at every hand-over, and each time
// the lock would be free for a standoff or more. So a waiter that gives votes back then claims to
// be younger than it is, by a random part of a standoff. It claims the same at all nodes, so the
// crowd gets into one order. The longer its members wait, the further their claims are apart: in
// the end by more than the delays of their requests. A claim orders lists and standoffs, and no
// vote depends on it.
//
// This is as safe as any other round. Only the votes of one round are counted, and each of them
// says that the node has set the key to our value, with the full TTL, after that round began:
// wait.lua sets a key again that is already ours. Nothing of ours takes a vote back in between,
// because the value is released only when the attempt is over. A node hands over a vote without
// raising the fence of fencing tokens; the round that counts the vote has raised it.

// With votes that are no quorum a waiter waits within these bounds: the lock may be free.
const (
	standoffMin   = 5 * time.Millisecond
	standoffMax   = time.Second
	standoffShare = 8
)

// maxOvertaken is how often a waiter may own the pilot's vote and be refused by the others, or have
// to return to the pilot because of that, before it takes a place at every node.
const maxOvertaken = 2

// wantsPlaces reports whether the waiter should take a place at every node: it was overtaken, and
// could be handed a quorum of votes. (Without messages it would keep its votes from waiters that
// could use them.) For a set of names a place would be for one of them only.
func (w *waiter) wantsPlaces() bool {
	return w.overtaken >= maxOvertaken && len(w.names()) == 1 && w.permit == nil && w.locker.members.View().Seats() > 1 && w.locker.desk.Pilots.QuorumIsUp() &&
		!w.seesOthers()
}

// takePlaces is an attempt with a place at every node. It reports false, having done nothing, if
// too few nodes could wake the waiter.
func (w *waiter) takePlaces(ctx context.Context) (got *Lock, err error, done bool) {
	l := w.locker
	lock := w.newLock()
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
		var others refusals
		r := w.askAll(lock, before, &others)
		v, ended := r.Wait(ctx)
		w.slowNode = l.clock.Now().Sub(lock.acquired) > wait.LateAfter
		placed |= r.Reached()
		if v != quorum.Denied || ended != nil {
			got, err = l.finish(ctx, lock, r, w.call)
			return got, err, true
		}
		if w.seesOthers() { // their releases hand nothing over, see below
			return nil, w.giveUpPlaces(ctx, lock, r, placed), true
		}
		before = r.MayHold()
		w.note(l.failure(r, "acquire", w.names()[0], ErrTaken, nil))
		if others.read.Load() && !lock.intent {
			lock.intent = true // asked again, every node keeps new readers out
			continue
		}
		pause := time.Duration(others.left.Load()) - 1
		if lock.intent && (pause < 0 || pause > intentPoll) {
			pause = intentPoll
		}
		standoff := !r.MayHold().Empty()
		if standoff { // with a holder that has a quorum, or with others that have none either
			pause = w.standoff()
		}
		switch woke := w.awaitHandOver(ctx, pause); {
		case woke == wakeHanded:
		case woke == wakeEnded || standoff:
			w.hops = 0 // the wait above was the pause
			w.discount = random.Float64()
			return nil, w.giveUpPlaces(ctx, lock, r, placed), true
		default:
			l.counts.polls.Add(1)
		}
	}
}

// claim returns for how long the waiter says that it has waited.
func (w *waiter) claim() time.Duration {
	age := w.locker.clock.Now().Sub(w.since)
	return age - time.Duration(w.discount*float64(min(age/standoffShare, standoffMax)))
}

// standoff returns how long to wait with votes that are no quorum: longer for an older waiter. So
// younger waiters give back first, and their votes go to the oldest.
func (w *waiter) standoff() time.Duration {
	return min(max(w.claim()/standoffShare, standoffMin), standoffMax) + random.N(standoffMin)
}

// refusals are what the nodes that refused said.
type refusals struct {
	left atomic.Int64 // how long the lock is taken, plus one; 0 if that is not known
	read atomic.Bool  // readers have it at a node
}

// askAll asks every node for its vote, or for a place on its list.
func (w *waiter) askAll(lock *Lock, before quorum.NodeSet, others *refusals) *round.Round {
	l := w.locker
	w.wakeup.ClearAgain() // this asks again
	lock.begin(l.clock.Now(), w.maxHold)
	take := func(_ int, reply any) {
		answer := wire.ReadWait(reply)
		w.seeOthers(&answer)
		if !answer.Granted && answer.Left >= 0 {
			others.left.CompareAndSwap(0, int64(answer.Left)+1)
		}
		if answer.Other == wire.OtherReads {
			others.read.Store(true)
		}
	}
	r := lock.newGrant(&round.Spec{
		Request: lock.waitRequest(w, l.desk.Subscriptions.Process(), false), Rule: w.allVotes(), Before: before, Replies: take,
	})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}

// allVotes decides as an acquisition does, but decides on a refusal only when all nodes have
// answered: then it is known which votes are ours. It does not wait for them if a node was slow the
// last time.
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
	lock.undoLocked(lock.newRelease(round.Spec{Rule: quorum.DecideHeld}), placed, l.clock.Now().Add(lock.timeout))
	lock.mu.Unlock()
	if l.life.isClosed() {
		return ErrClosed
	}
	var ended error
	if ctx.Err() != nil {
		ended = round.EndOf(ctx)
	}
	return l.failure(r, "acquire", lock.Name(), ErrTaken, ended)
}

// listenAtQuorum subscribes at all nodes that are up, and reports whether a quorum can wake us.
func (w *waiter) listenAtQuorum(ctx context.Context, deadline clock.Instant) bool {
	l := w.locker
	listening := l.desk.Subscriptions.ListenAt(ctx, l.desk.Pilots.Up(), deadline)
	return listening.And(l.members.View().Voting).Len() >= l.members.View().Need()
}

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
	w.slowNode = l.clock.Now().Sub(lock.acquired) > wait.LateAfter
	if v == quorum.Won || v == quorum.Pending || !r.MayHold().Empty() {
		return r, nil // the pilot's vote may still come in
	}
	return r, answer
}
