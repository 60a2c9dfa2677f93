package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// waiter is the first of a wait queue: it seeks a contended lock. It turns to one node, the pilot,
// which serializes the waiters for a lock, and hands its vote to the oldest of them when the holder
// releases.
//
//	ask the pilot ──taken──▶ wait on its list ──handed over──▶ ask all, the pilot to confirm
//	      ▲ └──granted──▶ ask the others     └──time──▶ ask the pilot again
//	      └─────────────────── not won: undo, a fresh value, the next pilot
//
// Every attempt has its own value. The pilot may be asked many times under one value, as long as it
// refused each time. So at most one grant comes from it, and one from each other node, as in a
// round without waiting.
type waiter struct {
	*call

	queueName wait.Name     // of its wait queue
	since     clock.Instant // when Lock was called; orders the waiters
	refused   *QuorumError  // why it was not acquired at once; nil if that was not tried
	poll      clock.Backoff
	outage    clock.Backoff
	crowd     clock.Backoff
	target    int            // index of the name that it waits for
	among     quorum.NodeSet // the nodes that may be its pilot
	hops      int            // pilots asked in a row without waiting at one
	last      *QuorumError   // why it does not have the lock yet; nil while nothing failed

	permit  *permit // for a permit; nil for a lock
	slot    int     // the slot to ask all nodes for next; 0 for none
	asksAll bool    // ask all nodes for any slot next

	overtaken int           // attempts that had the pilot's vote and were refused by the others
	partsFrom clock.Instant // for a set: when it may take its names one after the other
	discount  float64       // part of a standoff by which it claims to be younger, see places.go

	holder    int64         // the last holder from another library that it saw
	holderAge clock.Instant // when it first saw that holder
	slowNode  bool          // a node that it asked beside the pilot was slow
	announced bool          // this attempt has met readers
	handed    bool          // this attempt was handed the pilot's vote

	readers *wait.InCrowd // of a reader; nil otherwise
	wakeup  *wait.Wakeup
}

// Limits of waiting.
const (
	// While no quorum answers or votes split, these bounds space the attempts, not those of
	// WithRetry: it may be over any moment.
	outageMin = 2 * time.Millisecond
	outageMax = 250 * time.Millisecond

	// While a quorum answers, but refuses attempts that had the pilot's vote again and again: names
	// of sets that overlap, or a holder without our pilot.
	crowdMax = 60 * time.Millisecond

	// A key expires at its node up to a millisecond later than PTTL says. The waiters for that are
	// spread out a little.
	expirySpread = 2 * time.Millisecond
)

func newWaiter(c *call, since clock.Instant) *waiter {
	c.waits = true
	w := &waiter{
		call: c, queueName: c.queue(), since: since,
		poll:   clock.Backoff{Shortest: c.retryMin, Longest: c.retryMax},
		outage: clock.Backoff{Shortest: outageMin, Longest: outageMax},
		crowd:  clock.Backoff{Shortest: outageMin, Longest: crowdMax},
		among:  quorum.All(len(c.locker.nodes())),

		wakeup: wait.NewWakeup(),
	}
	w.permit, _ = c.kind.(*permit)
	return w
}

// seek goes on until it has the lock, or ctx or the Locker ends.
func (w *waiter) seek(ctx context.Context) (*Lock, error) {
	l := w.locker
	for {
		lock, err := w.attempt(ctx)
		if err == nil {
			return lock, nil
		}
		var failure *QuorumError
		if !errors.As(err, &failure) {
			return nil, waitEnded(w.last, err)
		}
		w.note(failure)
		if failure.ended != nil {
			return nil, waitEnded(w.last, failure.ended)
		}
		if errors.Is(failure.reason, ErrInvalid) {
			return nil, failure.reason
		}
		pause := &w.crowd
		if errors.Is(failure.reason, ErrNoQuorum) {
			pause = &w.outage
		}
		if w.hops++; w.hops > w.freeHops() && !l.sleep(ctx, pause.Next()) {
			return nil, waitEnded(w.last, l.whyEnded(ctx))
		}
	}
}

// freeHops is how many attempts it may make without a pause. A waiter for a single name loses to
// somebody faster, and is on a list the next time, or the time after.
func (w *waiter) freeHops() int {
	if len(w.names()) > 1 {
		return 1
	}
	return 3
}

