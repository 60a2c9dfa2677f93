package spec

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
	Until int64 // of a holder that comes before the waiters: until when; 0 for a waiter
}

// An Entry is what one node keeps for one name. That of a name that was never locked has a Marker
// and nothing else. Each method is a script, or a part of some, from which wrong ones are made,
// too.
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
	Lacking                // nobody has it, or with a heal the caller has it again: no vote
)

// Expire deletes the key if its time has come. Redis does that itself, before any script.
func (e *Entry[V]) Expire() {
	if e.Until <= e.Now {
		e.Drop()
	}
}

// Drop deletes the key.
func (e *Entry[V]) Drop() {
	var none V
	e.Key, e.Until = none, 0
}

// Absent reports whether there is no key.
func (e *Entry[V]) Absent() bool {
	var none V
	return e.Key == none
}

// Entries are what one script works on: one name, or a set of names, none of them twice.
type Entries[V comparable] []*Entry[V]

// grant gives all keys to value, and one new fence to all of them. The +1 makes it new: without it,
// two attempts with one timestamp, or one with an old timestamp, would get a number that was given
// before. The maximum covers the whole set; otherwise the token of the set would be old under one
// of its names.
func (s Entries[V]) grant(value V, ttl, ts int64) int64 {
	fence := ts
	for _, e := range s {
		fence = max(fence, e.Fence+1)
	}
	for _, e := range s {
		e.Key, e.Until, e.Fence = value, e.Now+ttl, fence
	}
	return fence
}

// all reports whether all keys are value's, and something else is true.
func (s Entries[V]) all(value V, is func(e *Entry[V]) bool) bool {
	for _, e := range s {
		if e.Absent() || e.Key != value || !is(e) {
			return false
		}
	}
	return true
}

func (s Entries[V]) count(fence int64) {
	for _, e := range s {
		e.Fence = fence
	}
}

// Acquire sets all keys, or none if one is taken: SET NX, which knows nothing of readers. It
// returns the fence that it granted.
func (s Entries[V]) Acquire(value V, ttl, ts int64) (fence int64, granted bool) {
	for _, e := range s {
		if !e.Absent() {
			return 0, false
		}
	}
	return s.grant(value, ttl, ts), true
}

// Raise lifts the fences to t, if all keys are value's and all fences are below t.
//
// The comparison is strict, and the tokens rest on it. If a fence that is already t were good
// enough, it might be t because another attempt was given t. A key can come back to value without a
// new fence: it expired, another attempt acquired it, and its release handed it over to value,
// which was still in the list from a message sent before. A fence above t must not be lowered, or
// numbers would be given out twice.
//
// The comparison of values is no part of that argument. It prevents a late raise from lifting the
// counter under another attempt, whose own second round would then fail, and a node that lost its
// key from being counted.
func (s Entries[V]) Raise(value V, t int64) bool {
	if !s.all(value, func(e *Entry[V]) bool { return e.Fence < t }) {
		return false
	}
	s.count(t)
	return true
}

// Mend brings the fences down to t, if all keys are value's and all fences are the one that value
// was given. This is the only way down.
func (s Entries[V]) Mend(value V, given, t int64) bool {
	if !s.all(value, func(e *Entry[V]) bool { return e.Fence == given }) {
		return false
	}
	s.count(t)
	return true
}

// Adopt gives the keys of old to value, with a new fence, if all of them are old's.
func (s Entries[V]) Adopt(old, value V, ttl, ts int64) (fence int64, granted bool) {
	if !s.all(old, func(*Entry[V]) bool { return true }) {
		return 0, false
	}
	return s.grant(value, ttl, ts), true
}

// Purge drops the members that have expired. If readers do not hold the key, it drops all: no
// member is alive without the marker, unless somebody deleted the key. Then the key may have been
// another's since, and a member that came back with the next reader's marker would not know.
func (e *Entry[V]) Purge() {
	held := e.Key == e.Marker
	e.Members = slices.DeleteFunc(e.Members, func(m Member[V]) bool { return !held || m.Until <= e.Now })
}

