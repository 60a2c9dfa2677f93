package shared

import "slices"

// A Member is one entry of the sorted set beside a key.
type Member[V comparable] struct {
	Value V
	Until int64 // its score: it is alive before that
}

// A Waiter is one entry of a wait list.
type Waiter[V comparable] struct {
	Value V
	Reads bool
}

// An Entry is what one node keeps for one name. V is the type of values: strings on a node, small
// numbers in the search. Each method is one script.
type Entry[V comparable] struct {
	Marker V     // the value of the key while readers hold it: a constant, and nobody's own value
	Now    int64 // the node's clock; the caller moves it

	Key     V     // the zero V if there is no key
	Until   int64 // when the key expires
	Members []Member[V]
	Intent  V     // the writer that announced itself last; the zero V if there is none
	Fence   int64 // the counter; 0 if there is none
	Waiting []Waiter[V]
}

// An Answer is what a node says to an extension.
type Answer uint8

// What a node may say.
const (
	Refused  Answer = iota // another client has the key
	Extended               // the caller had the lock all the time, and has it for longer: a vote
	Healed                 // the caller has it again: no vote
)

// Expire deletes the key if its time has come. Redis does that itself, before any script.
func (e *Entry[V]) Expire() {
	if e.Until <= e.Now {
		e.drop()
	}
}

func (e *Entry[V]) drop() {
	var none V
	e.Key, e.Until = none, 0
}

func (e *Entry[V]) absent() bool {
	var none V
	return e.Key == none
}

// purge drops the members that have expired. If readers do not hold the key, it drops all: no
// member is alive without the marker, unless somebody deleted the key. Then the key may have been
// another's since, and a member that came back with the next reader's marker would not know.
func (e *Entry[V]) purge() {
	held := e.Key == e.Marker
	e.Members = slices.DeleteFunc(e.Members, func(m Member[V]) bool { return !held || m.Until <= e.Now })
}

// reads reports whether value is a member.
func (e *Entry[V]) reads(value V) bool {
	return slices.ContainsFunc(e.Members, func(m Member[V]) bool { return m.Value == value })
}

// put sets when a member expires.
func (e *Entry[V]) put(value V, until int64) {
	e.remove(value)
	e.Members = append(e.Members, Member[V]{value, until})
}

func (e *Entry[V]) remove(value V) {
	e.Members = slices.DeleteFunc(e.Members, func(m Member[V]) bool { return m.Value == value })
}

// mark makes the key the marker, for exactly as long as the member that lives longest. It expires
// at the same number on the same clock (PEXPIREAT). A time to live would be a difference, and
// rounding or the time between two readings would let a member live for longer than the marker.
func (e *Entry[V]) mark() {
	e.Key, e.Until = e.Marker, e.Now
	for _, m := range e.Members {
		e.Until = max(e.Until, m.Until)
	}
	e.Expire()
}

// AcquireRead makes value a reader. A writer's intent keeps it out unless it is one already, or its
// turn has come: a release has handed it a vote elsewhere, before that writer. Without that
// exception a reader would have the pilot's vote, and the intents of the writer behind it would
// keep it from all others.
//
// The counter moves up to the caller's timestamp, but not past it: readers may have equal tokens.
func (e *Entry[V]) AcquireRead(value V, ttl, ts int64, turn bool) (fence int64, granted bool) {
	if !e.absent() && e.Key != e.Marker {
		return 0, false
	}
	e.purge()
	var none V
	if !turn && e.Intent != none && !e.reads(value) {
		return 0, false
	}
	return e.admitRead(value, ttl, ts), true
}

// admitRead is the rest of [Entry.AcquireRead].
func (e *Entry[V]) admitRead(value V, ttl, ts int64) (fence int64) {
	e.forget(value)
	e.put(value, e.Now+ttl)
	e.mark()
	e.Fence = max(e.Fence, ts)
	return e.Fence
}

// WaitRead is AcquireRead for a waiter. If it is not granted, value waits. A reader whose turn has
// come serves the readers that are now the oldest: a release serves only so many.
func (e *Entry[V]) WaitRead(value V, ttl, ts int64, turn bool, grace int64, alive func(V) bool) (fence int64, granted bool) {
	if fence, granted = e.AcquireRead(value, ttl, ts, turn); !granted {
		e.join(value, true)
	} else if turn {
		e.serveReaders(grace, alive)
	}
	return fence, granted
}

// serveReaders serves all readers up to the next writer, if the oldest waiter reads.
func (e *Entry[V]) serveReaders(grace int64, alive func(V) bool) {
	if len(e.Waiting) > 0 && e.Waiting[0].Reads {
		e.handOver(grace, alive)
	}
}

// ExtendRead gives a member a new time to live, and no other member. It does not look at intents:
// who reads keeps reading. A member that is absent is healed.
func (e *Entry[V]) ExtendRead(value V, ttl int64) Answer {
	if !e.absent() && e.Key != e.Marker {
		return Refused
	}
	e.purge()
	answer := Healed
	if e.reads(value) {
		answer = Extended
	}
	e.put(value, e.Now+ttl)
	e.mark()
	return answer
}

// ReleaseRead ends a read, or a wait for one. The last reader hands the key over; otherwise the key
// is left to those that remain. It reports whether value was a reader.
func (e *Entry[V]) ReleaseRead(value V, grace int64, alive func(V) bool) bool {
	e.forget(value)
	if e.Key != e.Marker {
		return false
	}
	e.purge()
	if !e.reads(value) {
		return false
	}
	e.remove(value)
	if e.mark(); e.absent() {
		e.handOver(grace, alive)
	}
	return true
}

// RaiseRead brings the counter up to t if value is a reader. If the counter is there or above, that
// is as good: the token only has to be below the next writer's, and equal tokens of readers do no
// harm.
//
// The comparison of the member is no part of that. It prevents a late raise from lifting the
// counter under a writer, whose own second round would then fail.
func (e *Entry[V]) RaiseRead(value V, t int64) bool {
	if e.Key != e.Marker {
		return false
	}
	e.purge()
	if !e.reads(value) {
		return false
	}
	e.Fence = max(e.Fence, t)
	return true
}