// note keeps what to report if the wait ends without the lock. An attempt that ctx cut short says
// less than the one before.
func (w *waiter) note(failure *QuorumError) {
	if w.last == nil || failure.ended == nil {
		w.last = failure
		w.locker.events.failed(w.names()[0], failure)
		if w.readers != nil {
			return // it is not in the queue
		}
		w.locker.desk.Queue.Report(w.queueName, failure)
	}
}

// attempt makes one attempt: at a pilot if there is one, otherwise with a round like that of
// TryLock.
func (w *waiter) attempt(ctx context.Context) (*Lock, error) {
	l, slot := w.locker, w.slot
	w.slot = 0
	if slot != 0 {
		lock := w.newLock()
		return w.conclude(ctx, lock, lock.sendOne(w.call, slot, 0))
	}
	if w.wantsPlaces() {
		if got, err, done := w.takePlaces(ctx); done {
			return got, err
		}
	}
	if w.wantsParts() {
		return w.takeParts(ctx)
	}
	prefix, names := w.queued()
	pilot, found := l.desk.Pilots.Of(prefix+names[w.target], w.among)
	if found && !w.asksAll {
		return w.attemptAt(ctx, w.newLock(), pilot)
	}
	w.among, w.asksAll = quorum.All(len(l.nodes())), false
	lock, r, err := l.tryAcquire(ctx, w.call)
	if w.permit != nil && err != nil && r != nil {
		w.learn(r)
	}
	return lock, err
}

// attemptAt is an attempt at a pilot: it asks, waits and asks again under the one value of lock,
// until the pilot's vote is ours, or is given up.
func (w *waiter) attemptAt(ctx context.Context, lock *Lock, pilot int) (*Lock, error) {
	l := w.locker
	w.announced, w.handed = false, false
	w.wakeup.WaitAt(pilot)
	l.desk.Subscriptions.Await(lock.value, w.wakeup)
	defer l.desk.Subscriptions.Forget(lock.value, w.wakeup)
	r, answer := w.askPilot(ctx, lock, pilot)
	late := w.judge(lock, r, pilot, answer != nil)
	for {
		switch {
		case answer == nil:
			w.forgetFull()
			return nil, w.giveUp(ctx, lock, r, pilot, nil)
		case answer.Granted:
			if rest := w.useVote(lock, pilot, answer); rest != nil {
				return w.conclude(ctx, lock, rest)
			}
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		case answer.Number != 0: // whether a quorum has another number, all nodes can tell
			w.asksAll = true
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		case late && w.hops == 0: // the next pilot is faster
			w.forgetFull()
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		case answer.Taken != w.target: // another name of the set
			err := w.giveUp(ctx, lock, r, pilot, ErrTaken)
			w.overtaken++
			w.target, w.among = answer.Taken, quorum.All(len(l.nodes()))
			return nil, err
		}
		reason := ErrTaken
		if !l.desk.Pilots.QuorumIsUp() {
			reason = ErrNoQuorum // the refusal of one node says nothing
		}
		w.note(l.failure(r, "acquire", lock.Name(), reason, nil))
		switch w.awaitRefused(ctx, answer) {
		case wakeHanded:
			if rest := w.useHanded(ctx, lock, pilot); rest != nil {
				return w.conclude(ctx, lock, rest)
			}
			w.overtaken++ // someone was faster this time
			return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
		case wakeDue:
			if w.permit != nil && w.outlived(answer.Left) {
				w.asksAll = true
				return nil, w.giveUp(ctx, lock, r, pilot, ErrTaken)
			}
			if r, answer, late = w.askAgain(ctx, lock, pilot, answer); answer == nil && r.Overrides() {
				return w.conclude(ctx, lock, r)
			}
		case wakeEnded:
			return nil, w.giveUp(ctx, lock, r, pilot, nil)
		}
	}
}

// useVote asks the other nodes, too, when the pilot has granted; for a permit, all for its slot. It
// returns nil if the vote is of no use.
func (w *waiter) useVote(lock *Lock, pilot int, answer *wire.WaitReply) *round.Round {
	switch {
	case answer.Slot != 0:
		return lock.sendOne(w.call, answer.Slot, 0)
	case w.astray(lock, pilot):
		return nil
	default:
		return lock.sendRest(pilot, answer.Fence)
	}
}

