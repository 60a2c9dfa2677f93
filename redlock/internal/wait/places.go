package wait

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/random"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// A release hands over the votes of the nodes on whose wait lists somebody has a place. An ordinary
// waiter is on one list, the coordinator's: it owns that vote and must still ask for the others,
// which are free for a round trip. A client that spins with TryLock can be faster, again and again.
// So a waiter that was overtaken takes a place on the list of every node. The next release, whoever
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

// MaxOvertaken is how often a waiter may own the coordinator's vote and be refused by the others,
// or have to return to the coordinator because of that, before it takes a place at every node.
const MaxOvertaken = 2

// wantsPlaces reports whether the waiter should take a place at every node: it was overtaken, and
// could be handed a quorum of votes. (Without messages it would keep its votes from waiters that
// could use them.) For a set of names a place would be for one of them only.
func (w *waiter) wantsPlaces() bool {
	return w.overtaken >= MaxOvertaken && len(w.names) == 1 && w.slots == 0 && w.members.View().Size() > 1 && w.Coordinators.QuorumIsUp() &&
		!w.seesOthers()
}

// takePlaces is an attempt with a place at every node. It reports false, having done nothing, if
// too few nodes could wake the waiter.
func (w *waiter) takePlaces(ctx context.Context) (got Attempt, err error, done bool) {
	a := w.call.Attempt()
	if !w.listenAtQuorum(ctx, a.Timeout()) {
		return nil, nil, false
	}
	w.wakeup.WaitEverywhere()
	a.List()
	w.Subscriptions.Await(a.Value(), w.wakeup)
	defer w.Subscriptions.Forget(a.Value(), w.wakeup)
	var before quorum.NodeSet // nodes that may have our value since an earlier round
	var placed quorum.NodeSet // nodes that may have us on their lists
	for {
		var others refusals
		r := w.askAll(a, before, &others)
		v, ended := r.Wait(ctx)
		w.slowNode = w.clock.Now().Sub(w.began) > LateAfter
		placed |= r.Reached()
		if v != quorum.Denied || ended != nil {
			r.Doubt(placed) // they may have handed us their votes since we asked last
			return a, w.call.Finish(ctx, a, r), true
		}
		w.call.Refused(a, r)
		if w.seesOthers() { // their releases hand nothing over, see pause.go
			return nil, a.GiveUp(ctx, r, 0, placed, round.ErrTaken), true
		}
		before = r.MayHold()
		w.note(a.Failure(r, round.ErrTaken))
		if others.read.Load() && !a.Announced() {
			a.Announce(w.target, 0) // asked again, every node keeps new readers out
			continue
		}
		pause := time.Duration(others.left.Load()) - 1
		if a.Announced() && (pause < 0 || pause > IntentPoll) {
			pause = IntentPoll
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
			return nil, a.GiveUp(ctx, r, 0, placed, round.ErrTaken), true
		default:
			w.Counts.Polls.Add(1)
		}
	}
}

// claim returns for how long the waiter says that it has waited.
func (w *waiter) claim() time.Duration {
	age := w.clock.Now().Sub(w.since)
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
func (w *waiter) askAll(a Attempt, before quorum.NodeSet, others *refusals) *round.Round {
	w.wakeup.ClearAgain() // this asks again
	w.begin(a)
	take := func(_ int, reply any) {
		answer := wire.ReadWait(reply)
		w.seeOthers(&answer)
		if !answer.Granted && answer.Left >= 0 {
			others.left.CompareAndSwap(0, int64(answer.Left)+1)
		}
		if answer.Holder == wire.HolderReaders {
			others.read.Store(true)
		}
	}
	r := a.Grant(&round.Spec{Request: a.Ask(w.place(a.Process()), false), Rule: w.allVotes(), Before: before, Replies: take})
	w.send(r, a)
	return r
}

// allVotes decides as an acquisition does, but decides on a refusal only when all nodes have
// answered: then it is known which votes are ours. It does not wait for them if a node was slow the
// last time.
func (w *waiter) allVotes() round.Rule {
	slow := w.slowNode
	return func(votes quorum.Tally) quorum.Verdict {
		if v := quorum.DecideAcquire(votes); v == quorum.Won || slow || votes.Outstanding() == 0 {
			return v
		}
		return quorum.Pending
	}
}

// listenAtQuorum subscribes at all nodes that are up, and reports whether a quorum can wake us.
func (w *waiter) listenAtQuorum(ctx context.Context, timeout time.Duration) bool {
	listening := w.Subscriptions.ListenAt(ctx, w.Coordinators.Up(), w.clock.Now().Add(timeout))
	return listening.And(w.members.View().Voting).Len() >= w.members.View().Need()
}
