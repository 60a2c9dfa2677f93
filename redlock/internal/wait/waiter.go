package wait

import (
	"context"
	"errors"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// waiter is the first of a wait queue: it seeks a contended lock. It turns to one node, the
// coordinator, which serializes the waiters for a lock, and hands its vote to the oldest of them
// when the holder releases.
//
//	ask the coordinator ──taken──▶ wait on its list ──handed over──▶ ask all: it confirms
//	      ▲ └──granted──▶ ask the others          └──time──▶ ask it again
//	      └─────────────────── not won: undo, a fresh value, the next coordinator
//
// Every attempt has its own value. The coordinator may be asked many times under one value, as
// long as it refused each time. So at most one grant comes from it, and one from each other node,
// as in a round without waiting.
//
// Its fields belong to the goroutine that called Lock. What others have to say comes by wakeup.
type waiter struct {
	*Waiters
	call      Call
	queueName Name // of its wait queue
	prefix    string
	names     []string
	slots     int           // of a semaphore; 0 for a lock
	longest   time.Duration // between polls

	since   clock.Instant // when Lock was called; orders the waiters
	refused Failure       // why it was not acquired at once; nil if that was not tried
	poll    clock.Backoff
	outage  clock.Backoff
	crowd   clock.Backoff
	target  int            // index of the name that it waits for
	among   quorum.NodeSet // the nodes that may be its coordinator
	hops    int            // coordinators asked in a row without waiting at one
	last    Failure        // why it does not have the lock yet; nil while nothing failed

	slot    int  // of a semaphore: the one to ask all nodes for next; 0 for none
	asksAll bool // ask all nodes for any slot next

	overtaken int           // attempts that had the coordinator's vote and were refused by the others
	partsFrom clock.Instant // for a set: when it may take its names one after the other
	discount  float64       // part of a standoff by which it claims to be younger, see places.go

	foreign      int64         // the last client of another library that it saw holding the lock
	foreignSince clock.Instant // when it first saw that client
	slowNode     bool          // a node that it asked beside the coordinator was slow
	began        clock.Instant // when the last round began that it asked the nodes for the lock with
	announced    bool          // this attempt has met readers
	handed       bool          // this attempt was handed the coordinator's vote

	readers *InCrowd // of a reader; nil otherwise
	wakeup  *Wakeup
}

// Limits of waiting.
const (
	// While no quorum answers or votes split, these bounds space the attempts, not those of
	// WithRetry: it may be over any moment.
	outageMin = 2 * time.Millisecond
	outageMax = 250 * time.Millisecond

	// While a quorum answers, but refuses attempts that had the coordinator's vote again and
	// again: names of sets that overlap, or a holder without our coordinator.
	crowdMax = 60 * time.Millisecond
)

// Outage returns the pauses between attempts while no quorum answers.
func Outage() clock.Backoff { return clock.Backoff{Shortest: outageMin, Longest: outageMax} }

func (ws *Waiters) newWaiter(c Call, wanted *Wanted, since clock.Instant) *waiter {
	return &waiter{
		Waiters: ws, call: c, queueName: wanted.Queue, prefix: wanted.Prefix, names: wanted.Names, slots: wanted.Slots,
		longest: wanted.Longest, since: since,
		poll:   clock.Backoff{Shortest: wanted.Shortest, Longest: wanted.Longest},
		outage: Outage(),
		crowd:  clock.Backoff{Shortest: outageMin, Longest: crowdMax},
		among:  ws.all(),
		wakeup: NewWakeup(),

		overtaken: wanted.Overtaken,
	}
}

func (ws *Waiters) all() quorum.NodeSet { return quorum.All(len(ws.members.Nodes())) }

// awaitTurn waits until its ticket makes the waiter the first of its queue, if it has one, and
// then seeks the lock.
func (w *waiter) awaitTurn(ctx context.Context, ticket *Ticket) (got Attempt, err error) {
	ctx, over := w.call.Waits(ctx, w.since)
	defer func() { over(got, err) }()
	if w.refused != nil {
		w.note(w.refused)
	}
	if ticket != nil {
		select {
		case <-ticket.Turn():
		case <-ctx.Done():
			errors.As(w.Queue.Trouble(w.queueName), &w.last)
			return nil, w.end(round.EndOf(ctx))
		case <-w.closing:
			return nil, ErrClosed
		}
	}
	return w.seek(ctx)
}

// seek goes on until it has the lock, or ctx or the Locker ends.
func (w *waiter) seek(ctx context.Context) (Attempt, error) {
	for {
		got, err := w.attempt(ctx)
		if err == nil {
			return got, nil
		}
		var failure Failure
		if !errors.As(err, &failure) {
			return nil, w.end(err)
		}
		w.note(failure)
		if ended := failure.Ended(); ended != nil {
			return nil, w.end(ended)
		}
		pause := &w.crowd
		if errors.Is(failure.Reason(), round.ErrNoQuorum) {
			pause = &w.outage
		}
		if w.hops++; w.hops > w.freeHops() && !w.Sleep(ctx, pause.Next()) {
			return nil, w.end(w.WhyEnded(ctx))
		}
	}
}

// freeHops is how many attempts it may make without a pause. A waiter for a single name loses to
// somebody faster, and is on a list the next time, or the time after.
func (w *waiter) freeHops() int {
	if len(w.names) > 1 {
		return 1
	}
	return 3
}

// note keeps what to report if the wait ends without the lock. An attempt that ctx cut short says
// less than the one before.
func (w *waiter) note(failure Failure) {
	goesOn := failure.Ended() == nil
	if w.last != nil && !goesOn {
		return
	}
	w.last = failure
	if goesOn {
		w.call.Failed(failure)
	}
	if w.readers == nil { // they are not in the queue
		w.Queue.Report(w.queueName, failure)
	}
}

// end joins why a wait ended with the last failure before that, where there was one.
func (w *waiter) end(why error) error {
	if w.last == nil {
		return why
	}
	return w.last.End(why)
}

// attempt makes one attempt: at a coordinator if there is one, otherwise with a round like that of
// TryLock.
func (w *waiter) attempt(ctx context.Context) (Attempt, error) {
	slot := w.slot
	w.slot = 0
	if slot != 0 {
		a := w.call.Attempt()
		return w.conclude(ctx, a, w.call.SendSlot(a, slot, 0))
	}
	if w.wantsPlaces() {
		if got, err, done := w.takePlaces(ctx); done {
			return got, err
		}
	}
	if w.wantsParts() {
		return w.takeParts(ctx)
	}
	coordinator, found := w.Coordinators.Of(w.prefix+w.names[w.target], w.among)
	if found && !w.asksAll {
		s := attempt{w, w.call.Attempt(), coordinator}
		return s.wait(ctx)
	}
	w.among, w.asksAll = w.all(), false
	got, r, err := w.call.Try(ctx, false)
	if w.slots > 0 && err != nil && r != nil {
		w.learn(r)
	}
	return got, err
}

// conclude ends the attempt with a round that asked the other nodes, too. If they refused, the
// holder has a quorum without our coordinator, and the waiter turns to the first of them; its age
// keeps its order.
func (w *waiter) conclude(ctx context.Context, a Attempt, r *round.Round) (Attempt, error) {
	began := w.clock.Now()
	err := w.call.Finish(ctx, a, r)
	if err == nil {
		w.Coordinators.Took(w.clock.Now().Sub(began))
		return a, nil
	}
	if errors.Is(err, round.ErrTaken) {
		w.overtaken++
	}
	if refused := r.Refused(); w.slots > 0 {
		w.learn(r)
	} else if !refused.Empty() {
		w.among = refused
	}
	return nil, err
}

// Waiting for a permit of a semaphore is waiting for a lock, with these differences: the
// coordinator gives any slot, or keeps the waiter on one list for all of them; and the slot that
// it gives, at once or later, is asked of all nodes by its number. internal/proof/search/permit
// has the whole protocol.

// learn decides by the answers to a round that was not won where to turn next: to all nodes, for a
// slot that could have a quorum; to the first node that refused and has no free slot, where the
// waiter is on the list until one is released; otherwise to the coordinator. A node with a free
// slot would give it, and the others would refuse it again. A node whose answer the verdict did
// not wait for may be full: otherwise a coordinator that is not the fastest node would be passed
// over.
func (w *waiter) learn(r *round.Round) {
	if r.Verdict() == quorum.Denied { // otherwise a slot was won, and not taken
		w.slot = r.Available(r.Chosen())
	}
	if w.among = r.Full(); w.among.Empty() {
		w.among = w.all()
	}
}

// forgetFull lets a waiter for a permit turn to any node, and not only to those without a free
// slot.
func (w *waiter) forgetFull() {
	if w.slots > 0 {
		w.among = w.all()
	}
}

// place is the place that the waiter asks a node for.
func (w *waiter) place(process string) *wire.Wait {
	return &wire.Wait{Target: w.target, Process: process, Waited: w.claim(), Others: w.placeOfOthers()}
}