// useHanded asks all nodes when the pilot's vote was handed over. The pilot confirms that: the
// message is no vote, and the time since then does not count. It returns nil if the vote is of no
// use.
func (w *waiter) useHanded(ctx context.Context, lock *Lock, pilot int) *round.Round {
	w.handed = true
	slot := w.wakeup.Slot()
	switch {
	case w.permit != nil && slot > w.permit.semaphore.wire.Permits || w.astray(lock, pilot):
		return nil
	case w.permit != nil:
		return lock.sendOne(w.call, slot, 0)
	default:
		return w.confirm(ctx, lock, pilot)
	}
}

// forgetFull lets a waiter for a permit turn to any node, and not only to those without a free
// slot.
func (w *waiter) forgetFull() {
	if w.permit != nil {
		w.among = quorum.All(len(w.locker.nodes()))
	}
}

// conclude ends the attempt with a round that asked the other nodes, too. If they refused, the
// holder has a quorum without our pilot, and the waiter turns to the first of them; its age keeps
// its order.
func (w *waiter) conclude(ctx context.Context, lock *Lock, r *round.Round) (*Lock, error) {
	l := w.locker
	began := l.clock.Now()
	got, err := l.finish(ctx, lock, r, w.call)
	if err == nil {
		l.desk.Pilots.Took(l.clock.Now().Sub(began))
		return got, nil
	}
	if errors.Is(err, ErrTaken) {
		w.overtaken++
	}
	if refused := r.Refused(); w.permit != nil {
		w.learn(r)
	} else if !refused.Empty() {
		w.among = refused
	}
	return nil, err
}

// astray reports whether the waiter waited at a node that is not the pilot, because the pilot did
// not know the holder. It then starts over at the pilot, and hands on the vote that it got. With
// two nodes that hand over, two waiters at a time would have a vote each and split the others,
// again and again. The waiters behind it follow it, in their order.
func (w *waiter) astray(lock *Lock, node int) bool {
	all := quorum.All(len(w.locker.nodes()))
	w.among = all
	pilot, found := w.locker.desk.Pilots.Of(lock.kind.queueOf(lock)[w.target], all)
	return found && pilot != node
}

// judge makes the next waiters here pass over a pilot that failed or was late.
func (w *waiter) judge(lock *Lock, r *round.Round, pilot int, answered bool) (late bool) {
	l := w.locker
	if !answered && r.Err(pilot) == nil { // ctx ended
		return false
	}
	return l.desk.Pilots.Judge(pilot, l.clock.Now().Sub(lock.acquired), answered)
}

// giveUp gives up an attempt that only the pilot knows of: the place on its list, and the vote if
// we have it. It returns the reason as an error; without a reason, the votes decide.
func (w *waiter) giveUp(ctx context.Context, lock *Lock, r *round.Round, pilot int, reason error) error {
	l := w.locker
	known := quorum.Only(pilot)
	if lock.intent { // which is at all nodes
		known = quorum.All(len(l.nodes()))
	}
	u := lock.newRelease(round.Spec{Rule: quorum.DecideHeld, Only: known})
	lock.mu.Lock()
	lock.undoLocked(u, known, l.clock.Now().Add(lock.timeout))
	lock.mu.Unlock()
	if l.life.isClosed() {
		return ErrClosed
	}
	var ended error
	if ctx.Err() != nil {
		ended = round.EndOf(ctx)
	}
	return l.failure(r, "acquire", lock.Name(), reason, ended)
}

// askPilot asks the pilot for the lock, or for a place on its wait list. The reply is nil if none
// came in time, or if ctx or the Locker ended.
func (w *waiter) askPilot(ctx context.Context, lock *Lock, pilot int) (*round.Round, *wire.WaitReply) {
	l := w.locker
	process := l.desk.Subscriptions.Listen(ctx, pilot, l.clock.Now().Add(lock.timeout))
	if process != "" {
		lock.listed = true
		w.wakeup.ClearAgain() // this asks again
	}
	lock.begin(l.clock.Now(), w.maxHold)
	var answer *wire.WaitReply
	r := l.rounds.New(&round.Spec{
		Request: lock.waitRequest(w, process, false), Meaning: wire.Grant, Rule: decideOne, Only: quorum.Only(pilot),
		Replies: func(_ int, reply any) {
			a := lock.kind.answer(reply)
			answer = &a
		},
	})
	r.Send(lock.acquired.Add(lock.timeout), 0)
	if _, ended := r.Wait(ctx); ended != nil {
		return r, nil
	}
	return r, answer
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
