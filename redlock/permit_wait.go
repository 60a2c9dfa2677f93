package redlock

import (
	"context"
	"errors"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Waiting for a permit is waiting for a lock, with these differences: the pilot gives any slot, or
// keeps the waiter on one list for all of them; and the slot that it gives, at once or later, is
// asked of all nodes by its number. internal/proof/search/permit has the whole protocol.

// learn decides by the answers to a round that was not won where to turn next: to all nodes,
// for a slot that could have a quorum; to the first node that refused and has no free slot, where
// the waiter is on the list until one is released; otherwise to the pilot. A node with a free slot
// would give it, and the others would refuse it again. A node whose answer the verdict did not wait
// for may be full: otherwise a pilot that is not the fastest node would be passed over.
func (w *waiter) learn(r *round.Round) {
	if r.Verdict() == quorum.Denied { // otherwise a slot was won, and not taken
		w.slot = r.Available(r.Chosen())
	}
	if w.among = r.Full(); w.among.Empty() {
		w.among = quorum.All(len(w.locker.nodes()))
	}
}

// attemptPermit is attempt for a permit.
func (w *waiter) attemptPermit(ctx context.Context) (*Lock, error) {
	l := w.locker
	slot := w.slot
	w.slot = 0
	if slot != 0 {
		return w.concludePermit(ctx, w.newLock(), slot)
	}
	pilot, found := l.desk.Pilots.Of(w.permit.semaphore.queue[0], w.among)
	if !found || w.asksAll {
		w.asksAll = false
		lock, r, err := l.tryAcquire(ctx, w.call)
		if err != nil && r != nil {
			w.learn(r)
		}
		return lock, err
	}
	return w.attemptPermitAt(ctx, w.newLock(), pilot)
}

// attemptPermitAt is attemptAt for a permit.
func (w *waiter) attemptPermitAt(ctx context.Context, lock *Lock, pilot int) (*Lock, error) {
	l := w.locker
	w.wakeup.WaitAt(pilot)
	l.desk.Subscriptions.Await(lock.value, w.wakeup)
	defer l.desk.Subscriptions.Forget(lock.value, w.wakeup)
	for {
		r, answer := w.askPermit(ctx, lock, pilot)
		late := w.judge(lock, r, pilot, answer != nil)
		switch {
		case answer == nil:
			w.among = quorum.All(len(l.nodes()))
			return nil, w.giveUp(ctx, lock, r, pilot, nil)
		case answer.Other != 0: // whether a quorum has another number, all nodes can tell
			w.asksAll = true
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		case answer.Slot != 0:
			return w.concludePermit(ctx, lock, answer.Slot)
		case late && w.hops == 0: // the next pilot is faster
			w.among = quorum.All(len(l.nodes()))
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		}
		reason := ErrTaken
		if !l.desk.Pilots.QuorumIsUp() {
			reason = ErrNoQuorum // the refusal of one node says nothing
		}
		w.note(l.failure(r, "acquire", lock.Name(), reason, nil))
		switch w.awaitRefused(ctx, &wire.WaitReply{Left: answer.Left, Other: wire.OtherNone}) {
		case wakeHanded:
			slot := w.wakeup.Slot()
			if slot > w.permit.semaphore.wire.Permits || w.astray(lock, pilot) {
				return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
			}
			return w.concludePermit(ctx, lock, slot)
		case wakeDue:
			l.counts.polls.Add(1)
			if w.outlived(answer.Left) {
				w.asksAll = true
				return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
			}
		case wakeEnded:
			return nil, w.giveUp(ctx, lock, r, pilot, nil)
		}
	}
}

// concludePermit ends the attempt with a round that asks all nodes for a slot. The pilot confirms
// that it gave us the slot: the message about that is no vote, and the time since then does not
// count.
func (w *waiter) concludePermit(ctx context.Context, lock *Lock, slot int) (*Lock, error) {
	l := w.locker
	r := lock.sendOne(w.call, slot, 0)
	began := lock.acquired
	got, err := l.finish(ctx, lock, r, w.call)
	if err == nil {
		l.desk.Pilots.Took(l.clock.Now().Sub(began))
		return got, nil
	}
	if errors.Is(err, ErrTaken) {
		w.overtaken++
	}
	w.learn(r)
	return nil, err
}

// askPermit is askPilot for a permit.
func (w *waiter) askPermit(ctx context.Context, lock *Lock, pilot int) (*round.Round, *wire.PermitReply) {
	var answer *wire.PermitReply
	r, ended := w.ask(ctx, lock, pilot, func(_ int, reply any) {
		a := wire.ReadPermit(reply)
		answer = &a
	})
	if ended {
		return r, nil
	}
	return r, answer
}
