package wait

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// attempt is the attempt of a waiter at its coordinator: it asks, waits and asks again under one
// value, until the coordinator's vote is ours, or is given up. Like its waiter, it belongs to the
// goroutine that called Lock. A round that was sent has a mutex of its own.
type attempt struct {
	*waiter
	a           Attempt
	coordinator int
}

// A wake is why a waiter goes on.
type wake uint8

const (
	wakeHanded wake = iota // the coordinator's vote is ours
	wakeDue                // time to ask again
	wakeEnded              // ctx or the Locker ended
)

// wait goes on until the attempt is over.
func (s *attempt) wait(ctx context.Context) (Attempt, error) {
	s.announced, s.handed = false, false
	s.wakeup.WaitAt(s.coordinator)
	s.Subscriptions.Await(s.a.Value(), s.wakeup)
	defer s.Subscriptions.Forget(s.a.Value(), s.wakeup)
	r, answer := s.ask(ctx)
	late := s.judge(r, answer != nil)
	for {
		switch {
		case answer == nil:
			s.forgetFull()
			return nil, s.giveUp(ctx, r, nil)
		case answer.Granted:
			if rest := s.useVote(answer); rest != nil {
				return s.conclude(ctx, s.a, rest)
			}
			return nil, s.giveUp(ctx, r, nil) // nobody else has it, as far as the coordinator knows
		case answer.Number != 0: // whether a quorum has another number, all nodes can tell
			s.asksAll = true
			return nil, s.giveUp(ctx, r, round.ErrTaken)
		case late && s.hops == 0: // the next coordinator is faster
			s.forgetFull()
			return nil, s.giveUp(ctx, r, round.ErrTaken)
		case answer.Taken != s.target: // another name of the set
			s.overtaken++
			s.target, s.among = answer.Taken, s.all()
			return nil, s.giveUp(ctx, r, round.ErrTaken)
		}
		reason := round.ErrTaken
		if !s.Coordinators.QuorumIsUp() || r.Err(s.coordinator) != nil {
			reason = round.ErrNoQuorum // the refusal of one node says nothing, or it has no vote
		}
		s.note(s.a.Failure(r, reason))
		switch s.awaitRefused(ctx, answer) {
		case wakeHanded:
			if rest := s.useHanded(ctx); rest != nil {
				return s.conclude(ctx, s.a, rest)
			}
			s.overtaken++ // someone was faster this time
			return nil, s.giveUp(ctx, r, round.ErrTaken)
		case wakeDue:
			if s.slots > 0 && s.outlived(answer.Left) {
				s.asksAll = true
				return nil, s.giveUp(ctx, r, round.ErrTaken)
			}
			if r, answer, late = s.askAgain(ctx, answer); answer == nil && r.Overrides() {
				return s.conclude(ctx, s.a, r)
			}
		case wakeEnded:
			return nil, s.giveUp(ctx, r, nil)
		}
	}
}

