package redlock

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// pilotAnswer is what wait.lua returns.
type pilotAnswer struct {
	granted bool
	fence   int64
	taken   int           // which of the keys
	left    time.Duration // until it expires; negative where it does not
	other   int64         // where the holder is not ours: see the constants, or which of them it is
}

// What pilotAnswer tells of clients of other libraries beside their numbers.
const (
	otherTaken = 0  // one of them has it, and an older waiter looks for a moment in which it is free
	otherTurn  = -1 // it is free, and their turn for the time that is left
	otherWaits = -2 // likewise, and an older waiter looks whether they have come
	otherNone  = -3 // the holder is ours
)

// ask runs wait.lua at the pilot. The answer is nil where none came in time, or ctx or the Locker ended.
func (w *waiter) ask(ctx context.Context, lock *Lock, pilot int) (*round, *pilotAnswer) {
	l := w.locker
	process := l.ears.listen(ctx, pilot, l.clock.Now().Add(lock.timeout))
	if process != "" {
		lock.listed = true
		select {
		case <-w.again: // that is what we do
		default:
		}
	}
	epoch := l.voters.now()
	lock.begin(epoch, l.clock.Now(), w.cfg.maxHold)
	var answer *pilotAnswer
	r := &round{
		request: lock.waitRequest(w, process), read: readGrant, decided: make(chan struct{}),
		failed: allNodes(len(l.nodes)) &^ (1 << pilot),
		rule: func(votes tally) verdict {
			if votes.outstanding() > 0 {
				return pending
			}
			return decideAcquire(votes)
		},
		keep: func(_ int, reply any) { answer = readPilotAnswer(reply) },
	}
	r.send(l, lock.acquired.Add(lock.timeout), 0)
	if _, ended := r.wait(ctx); ended != nil {
		return r, nil
	}
	return r, answer
}

func (lock *Lock) waitRequest(w *waiter, process string) pipeline.Request {
	l := lock.locker
	args := []any{
		lock.valueArg, lock.ttl.Milliseconds(), l.grace(lock.timeout), w.target + 1, process,
		l.clock.Now().Sub(w.since).Microseconds(), waitListLife.Milliseconds(), maxWaiting,
		w.placeOfOthers(),
	}
	return pipeline.Request{
		Script: waitScript, Args: waitScript.Args(nil, lock.keys, append(args, lock.fenceArgs()...)...),
		Key: lock.key(), Prove: l.voters.proves(), Accept: func(reply any) bool { return isPilotReply(reply, len(lock.keys)) },
	}
}

// sendConfirm asks all nodes: the pilot to confirm the vote that was handed over, the others for theirs.
func (lock *Lock) sendConfirm(w *waiter, pilot int) *round {
	r := lock.newConfirm(w, pilot)
	r.send(lock.locker, lock.acquired.Add(lock.timeout), 0)
	return r
}

// newConfirm returns the round of sendConfirm, which begins now.
func (lock *Lock) newConfirm(w *waiter, pilot int) *round {
	l := lock.locker
	epoch := l.voters.now()
	lock.begin(epoch, l.clock.Now(), w.cfg.maxHold)
	r := lock.newAcquire()
	process := ""
	if lock.listed {
		process = l.ears.process
	}
	r.aside = &aside{pilot, lock.waitRequest(w, process)}
	return r
}

// sendRest asks all nodes but the pilot, which has granted. The validity counts from when it was asked.
func (lock *Lock) sendRest(pilot int, fence int64) *round {
	r := lock.newAcquire()
	r.granted = 1 << pilot
	if r.rare != nil {
		r.rare.fences[pilot] = fence
	}
	r.send(lock.locker, lock.acquired.Add(lock.timeout), 0)
	return r
}

// isPilotReply reports whether a reply is one that wait.lua can give about so many keys.
func isPilotReply(reply any, keys int) bool {
	answers, _ := reply.([]any)
	if len(answers) == 2 {
		return answers[0] == int64(1) && isGrant(answers[1])
	}
	for _, answer := range answers {
		if !isInteger(answer) {
			return false
		}
	}
	if len(answers) < 4 || len(answers) > 5 || answers[0] != int64(0) {
		return false
	}
	taken := answers[1].(int64)
	return taken >= 1 && taken <= int64(keys)
}

func readPilotAnswer(reply any) *pilotAnswer {
	answers := reply.([]any)
	if answers[0] == int64(1) {
		return &pilotAnswer{granted: true, fence: fenceOf(reply)}
	}
	answer := &pilotAnswer{
		taken: int(answers[1].(int64)) - 1,
		left:  time.Duration(answers[2].(int64)) * time.Millisecond,
		other: otherNone,
	}
	if len(answers) == 5 {
		answer.other = answers[4].(int64)
	}
	return answer
}
