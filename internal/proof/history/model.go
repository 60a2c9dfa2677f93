package history

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Model says what may happen to a lock or a queue if one thing happens at a time.
type Model struct {
	init  any // the state of a name before everything
	step  func(state any, call, outcome *Event) (bool, any)
	split func(events []Event) [][]Event // into histories that do not depend on each other
}

// The models. A mutex has one holder. With fencing, each holder also has a larger token than all
// before it. A shared lock has one writer or any number of readers; a reader's token is not below
// that of a writer before it, and below that of a writer after it. A semaphore has as many holders
// as permits, and all who hold one at the same time believe in the same number. A queue gives each
// task to one worker each time it was put in.
//
// Tokens is a lock of which only the order of its tokens is judged, for faults under which two
// clients may hold it: a lock that was acquired before another's attempt began has the smaller one.
var (
	Mutex       = lockModel(rules{})
	FencedMutex = lockModel(rules{tokens: true})
	Shared      = lockModel(rules{tokens: true, readers: true})
	Semaphore   = lockModel(rules{permits: true})
	Tokens      = lockModel(rules{tokens: true, anyone: true})
	Queue       = Model{init: unqueued, step: stepTask, split: byTask}
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
}

// holdSize is the length of a number in lockState.holders.
const holdSize = 8

func lockModel(r rules) Model {
	return Model{
		init: lockState{},
		step: func(state any, call, outcome *Event) (bool, any) {
			return r.step(state.(lockState), call, outcome)
		},
		split: byName,
	}
}

func (r rules) step(s lockState, call, outcome *Event) (bool, any) {
	hold := string(binary.BigEndian.AppendUint64(nil, uint64(call.hold)))
	switch call.Function {
	case Acquire, AcquireShared:
		if !r.anyone && !s.admits(r, call) || r.tokens && !s.fits(call, outcome.Token) {
			return false, s
		}
		return true, s.with(hold, call, outcome.Token)
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

// fits reports whether a lock may have a token now. Locks without one have no order.
func (s lockState) fits(call *Event, token int64) bool {
	if call.Function == AcquireShared {
		return token == 0 || token >= s.written
	}
	return token == 0 || token > max(s.written, s.read)
}

// with returns the state with another holder. The next holder of a lock that somebody forced may
// have begun before it, so the tokens of the two have no order.
func (s lockState) with(hold string, call *Event, token int64) lockState {
	i := 0
	for i < len(s.holders) && s.holders[i:i+holdSize] < hold {
		i += holdSize
	}
	s.holders = s.holders[:i] + hold + s.holders[i:]
	s.writing, s.permits = call.Function == Acquire, call.Permits
	switch {
	case call.Forced:
	case s.writing:
		s.written = max(s.written, token)
	default:
		s.read = max(s.read, token)
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

func byName(events []Event) (all [][]Event) {
	for _, history := range ByName(events) {
		all = append(all, history)
	}
	return all
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