// HasReader reports whether value is a member.
func (e *Entry[V]) HasReader(value V) bool {
	return slices.ContainsFunc(e.Members, func(m Member[V]) bool { return m.Value == value })
}

// Put sets when a member expires.
func (e *Entry[V]) Put(value V, until int64) {
	e.Remove(value)
	e.Members = append(e.Members, Member[V]{value, until})
}

// Remove drops a member.
func (e *Entry[V]) Remove(value V) {
	e.Members = slices.DeleteFunc(e.Members, func(m Member[V]) bool { return m.Value == value })
}

// Mark makes the key the marker, for exactly as long as the member that lives longest. It expires
// at the same number on the same clock (PEXPIREAT). A time to live would be a difference, and
// rounding or the time between two readings would let a member live for longer than the marker.
func (e *Entry[V]) Mark() {
	e.Key, e.Until = e.Marker, e.Now
	for _, m := range e.Members {
		e.Until = max(e.Until, m.Until)
	}
	e.Expire()
}

// AcquireRead makes value a reader. A writer's intent keeps it out unless it is one already, or its
// turn has come: a release has handed it a vote elsewhere, before that writer. Without that
// exception a reader would have the coordinator's vote, and the intents of the writer behind it
// would keep it from all others.
//
// The counter moves up to the caller's timestamp, but not past it: readers may have equal tokens.
func (e *Entry[V]) AcquireRead(value V, ttl, ts int64, turn bool) (fence int64, granted bool) {
	if !e.Absent() && e.Key != e.Marker {
		return 0, false
	}
	e.Purge()
	var none V
	if !turn && e.Intent != none && !e.HasReader(value) {
		return 0, false
	}
	return e.AdmitRead(value, ttl, ts), true
}

// AdmitRead is the rest of [Entry.AcquireRead].
func (e *Entry[V]) AdmitRead(value V, ttl, ts int64) (fence int64) {
	e.Forget(value)
	e.Put(value, e.Now+ttl)
	e.Mark()
	e.Fence = max(e.Fence, ts)
	return e.Fence
}

// WaitRead is AcquireRead for a waiter. If it is not granted, value waits. A reader whose turn has
// come serves the readers that are now the oldest: a release serves only so many.
func (e *Entry[V]) WaitRead(value V, ttl, ts int64, turn bool, grace int64, alive func(V) bool) (fence int64, granted bool) {
	if fence, granted = e.AcquireRead(value, ttl, ts, turn); !granted {
		e.Join(value, true)
	} else if turn {
		e.ServeReaders(grace, alive)
	}
	return fence, granted
}

// ServeReaders serves all readers up to the next writer, if the oldest waiter reads.
func (e *Entry[V]) ServeReaders(grace int64, alive func(V) bool) {
	i := slices.IndexFunc(e.Waiting, func(w Waiter[V]) bool { return w.Reads || w.Until == 0 })
	if i >= 0 && e.Waiting[i].Reads {
		e.HandOver(grace, alive)
	}
}

// ExtendRead gives a member a new time to live, and no other member. It does not look at intents: a
// reader keeps reading.
func (e *Entry[V]) ExtendRead(value V, ttl int64) Answer {
	if e.Absent() || e.Key == e.Marker {
		if e.Purge(); !e.HasReader(value) {
			return Lacking
		}
	}
	return e.HealRead(value, ttl)
}

// HealRead is ExtendRead, and admits a member that is absent.
func (e *Entry[V]) HealRead(value V, ttl int64) Answer {
	if !e.Absent() && e.Key != e.Marker {
		return Refused
	}
	e.Purge()
	answer := Lacking
	if e.HasReader(value) {
		answer = Extended
	}
	e.Put(value, e.Now+ttl)
	e.Mark()
	return answer
}

