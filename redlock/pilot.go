package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// askPilot asks the pilot for the lock, or for a place on its wait list. The reply is nil if none
// came in time, or if ctx or the Locker ended.
func (w *waiter) askPilot(ctx context.Context, lock *Lock, pilot int) (*round.Round, *wire.WaitReply) {
	var answer *wire.WaitReply
	r, ended := w.ask(ctx, lock, pilot, func(_ int, reply any) {
		a := wire.ReadWait(reply)
		answer = &a
	})
	if ended {
		return r, nil
	}
	return r, answer
}

// ask asks the pilot, and reports whether ctx or the Locker ended.
func (w *waiter) ask(ctx context.Context, lock *Lock, pilot int, take func(node int, reply any)) (_ *round.Round, ended bool) {
	l := w.locker
	process := l.desk.Subscriptions.Listen(ctx, pilot, l.clock.Now().Add(lock.timeout))
	if process != "" {
		lock.listed = true
		w.wakeup.ClearAgain() // this asks again
	}
	lock.begin(l.clock.Now(), w.maxHold)
	r := l.rounds.New(&round.Spec{
		Request: lock.waitRequest(w, process, false), Meaning: wire.Grant, Rule: decideOne, Only: quorum.Only(pilot), Replies: take,
	})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	_, err := r.Wait(ctx)
	return r, err != nil
}

// decideOne is DecideAcquire, but undecided until the node that was asked has answered or failed.
func decideOne(votes quorum.Tally) quorum.Verdict {
	if votes.Outstanding() > 0 {
		return quorum.Pending
	}
	return quorum.DecideAcquire(votes)
}

// waitRequest asks for the lock, or for a place on the wait list. Turn says that the vote was
// handed over.
func (lock *Lock) waitRequest(w *waiter, process string, turn bool) pipeline.Request {
	return lock.kind.wait(lock, &wire.Wait{
		Keys: lock.keys(), Value: lock.value, TTL: lock.life(), Grace: lock.grace(),
		Target: w.target, Process: process, Waited: w.claim(), Others: w.placeOfOthers(),
		Fencing: lock.fencing(),
	}, turn)
}

// A release reaches the nodes at different times. A writer that is handed a vote by the last reader
// may be refused by nodes that do not know yet that the reader is gone. If it gave the vote back,
// readers that came after it would get it, and hold for as long as they like. So it asks again,
// within these bounds, and keeps the votes that it has, as in places.go.
const (
	lateMin = time.Millisecond
	lateMax = 16 * time.Millisecond
)

// confirm asks all nodes: the pilot to confirm the vote that was handed over, the others for
// theirs.
func (w *waiter) confirm(ctx context.Context, lock *Lock, pilot int) *round.Round {
	var before quorum.NodeSet // nodes that may have our value since an earlier round
	for pause := lateMin; ; pause *= 2 {
		r := lock.newConfirm(w, pilot, true, round.Spec{Before: before})
		r.Send(lock.acquired.Add(lock.timeout), 0)
		if !lock.intent || len(w.names()) > 1 || pause > lateMax {
			return r
		}
		if v, ended := r.Wait(ctx); v != quorum.Denied || ended != nil {
			return r
		}
		before = r.MayHold()
		if !w.locker.sleep(ctx, pause) {
			return r
		}
	}
}

// newConfirm returns a round of confirm, which begins now.
func (lock *Lock) newConfirm(w *waiter, pilot int, turn bool, how round.Spec) *round.Round {
	lock.begin(lock.locker.clock.Now(), w.maxHold)
	how.Other = &round.Override{Node: pilot, Request: lock.waitRequest(w, lock.process(), turn)}
	return lock.newAcquire(how, turn)
}

// sendRest asks all nodes but the pilot, which has granted. The validity counts from when the pilot
// was asked.
func (lock *Lock) sendRest(pilot int, fence int64) *round.Round {
	r := lock.newAcquire(round.Spec{Granted: quorum.Only(pilot), Fence: fence}, false)
	r.Send(lock.acquired.Add(lock.timeout), 0)
	return r
}