// ask asks the coordinator for the lock, or for a place on its wait list. The reply is nil if none
// came in time, or if ctx or the Locker ended.
func (s *attempt) ask(ctx context.Context) (*round.Round, *wire.WaitReply) {
	process := s.Subscriptions.Listen(ctx, s.coordinator, s.clock.Now().Add(s.a.Timeout()))
	if process != "" {
		s.a.List()
		s.wakeup.ClearAgain() // this asks again
	}
	s.begin(s.a)
	var answer *wire.WaitReply
	r := s.rounds.New(&round.Spec{
		Request: s.a.Ask(s.place(process), false), Meaning: wire.Grant, Rule: decideOne, Only: quorum.Only(s.coordinator),
		Replies: func(_ int, reply any) {
			a := s.a.Answer(reply)
			answer = &a
		},
	})
	s.send(r, s.a)
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

// begin begins a round of an attempt, and send sends it.
func (w *waiter) begin(a Attempt) {
	w.began = w.clock.Now()
	w.call.Begin(a, w.began)
}

func (w *waiter) send(r *round.Round, a Attempt) { r.Send(w.began.Add(a.Timeout()), 0) }

// judge makes the next waiters here pass over a coordinator that failed or was late.
func (s *attempt) judge(r *round.Round, answered bool) (late bool) {
	if !answered && r.Err(s.coordinator) == nil { // ctx ended
		return false
	}
	return s.Coordinators.Judge(s.coordinator, s.clock.Now().Sub(s.began), answered)
}

// useVote asks the other nodes, too, when the coordinator has granted; for a permit, all for its
// slot. The validity counts from when the coordinator was asked. It returns nil if the vote is of
// no use.
func (s *attempt) useVote(answer *wire.WaitReply) *round.Round {
	switch {
	case answer.Slot != 0:
		return s.call.SendSlot(s.a, answer.Slot, quorum.Only(s.coordinator))
	case s.astray():
		return nil
	}
	r := s.a.Acquire(round.Spec{Granted: quorum.Only(s.coordinator), Fence: answer.Fence}, false)
	s.send(r, s.a)
	return r
}

// useHanded asks all nodes when the coordinator's vote was handed over. The coordinator confirms
// that: the message is no vote, and the time since then does not count. It returns nil if the vote
// is of no use.
func (s *attempt) useHanded(ctx context.Context) *round.Round {
	s.handed = true
	slot := s.wakeup.Slot()
	switch {
	case s.slots > 0 && (slot < 1 || slot > s.slots) || s.astray(): // anybody may have sent the message
		return nil
	case s.slots > 0:
		return s.call.SendSlot(s.a, slot, quorum.Only(s.coordinator))
	default:
		return s.confirm(ctx)
	}
}

// astray reports whether the waiter waited at a node that is not the coordinator, because the
// coordinator did not know the holder. It then starts over at the coordinator, and hands on the
// vote that it got. With two nodes that hand over, two waiters at a time would have a vote each and
// split the others, again and again. The waiters behind it follow it, in their order.
func (s *attempt) astray() bool {
	s.among = s.all()
	coordinator, found := s.Coordinators.Of(s.a.Key(s.target), s.among)
	return found && coordinator != s.coordinator
}

// A release reaches the nodes at different times. A writer that is handed a vote by the last reader
// may be refused by nodes that do not know yet that the reader is gone. If it gave the vote back,
// readers that came after it would get it, and hold for as long as they like. So it asks again,
// within these bounds, and keeps the votes that it has, as in places.go.
const (
	lateMin = time.Millisecond
	lateMax = 16 * time.Millisecond
)

// confirm asks all nodes: the coordinator to confirm the vote that was handed over, the others for
// theirs.
func (s *attempt) confirm(ctx context.Context) *round.Round {
	before := quorum.Only(s.coordinator) // nodes that may have our value already
	for pause := lateMin; ; pause *= 2 {
		r := s.askWithCoordinator(true, round.Spec{Before: before})
		if !s.a.Announced() || len(s.names) > 1 || pause > lateMax {
			return r
		}
		if v, ended := r.Wait(ctx); v != quorum.Denied || ended != nil {
			return r
		}
		if before = r.MayHold(); !s.Sleep(ctx, pause) {
			return r
		}
		s.call.Refused(s.a, r) // and not concluded with
	}
}

// askWithCoordinator asks all nodes for the lock, and the coordinator as a waiter.
func (s *attempt) askWithCoordinator(turn bool, how round.Spec) *round.Round {
	s.begin(s.a)
	how.Other = &round.Override{Node: s.coordinator, Request: s.a.Ask(s.place(s.a.Process()), turn)}
	r := s.a.Acquire(how, turn)
	s.send(r, s.a)
	return r
}

// askAgain asks the coordinator once more, and if the holder is a client of another library, or one
// that the other nodes may not know, all other nodes with it. The value is the same: if all refuse,
// no node has it. Without an answer, the round may still be won, or must be undone.
func (s *attempt) askAgain(ctx context.Context, last *wire.WaitReply) (r *round.Round, answer *wire.WaitReply, late bool) {
	s.Counts.Polls.Add(1)
	if last.Holder == wire.HolderReaders {
		s.a.Announce(s.target, s.all().Minus(quorum.Only(s.coordinator)))
	}
	if last.Holder != wire.HolderForeign && !s.outlived(last.Left) || s.members.View().Size() == 1 {
		r, answer = s.ask(ctx)
		return r, answer, s.judge(r, answer != nil)
	}
	if r, answer = s.snatch(ctx); answer == nil {
		s.hops = -1 // the next attempt comes after a pause anyway
	}
	return r, answer, false
}

// outlived reports whether a key that is left for so long may have outlived its lock: no lock has
// more than MaxTTL left, so the node's clock was set back since, or somebody took its time to live
// away. Then the other nodes may have forgotten the lock in time, and nobody would ever hear of it
// at this one.
func (w *waiter) outlived(left time.Duration) bool {
	return left < 0 || left > w.members.LongestTTL()
}

// snatch is an attempt at a lock that a client of another library holds. It asks the coordinator as
// a waiter, so that it keeps its place there, and all other nodes as well. If the lock is not won
// and no node is slow, it waits for all of them: afterwards it is known whether one has our value.
// The coordinator's answer is returned only if none has.
func (s *attempt) snatch(ctx context.Context) (*round.Round, *wire.WaitReply) {
	var answer *wire.WaitReply
	r := s.askWithCoordinator(false, round.Spec{Rule: s.allVotes(), Replies: func(node int, reply any) {
		if node == s.coordinator {
			a := wire.ReadWait(reply)
			answer = &a
		}
	}})
	v, _ := r.Wait(ctx) //nolint:errcheck // the verdict is Pending then
	s.slowNode = s.clock.Now().Sub(s.began) > LateAfter
	if v == quorum.Won || v == quorum.Pending || !r.MayHold().Empty() {
		return r, nil // the coordinator's vote may still come in
	}
	s.call.Refused(s.a, r)
	return r, answer
}

// giveUp gives up an attempt that only the coordinator knows of: the place on its list, and the
// vote if we have it. It returns the reason as an error; without a reason, the votes decide.
func (s *attempt) giveUp(ctx context.Context, r *round.Round, reason error) error {
	known := quorum.Only(s.coordinator)
	if s.a.Announced() { // which is at all nodes
		known = s.all()
	}
	return s.a.GiveUp(ctx, r, known, known, reason)
}
