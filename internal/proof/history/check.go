package history

import (
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// Verdict is what porcupine finds about a history.
type Verdict int

// The verdicts.
const (
	Undecided Verdict = iota // it took more steps than allowed
	Legal                    // some order of the operations fits all their times and results
	Illegal                  // none does
)

func (v Verdict) String() string { return [...]string{"undecided", "legal", "illegal"}[v] }

// mostSteps bounds the work of a check, which can grow exponentially: so many steps for each event.
// The histories of our simulations take twenty at most.
const mostSteps = 1000

// Check has porcupine judge a history by a model, each name by itself.
func Check(events []Event, m Model) Verdict {
	verdict := Legal
	for _, history := range m.split(events) {
		var steps atomic.Int64
		most := int64(mostSteps * len(history))
		fits := porcupine.CheckEvents(porcupine.Model{
			Init: func() any { return m.init },
			Step: func(state, input, output any) (bool, any) {
				if steps.Add(1) > most {
					return false, state
				}
				return m.step(state, input.(*Event), output.(*Event))
			},
		}, paired(history))
		switch {
		case steps.Load() > most:
			return Undecided
		case !fits:
			verdict = Illegal
		}
	}
	return verdict
}

// paired returns a history as porcupine wants it: each call with its return. Operations of unknown
// outcome return last, so they are concurrent with everything behind their call.
func paired(events []Event) (history []porcupine.Event) {
	outcomes := make(map[int]*Event)
	for i := range events {
		if e := &events[i]; e.Type != Invoke {
			outcomes[e.call] = e
		}
	}
	var unknown []porcupine.Event
	for i := range events {
		e := &events[i]
		outcome := outcomes[e.call]
		if e.Type == Invoke && outcome == nil {
			pending := *e
			pending.Type = Info
			outcome = &pending
		}
		if outcome.Type == Fail || outcome.Type == Info && e.Function.acquires() {
			// An acquisition of which its client never knew holds nothing: it helps nobody to
			// assume that it took place.
			continue
		}
		next := porcupine.Event{ClientId: e.Process, Id: e.call, Value: e}
		if e.Type != Invoke {
			next.Kind = porcupine.ReturnEvent
		}
		switch {
		case outcome.Type != Info:
			history = append(history, next)
		case e.Type == Invoke:
			history = append(history, next)
			unknown = append(unknown, porcupine.Event{ClientId: e.Process, Id: e.call, Kind: porcupine.ReturnEvent, Value: outcome})
		}
	}
	return append(history, unknown...)
}

func (f Function) acquires() bool { return f == Acquire || f == AcquireShared }
