package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Clients of other Redlock libraries hand nothing over, and wake nobody: when one of them releases a
// lock, it is free for as long as they take to lock it again, a round trip. Those who wait for it
// behind such a holder have to look for that moment. On the list of a node only the oldest waiter
// does, so the load does not grow with their number. It asks all nodes at once, because a question
// to the pilot first would come a round trip too late at the others.
//
// For others.lua, which sees to it that they get their turn as well, see there.

const (
	// The oldest waiter asks so often at first, and less often the longer one of the others holds the
	// lock without a change.
	hasteMin   = 2 * time.Millisecond
	hasteShare = 8

	// In their turn it looks whether they have come.
	turnLook = 20 * time.Millisecond

	// After that time in which one release after the other handed the lock over, it is left free for a
	// moment (25 ms; others.lua): other clients leave no trace while they get nothing. While nobody comes
	// the moments are a bit longer, and soon rare: at last 120 ms in a minute.
	firstTurn  = time.Second
	othersLife = time.Minute // for which it is thought of them after the last was seen, at any name
)

// firstTurn is 0, which is never, where a hand-over leaves enough nodes free for a quorum: for a round
// trip, which is as good a chance as other clients give each other. Until we see one of them, nobody
// pays for more.
func (l *Locker) firstTurn() time.Duration {
	if quorum(len(l.nodes)) < len(l.nodes) && !l.seesOthers() {
		return 0
	}
	return firstTurn
}

// seesOthers reports whether one of our waiters has seen a client of another library lately.
func (l *Locker) seesOthers() bool {
	seen := clock.Instant(l.othersSeen.Load())
	return seen != 0 && l.clock.Now().Sub(seen) < othersLife
}

// seeOthers notes what an answer tells of them.
func (l *Locker) seeOthers(answer *pilotAnswer) {
	if !answer.granted && answer.other != otherNone {
		l.othersSeen.Store(int64(l.clock.Now()))
	}
}

// waitAfter waits after an answer of the pilot: for as long as the holder asks for.
func (w *waiter) waitAfter(ctx context.Context, answer *pilotAnswer) wake {
	if answer.other == otherNone {
		return w.wait(ctx, answer.left)
	}
	now := w.locker.clock.Now()
	w.locker.seeOthers(answer)
	switch {
	case answer.other == otherTurn:
		return w.waitFor(ctx, min(answer.left+rand.N(expirySpread), turnLook/2+rand.N(turnLook)))
	case answer.other == otherTaken:
		return w.wait(ctx, answer.left)
	case answer.other != w.holder:
		w.holder, w.holderAge = answer.other, now
	}
	haste := max(hasteMin, now.Sub(w.holderAge)/hasteShare)
	pause := min(haste/2+rand.N(haste), w.cfg.retryMax)
	if answer.left >= 0 && answer.left < pause {
		pause = answer.left + time.Millisecond + rand.N(expirySpread)
	}
	return w.waitFor(ctx, pause)
}

// askAgain asks the pilot once more, and beside it all others where the holder is a client of another library. The value is the same:
// where all refuse, no node has it. Without an answer, the round is one that may be won, or is to be undone.
func (w *waiter) askAgain(ctx context.Context, lock *Lock, pilot int, other int64) (r *round, answer *pilotAnswer, late bool) {
	l := w.locker
	l.counts.polls.Add(1)
	if other <= otherTaken || len(l.nodes) == 1 {
		r, answer = w.ask(ctx, lock, pilot)
		return r, answer, w.judge(lock, r, pilot, answer != nil)
	}
	if r, answer = w.snatch(ctx, lock, pilot); answer == nil {
		w.hops = -1 // the next attempt comes after a pause anyway
	}
	return r, answer, false
}

// snatch is an attempt at a lock that one of the others holds. It asks the pilot as a waiter, so that it keeps its place there, and all
// other nodes. It waits for all of them where the lock is not won and none is slow: afterwards it is known whether one has our value.
// The pilot's answer may be read where none has.
func (w *waiter) snatch(ctx context.Context, lock *Lock, pilot int) (*round, *pilotAnswer) {
	l := w.locker
	var answer *pilotAnswer
	r := lock.newConfirm(w, pilot)
	r.keep = func(node int, reply any) {
		if node == pilot {
			answer = readPilotAnswer(reply)
		}
	}
	slow := w.slowNode
	r.rule = func(votes tally) verdict {
		if v := decideAcquire(votes); v == won || slow || votes.outstanding() == 0 {
			return v
		}
		return pending
	}
	r.send(l, lock.acquired.Add(lock.timeout), 0)
	v, _ := r.wait(ctx) //nolint:errcheck // pending says it
	w.slowNode = l.clock.Now().Sub(lock.acquired) > lateAfter
	if v == won || v == pending || r.mayHold() != 0 {
		return r, nil // the pilot's vote may still come in
	}
	return r, answer
}
