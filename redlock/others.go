package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Clients of other Redlock libraries hand nothing over, and wake nobody: when one of them releases
// a lock, it is free for as long as they take to lock it again, a round trip. Those who wait for it
// behind such a holder have to look for that moment. On the list of a node only the oldest waiter
// does, so the load does not grow with their number. It asks all nodes at once, because a question
// to the pilot first would come a round trip too late at the others.
//
// For others.lua, which sees to it that they get their turn as well, see there.

const (
	// The oldest waiter asks so often at first, and less often the longer one of the others holds
	// the lock without a change.
	hasteMin   = 2 * time.Millisecond
	hasteShare = 8

	// In their turn it looks whether they have come.
	turnLook = 20 * time.Millisecond

	// For so long after we saw one of them at a name, they are given turns there.
	othersLife = 5 * time.Second

	maxSightings = 4096 // names; beyond, others must be seen again
)

// placeOfOthers returns the place on a list that is theirs. While nobody has seen them, they have
// none where a hand-over leaves enough nodes free for a quorum: for a round trip, which is as good
// a chance as they give each other. So those who are alone pay nothing. Of one node or two, they
// could never be seen: so when the lock was handed over without a gap for a second, it is left free
// for 25 ms, and less and less often while nobody comes, for 120 ms in a minute at last.
func (w *waiter) placeOfOthers() string {
	nodes := len(w.locker.nodes)
	switch {
	case w.seesOthers():
		return "others"
	case quorum(nodes) == nodes:
		return "anyone"
	default:
		return ""
	}
}

// sightings are the names at which we saw a client of another library hold the lock, and when the
// last was seen.
type sightings struct {
	some atomic.Bool // there are any, for a look without mu

	mu     sync.Mutex // guards the field below
	byName map[string]clock.Instant
}

// seesOthers reports whether a client of another library was seen lately at the name that the
// waiter waits for.
func (w *waiter) seesOthers() bool {
	s, now := &w.locker.others, w.locker.clock.Now()
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := w.names[w.target]
	at, seen := s.byName[name]
	if seen && now.Sub(at) >= othersLife {
		delete(s.byName, name)
		s.some.Store(len(s.byName) > 0)
		return false
	}
	return seen
}

// seeOthers notes what an answer tells of them.
func (w *waiter) seeOthers(answer *pilotAnswer) {
	if answer.granted || answer.other < otherTaken { // a turn tells of nobody
		return
	}
	s, now := &w.locker.others, w.locker.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil || len(s.byName) >= maxSightings {
		s.byName = make(map[string]clock.Instant)
	}
	s.byName[w.names[answer.taken]] = now
	s.some.Store(true)
}

// waitAfter waits after an answer of the pilot: for as long as the holder asks for.
func (w *waiter) waitAfter(ctx context.Context, answer *pilotAnswer) wake {
	if answer.other == otherNone {
		return w.wait(ctx, answer.left)
	}
	now := w.locker.clock.Now()
	w.seeOthers(answer)
	switch {
	case answer.other == otherTurn:
		return w.waitFor(ctx, min(answer.left+rand.N(expirySpread), turnLook/2+rand.N(turnLook)))
	case answer.other <= otherTaken:
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

// askAgain asks the pilot once more, and beside it all others where the holder is a client of
// another library. The value is the same: where all refuse, no node has it. Without an answer, the
// round is one that may be won, or is to be undone.
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

// snatch is an attempt at a lock that one of the others holds. It asks the pilot as a waiter, so
// that it keeps its place there, and all other nodes. It waits for all of them where the lock is
// not won and none is slow: afterwards it is known whether one has our value. The pilot's answer
// may be read where none has.
func (w *waiter) snatch(ctx context.Context, lock *Lock, pilot int) (*round, *pilotAnswer) {
	l := w.locker
	var answer *pilotAnswer
	r := lock.newConfirm(w, pilot)
	r.keep = func(node int, reply any) {
		if node == pilot {
			answer = readPilotAnswer(reply)
		}
	}
	r.rule = w.allVotes()
	r.send(l, lock.acquired.Add(lock.timeout), 0)
	v, _ := r.wait(ctx) //nolint:errcheck // pending says it
	w.slowNode = l.clock.Now().Sub(lock.acquired) > lateAfter
	if v == won || v == pending || r.mayHold() != 0 {
		return r, nil // the pilot's vote may still come in
	}
	return r, answer
}
