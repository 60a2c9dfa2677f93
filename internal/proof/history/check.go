package history

import (
	"slices"
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

const (
	// mostSteps bounds the work of a check, which can grow exponentially: so many steps for each
	// event. The histories of our simulations take twenty at most.
	mostSteps = 1000

	// chunkEvents is how many events porcupine judges together, or more until nothing is under way.
	// It keeps a set of the operations for every step.
	chunkEvents = 1000
)

// Check has porcupine judge a history by a model, each name by itself.
func Check(events []Event, m Model) Verdict {
	verdict := Legal
	for _, history := range m.split(events) {
		state := m.init
		for _, chunk := range m.chunks(paired(history, m)) {
			switch m.check(state, chunk) {
			case Undecided:
				return Undecided
			case Illegal:
				verdict = Illegal
			case Legal:
			}
			if m.after != nil {
				state = m.after(state, chunk)
			}
		}
	}
	return verdict
}

func (m *Model) check(init any, chunk []porcupine.Event) Verdict {
	var steps atomic.Int64
	most := int64(mostSteps * len(chunk))
	rank(chunk)
	fits := porcupine.CheckEvents(porcupine.Model{
		Init: func() any { return init },
		Step: func(state, input, output any) (bool, any) {
			if steps.Add(1) > most {
				return false, state
			}
			return m.step(state, input.(*Event), output.(*Event))
		},
	}, chunk)
	switch {
	case steps.Load() > most:
		return Undecided
	case !fits:
		return Illegal
	default:
		return Legal
	}
}

// paired returns a history as porcupine wants it: each call with its return. Operations of unknown
// outcome return last, so they are concurrent with everything behind their call.
//
// A hold begins when its acquisition returns and ends when its release is called, although both may
// take effect at other times of their calls. That changes no verdict. If
// some order of the operations fits, the hold may be made that short in it: with fewer holders a
// lock admits whoever it admitted, and nobody came meanwhile whom the holder or its token excludes.
// It spares porcupine the choice among those times, of which there are too many where releases were
// never confirmed.
func paired(events []Event, m Model) (history []porcupine.Event) {
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
		if outcome.Type == Fail || outcome.Type == Info && e.Function.acquires() || m.ignores(e.Function) {
			// An acquisition of which its client never knew holds nothing: it helps nobody to
			// assume that it took place.
			continue
		}
		next := porcupine.Event{Id: e.call, Value: e}
		if e.Type != Invoke {
			next.Kind = porcupine.ReturnEvent
		}
		switch {
		case m.shortens(e, outcomes[e.hold]):
			if (e.Type == Invoke) == e.Function.releases() {
				history = append(history, atOnce(e, outcome)...)
			}
		case outcome.Type != Info:
			history = append(history, next)
		case e.Type == Invoke:
			history = append(history, next)
			unknown = append(unknown, porcupine.Event{Id: e.call, Kind: porcupine.ReturnEvent, Value: outcome})
		}
	}
	return append(history, unknown...)
}

// atOnce returns an operation that begins and ends at one instant.
func atOnce(e, outcome *Event) []porcupine.Event {
	call := *e
	call.Type = Invoke
	return []porcupine.Event{
		{Id: e.call, Value: &call},
		{Id: e.call, Value: outcome, Kind: porcupine.ReturnEvent},
	}
}

// shortens reports whether an operation begins or ends a hold that may be as short as it can be.
func (m *Model) shortens(e, acquired *Event) bool {
	return (e.Function.acquires() || e.Function.releases()) && !m.ignores(Release) && acquired != nil
}

// chunks splits a history where no operation is under way and nobody holds anything. The state is
// then the same in whatever order the operations took effect.
func (m *Model) chunks(history []porcupine.Event) (all [][]porcupine.Event) {
	pending, holders, from := 0, 0, 0
	for i, e := range history {
		function := e.Value.(*Event).Function
		switch {
		case e.Kind == porcupine.CallEvent:
			pending++
			continue
		case function.acquires():
			holders++
		case function.releases():
			holders--
		}
		pending--
		free := pending == 0 && (holders == 0 || m.ignores(Release))
		if m.after != nil && free && i+1-from >= chunkEvents {
			all, from = append(all, history[from:i+1]), i+1
		}
	}
	return append(all, history[from:])
}

// rank notes of each acquisition with a token how many others of its chunk must take effect before
// it, which are those with smaller tokens: without that, porcupine tries out many orders of those
// that were called together.
func rank(chunk []porcupine.Event) {
	var writers, readers []int64
	for _, e := range chunk {
		if e := e.Value.(*Event); e.Type == OK && e.orders() {
			if e.Function == Acquire {
				writers = append(writers, e.Token)
			} else {
				readers = append(readers, e.Token)
			}
		}
	}
	slices.Sort(writers)
	slices.Sort(readers)
	for _, e := range chunk {
		e := e.Value.(*Event)
		below := e.Token
		if e.Function == AcquireShared {
			below++ // it may have the token of the writer before it
		}
		e.writersBefore, _ = slices.BinarySearch(writers, below)
		e.readersBefore, _ = slices.BinarySearch(readers, below)
	}
}

// orders reports whether an acquisition has a place in the order of tokens.
func (e *Event) orders() bool { return e.Function.acquires() && e.Token != 0 }

func (f Function) acquires() bool { return f == Acquire || f == AcquireShared }
func (f Function) releases() bool { return f == Release || f == ReleaseShared }
