// Package history is what all have in common who play histories of locks: of the library in virtual
// time, and of processes on real servers. How a plan is drawn and how it is played is theirs. What
// was held ([Hold]) is judged here ([Judge]), told ([Timeline]) and made smaller while it still
// fails ([Without]).
//
// A checker of others judges the same: porcupine ([Check]). For it a history is a list of calls and
// returns, each with its time. A hold is two operations: the acquisition, from the start of the
// call until it returned the lock, and the release, which is called when the holder stops using the
// lock. A lock that expired or was lost is released at the end of its validity. A release that
// nobody confirmed has an unknown outcome: it may take effect at any time from its call on.
package history

import (
	"cmp"
	"slices"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// Type is what a line of a history says about an operation.
type Type string

// Every operation has an Invoke and at most one of the others.
const (
	Invoke Type = "invoke" // it was called
	OK     Type = "ok"     // it happened
	Fail   Type = "fail"   // it did not happen, and will not
	Info   Type = "info"   // it may have happened, or may yet
)

// Function is what an operation does.
type Function string

// The functions.
const (
	Acquire       Function = "acquire" // a mutex, a permit, or a shared lock to write
	Release       Function = "release"
	AcquireShared Function = "acquire-shared" // a shared lock to read
	ReleaseShared Function = "release-shared"
	Enqueue       Function = "enqueue"
	Dequeue       Function = "dequeue"
)

// Operation is what a process does.
type Operation struct {
	Function Function
	Name     string // of the lock, the semaphore or the queue
	Permits  int    // of the semaphore, as the caller believes; 0 for another kind
	Task     string // of a queue
}

// Event is a line of a history.
type Event struct {
	Operation

	Time  clock.Instant
	Type  Type
	Token int64 // of a lock that was acquired with fencing; otherwise 0
	call  int   // the number of the operation
	hold  int   // of an acquisition and its release: the number of the acquisition
	order order // among the events of one instant

	// Of the return of an acquisition with a token, while it is checked: how many others must take
	// effect before it.
	writersBefore, readersBefore int
}

// order puts the events of one instant into an order: what ends at an instant ends before anything
// begins at it, and everything else was under way together.
type order struct {
	class    int // of the constants below
	sequence int // in which it was recorded
	own      int // behind what it belongs to
}

const (
	ends    = iota // the call of a release
	begins         // another call
	happens        // the return of an acquisition
	returns        // another return
)

func (a order) compare(b order) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.own, b.own))
}

// Recorder records the operations of many goroutines. Its zero value is empty.
type Recorder struct {
	mu     sync.Mutex // guards the fields below
	events []Event
	calls  int
}

// Call is an operation that was recorded. Its methods may be called in the order in which they are
// known, which need not be that of their times.
type Call struct {
	recorder *Recorder
	op       Operation
	number   int
	hold     int   // as in Event
	returned Event // its zero value if it has not returned
}

// Invoke records an operation.
func (r *Recorder) Invoke(at clock.Instant, op Operation) *Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.invokeLocked(at, &Call{op: op, hold: r.calls}, order{class: begins, sequence: len(r.events)})
}

func (r *Recorder) invokeLocked(at clock.Instant, c *Call, o order) *Call {
	c.recorder, c.number = r, r.calls
	r.calls++
	r.events = append(r.events, c.event(at, Invoke, o))
	return c
}

func (c *Call) event(at clock.Instant, t Type, o order) Event {
	return Event{Operation: c.op, Time: at, Type: t, call: c.number, hold: c.hold, order: o}
}

// Return records the end of an operation: OK, Fail or Info. Token is that of a lock with fencing,
// otherwise 0.
func (c *Call) Return(at clock.Instant, outcome Type, token int64) {
	r := c.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	class := returns
	if c.op.Function.acquires() {
		class = happens
	}
	c.returned = c.event(at, outcome, order{class: class, sequence: len(r.events)})
	c.returned.Token = token
	r.events = append(r.events, c.returned)
}

// Release records that what a call acquired was released, at an instant or later. If that is before
// the call has returned, somebody else took it away.
func (c *Call) Release(at clock.Instant) *Call {
	r := c.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	release, o := &Call{op: c.op, hold: c.hold}, order{class: ends, sequence: len(r.events)}
	release.op.Function = Release
	if c.op.Function == AcquireShared {
		release.op.Function = ReleaseShared
	}
	if at == c.returned.Time { // it was held for no time
		o = c.returned.order
		o.own = 1
	}
	return r.invokeLocked(at, release, o)
}

// History returns what was recorded, in the order of time.
func (r *Recorder) History() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.order.compare(b.order))
	})
	return events
}
