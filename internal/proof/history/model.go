package history

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Model says what may happen to a lock or a queue if one thing happens at a time.
type Model struct {
	init  any // the state of a name before everything
	step  func(state any, call, outcome *Event) (bool, any)
	split func(events []Event) [][]Event // into histories that do not depend on each other

	// after returns the state behind a part of a history at whose end nobody holds anything; nil if
	// histories have no parts.
	after   func(state any, chunk []porcupine.Event) any
	ignores func(f Function) bool // operations that mean nothing here
}

// The models. A mutex has one holder, and each with a token has a larger one than all before it. A
// shared lock has one writer or any number of readers; a reader's token is not below that of a
// writer before it, and below that of a writer after it. A semaphore has as many holders as
// permits, and all who hold one at the same time believe in the same number. A queue gives each
// task to one worker each time it was put in.
//
// Tokens is a lock of which only the order of its tokens is judged, for faults under which two
// clients may hold it: a lock that was acquired before another's attempt began has the smaller one.
var (
	Mutex     = lockModel(rules{tokens: true})
	Shared    = lockModel(rules{tokens: true, readers: true})
	Semaphore = lockModel(rules{permits: true})
	Tokens    = lockModel(rules{tokens: true, anyone: true})
	Queue     = Model{init: unqueued, step: stepTask, split: byTask, ignores: nothing}
)

// rules are what a model of a lock looks at.
type rules struct {
	tokens  bool
	readers bool
	permits bool
	anyone  bool // there may be any number of holders
}

// lockState is a lock between two operations.
type lockState struct {
	holders string // the numbers of their holds, sorted
	writing bool   // the holder is alone
	permits int    // of the holders
	written int64  // the largest token of those that were alone
	read    int64  // the largest token of readers
	writers int    // how many had a token, in this part of the history
	readers int    // likewise
}

// holdSize is the length of a number in lockState.holders.
const holdSize = 8

func lockModel(r rules) Model {
	m := Model{
		init: lockState{},
		step: func(state any, call, outcome *Event) (bool, any) {
			return r.step(state.(lockState), call, outcome)
		},
		split:   byName,
		after:   after,
		ignores: nothing,
	}
	if r.anyone {
		m.ignores = Function.releases
	}
	return m
}

func nothing(Function) bool { return false }

// after keeps the largest tokens.
func after(state any, chunk []porcupine.Event) any {
	before := state.(lockState)
	next := lockState{written: before.written, read: before.read}
	for _, e := range chunk {
		switch e := e.Value.(*Event); {
		case e.Type != OK || !e.orders():
		case e.Function == Acquire:
			next.written = max(next.written, e.Token)
		default:
			next.read = max(next.read, e.Token)
		}
	}
	return next
}

func (r rules) step(s lockState, call, outcome *Event) (bool, any) {
	hold := string(binary.BigEndian.AppendUint64(nil, uint64(call.hold)))
	switch call.Function {
	case Acquire, AcquireShared:
		if !r.anyone && !s.admits(r, call) || r.tokens && !s.fits(outcome) {
			return false, s
		}
		if r.anyone {
			hold = ""
		}
		return true, s.with(hold, outcome)
	case Release, ReleaseShared:
		i := s.index(hold)
		if i < 0 {
			return false, s
		}
		s.holders = s.holders[:i] + s.holders[i+holdSize:]
		return true, s
	case Enqueue, Dequeue:
	}
	return false, s
}

// admits reports whether there may be another holder.
func (s lockState) admits(r rules, call *Event) bool {
	switch {
	case s.holders == "":
		return true
	case r.permits:
		return s.permits == call.Permits && len(s.holders)/holdSize < call.Permits
	default:
		return r.readers && call.Function == AcquireShared && !s.writing
	}
}

// fits reports whether a lock may have its token now: it is in order, and so can be those of all
// that are still to come. Locks without one have no order.
func (s lockState) fits(e *Event) bool {
	switch {
	case e.Token == 0:
		return true
	case e.Function == AcquireShared:
		return e.Token >= s.written && s.writers == e.writersBefore
	default:
		return e.Token > max(s.written, s.read) && s.writers == e.writersBefore && s.readers == e.readersBefore
	}
}

// with returns the state with another holder.
func (s lockState) with(hold string, e *Event) lockState {
	i := 0
	for i < len(s.holders) && s.holders[i:i+holdSize] < hold {
		i += holdSize
	}
	s.holders = s.holders[:i] + hold + s.holders[i:]
	s.writing, s.permits = e.Function == Acquire, e.Permits
	switch {
	case !e.orders():
	case s.writing:
		s.written, s.writers = max(s.written, e.Token), s.writers+1
	default:
		s.read, s.readers = max(s.read, e.Token), s.readers+1
	}
	return s
}

// index returns where a hold is among the holders, or -1.
func (s lockState) index(hold string) int {
	for i := 0; i < len(s.holders); i += holdSize {
		if s.holders[i:i+holdSize] == hold {
			return i
		}
	}
	return -1
}

// taskState has a bit for each thing that a task may be.
type taskState uint8

const (
	unqueued taskState = 1 << iota
	queued
)

// stepTask is the model of one task of a queue.
func stepTask(state any, call, outcome *Event) (bool, any) {
	s, next := state.(taskState), queued
	if call.Function == Dequeue {
		if s&queued == 0 {
			return outcome.Type == Info, s // if it is unknown, it need not have happened
		}
		next = unqueued
	}
	if outcome.Type == Info {
		next |= s
	}
	return true, next
}

func byName(events []Event) [][]Event {
	names := make(map[string][]Event)
	for _, e := range events {
		names[e.Name] = append(names[e.Name], e)
	}
	return slices.Collect(maps.Values(names))
}

func byTask(events []Event) (all [][]Event) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return strings.Compare(a.Task, b.Task)
	})
	for len(events) > 0 {
		first := events[0]
		n := slices.IndexFunc(events, func(e Event) bool { return e.Name != first.Name || e.Task != first.Task })
		if n < 0 {
			n = len(events)
		}
		all, events = append(all, events[:n]), events[n:]
	}
	return all
}