// ReleaseRead ends a read, or a wait for one. The last reader hands the key over; otherwise the key
// is left to those that remain. It reports whether value was a reader.
func (e *Entry[V]) ReleaseRead(value V, grace int64, alive func(V) bool) bool {
	e.quit(value)
	if e.Key != e.Marker {
		return false
	}
	e.Purge()
	if !e.HasReader(value) {
		return false
	}
	e.Remove(value)
	if e.Mark(); e.Absent() {
		e.HandOver(grace, alive)
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
	e.Purge()
	if !e.HasReader(value) {
		return false
	}
	e.Fence = max(e.Fence, t)
	return true
}

// AcquireWrite is [Entries.Acquire] of one name.
func (e *Entry[V]) AcquireWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	return Entries[V]{e}.Acquire(value, ttl, ts)
}

// Coordinator is the acquisition of a waiter. A key that was handed to value is as good as an
// absent one, but counts only from here on: a hand-over leaves the fence as it is, and a fence that
// was granted before must not be granted again. If it is not granted, value waits.
func (e *Entry[V]) Coordinator(value V, ttl, ts int64) (fence int64, granted bool) {
	if !e.Absent() && e.Key != value {
		e.Join(value, false)
		return 0, false
	}
	e.Forget(value)
	return Entries[V]{e}.grant(value, ttl, ts), true
}

// AnnounceWrite is Coordinator beside readers, without a place on the list. If it is not granted,
// it keeps new readers out.
func (e *Entry[V]) AnnounceWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	if !e.Absent() && e.Key != value {
		e.Intent = value
		return 0, false
	}
	e.Withdraw(value)
	return e.Coordinator(value, ttl, ts)
}

// WaitWrite is AnnounceWrite at the coordinator. If it is not granted, value waits.
func (e *Entry[V]) WaitWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	if fence, granted = e.AnnounceWrite(value, ttl, ts); !granted {
		e.Join(value, false)
	}
	return fence, granted
}

// Intend is the announcement alone, for the nodes that value does not ask for their votes yet: a
// plain SET. It looks at nothing, so it may also come when value has the key, or has left.
func (e *Entry[V]) Intend(value V) { e.Intent = value }

// ExtendWrite is the extension of a mutex.
func (e *Entry[V]) ExtendWrite(value V, ttl int64) Answer {
	if e.Absent() {
		return Lacking
	}
	return e.HealWrite(value, ttl)
}

// HealWrite is ExtendWrite, and sets a key that is absent.
func (e *Entry[V]) HealWrite(value V, ttl int64) Answer {
	switch {
	case e.Key == value:
		e.Until = e.Now + ttl
		return Extended
	case e.Absent():
		e.Key, e.Until = value, e.Now+ttl
		return Lacking
	default:
		return Refused
	}
}

// Release takes the key from value, and hands it over. Who has it then is [Entry.Key].
func (e *Entry[V]) Release(value V, grace int64, alive func(V) bool) bool {
	if e.Absent() || e.Key != value {
		return false
	}
	e.Drop()
	e.handOver(value, grace, alive)
	return true
}

// Leave ends a wait, and passes on what was handed over meanwhile.
func (e *Entry[V]) Leave(value V, grace int64, alive func(V) bool) bool {
	e.quit(value)
	return e.Release(value, grace, alive)
}

// ReleaseWrite is Leave beside readers. A waiting writer that leaves lets the readers in that
// waited only for it: nobody else would tell them. A writer that has the key took its intent back
// when it was granted it, but not if it was only handed the key, or if an intent was late.
func (e *Entry[V]) ReleaseWrite(value V, grace int64, alive func(V) bool) bool {
	e.Withdraw(value)
	released := e.Leave(value, grace, alive)
	if !released && e.Key == e.Marker {
		e.HandOver(grace, alive)
	}
	return released
}

// RaiseWrite is [Entries.Raise] of one name.
func (e *Entry[V]) RaiseWrite(value V, t int64) bool { return Entries[V]{e}.Raise(value, t) }

// AcquireForeign is another library's SET NX PX, without a counter.
func (e *Entry[V]) AcquireForeign(value V, ttl int64) bool {
	if !e.Absent() {
		return false
	}
	e.Key, e.Until = value, e.Now+ttl
	return true
}

// ExtendForeign is another library's compare and PEXPIRE.
func (e *Entry[V]) ExtendForeign(value V, ttl int64) bool {
	return e.Key == value && e.ExtendWrite(value, ttl) == Extended
}

// ReleaseForeign is another library's compare and delete.
func (e *Entry[V]) ReleaseForeign(value V) bool {
	if e.Key != value {
		return false
	}
	e.Drop()
	return true
}

// HandOver serves the oldest waiters of a key that is free or held by readers: one writer if it is
// free, or all readers up to the next writer. Waiters that are not alive are dropped. What a waiter
// is handed counts only once it asks for it: so its counter is read, and its time to live begins,
// after its attempt did.
//
// A holder that lacks this vote comes first, and has it until the time to live of its lock ends. It
// is asked nothing: it has other votes, and finds this one with its next extension. So that one
// does not count it yet: another client may have held the lock in between. A writer is passed over
// while readers have the key.
func (e *Entry[V]) HandOver(grace int64, alive func(V) bool) {
	var none V
	e.handOver(none, grace, alive)
}

// handOver is HandOver for a caller that does not get back what it gives.
func (e *Entry[V]) handOver(own V, grace int64, alive func(V) bool) {
	for i := 0; i < len(e.Waiting); {
		oldest, until, served := e.Waiting[i], e.Now+grace, false
		if oldest.Until == 0 {
			served = alive(oldest.Value)
		} else if until = oldest.Until; until > e.Now && oldest.Value != own {
			if served = oldest.Reads || e.Absent(); !served {
				i++
				continue
			}
		}
		if served && !oldest.Reads {
			if e.Absent() {
				e.Waiting = slices.Delete(e.Waiting, i, i+1)
				e.Key, e.Until = oldest.Value, until
			}
			return
		}
		if served {
			e.Purge()
			e.prolong(oldest.Value, until)
			e.Mark()
		}
		e.Waiting = slices.Delete(e.Waiting, i, i+1)
	}
}

// Prefer puts a holder before all who wait, if another client has the key: this node refused to
// extend its lock.
func (e *Entry[V]) Prefer(value V, reads bool, until int64) {
	if e.Absent() || e.Key == value {
		return
	}
	e.Waiting = slices.DeleteFunc(e.Waiting, func(w Waiter[V]) bool { return w.Value == value && w.Until != 0 })
	at := slices.IndexFunc(e.Waiting, func(w Waiter[V]) bool { return w.Until < until })
	if at < 0 {
		at = len(e.Waiting)
	}
	e.Waiting = slices.Insert(e.Waiting, at, Waiter[V]{value, reads, until})
}

// prolong is Put, if that is later. A reader that was healed here while its place on the list was
// forgotten has more time than the grace.
func (e *Entry[V]) prolong(value V, until int64) {
	for _, m := range e.Members {
		if m.Value == value {
			until = max(until, m.Until)
		}
	}
	e.Put(value, until)
}

// Join puts value on the list.
func (e *Entry[V]) Join(value V, reads bool) {
	w := Waiter[V]{Value: value, Reads: reads}
	if !slices.Contains(e.Waiting, w) {
		e.Waiting = append(e.Waiting, w)
	}
}

// Forget takes the waiter value off the list.
func (e *Entry[V]) Forget(value V) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(w Waiter[V]) bool { return w.Value == value && w.Until == 0 })
}

// quit takes value off the list, also as a holder.
func (e *Entry[V]) quit(value V) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(w Waiter[V]) bool { return w.Value == value })
}

// Withdraw takes value's intent back.
func (e *Entry[V]) Withdraw(value V) {
	if e.Intent == value {
		var none V
		e.Intent = none
	}
}
