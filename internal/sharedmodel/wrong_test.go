package sharedmodel

import "slices"

// The scripts of this file are wrong. Each has one mistake.

// An entry is what the search keeps for a node.
type entry = Entry[Value]

// purgeExpired is a purge that does not look at the key.
func (e *Entry[V]) purgeExpired() {
	e.Members = slices.DeleteFunc(e.Members, func(m Member[V]) bool { return m.Until <= e.Now })
}

func (e *Entry[V]) writers() bool { return !e.absent() && e.Key != e.Marker }

func extendUnpurged(e *entry, v Value, ttl int64) Answer {
	if e.writers() {
		return Refused
	}
	answer := Healed
	if e.reads(v) {
		answer = Extended
	}
	e.put(v, e.Now+ttl)
	e.mark()
	return answer
}

// releaseUnpurged counts members that have expired, and leaves them the key.
func releaseUnpurged(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	e.forget(v)
	if e.Key != e.Marker || !e.reads(v) {
		return false
	}
	until := e.Until
	e.remove(v)
	if e.mark(); len(e.Members) > 0 {
		e.Key, e.Until = e.Marker, max(e.Until, until)
	} else {
		e.handOver(grace, alive)
	}
	return true
}

// oneTime gives all members the time to live of the latest.
func (e *Entry[V]) oneTime() {
	for i := range e.Members {
		e.Members[i].Until = e.Until
	}
}

func acquireOneTime(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	fence, granted := e.AcquireRead(v, ttl, ts, turn)
	if granted {
		e.oneTime()
	}
	return fence, granted
}

func extendOneTime(e *entry, v Value, ttl int64) Answer {
	answer := e.ExtendRead(v, ttl)
	if answer != Refused {
		e.oneTime()
	}
	return answer
}

// releaseLong leaves the marker as long as it was.
func releaseLong(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	until := e.Until
	released := e.ReleaseRead(v, grace, alive)
	if released && e.Key == e.Marker {
		e.Until = max(e.Until, until)
	}
	return released
}

// acquireShort makes the marker as long as the latest member.
func acquireShort(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	fence, granted := e.AcquireRead(v, ttl, ts, turn)
	if granted {
		e.Until = e.Now + ttl
	}
	return fence, granted
}

func extendShort(e *entry, v Value, ttl int64) Answer {
	answer := e.ExtendRead(v, ttl)
	if answer != Refused {
		e.Until = e.Now + ttl
	}
	return answer
}

// acquireRounded makes the marker a tick too short.
func acquireRounded(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	fence, granted := e.AcquireRead(v, ttl, ts, turn)
	if granted {
		e.Until--
		e.Expire()
	}
	return fence, granted
}

func acquireBesideWriter(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	if e.writers() {
		return e.Fence, true
	}
	return e.AcquireRead(v, ttl, ts, turn)
}

func acquireUnasked(e *entry, v Value, ttl, ts int64, _ bool) (int64, bool) {
	return e.AcquireRead(v, ttl, ts, true)
}

func acquireTurnless(e *entry, v Value, ttl, ts int64, _ bool) (int64, bool) {
	return e.AcquireRead(v, ttl, ts, false)
}

// acquireBehind is kept out by a writer that waits, announced or not.
func acquireBehind(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	writes := slices.ContainsFunc(e.Waiting, func(w Waiter[Value]) bool { return !w.Reads })
	if !turn && !e.reads(v) && writes {
		return 0, false
	}
	return e.AcquireRead(v, ttl, ts, turn)
}

func extendUnlessIntent(e *entry, v Value, ttl int64) Answer {
	if e.Intent != nobody {
		return Refused
	}
	return e.ExtendRead(v, ttl)
}

func extendAnyKey(e *entry, v Value, ttl int64) Answer {
	if e.writers() {
		e.drop()
	}
	return e.ExtendRead(v, ttl)
}

// acquireRevived and extendRevived leave the members of a key that was deleted.
func acquireRevived(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	if e.writers() {
		return 0, false
	}
	e.purgeExpired()
	if !turn && e.Intent != nobody && !e.reads(v) {
		return 0, false
	}
	return e.admitRead(v, ttl, ts), true
}

func extendRevived(e *entry, v Value, ttl int64) Answer {
	if e.writers() {
		return Refused
	}
	e.purgeExpired()
	return extendUnpurged(e, v, ttl)
}

// releaseAll deletes the key that other readers have.
func releaseAll(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	released := e.ReleaseRead(v, grace, alive)
	if released && e.Key == e.Marker {
		e.drop()
	}
	return released
}

// releaseUncompared deletes whatever key is there when the last member goes.
func releaseUncompared(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	e.forget(v)
	e.purgeExpired()
	if !e.reads(v) {
		return false
	}
	e.remove(v)
	if len(e.Members) > 0 {
		e.mark()
		return true
	}
	e.drop()
	e.handOver(grace, alive)
	return true
}

// releaseTo is a release of the last reader with another hand-over.
func releaseTo(handOver func(e *entry, grace int64, alive func(Value) bool)) func(*entry, Value, int64, func(Value) bool) bool {
	return func(e *entry, v Value, grace int64, alive func(Value) bool) bool {
		waiting := slices.Clone(e.Waiting)
		e.Waiting = e.Waiting[:0]
		released := e.ReleaseRead(v, grace, alive)
		e.Waiting = waiting
		e.forget(v)
		if released && e.absent() {
			handOver(e, grace, alive)
		}
		return released
	}
}

// writeTo is a release of a writer with another hand-over.
func writeTo(handOver func(e *entry, grace int64, alive func(Value) bool)) func(*entry, Value, int64, func(Value) bool) bool {
	return func(e *entry, v Value, grace int64, alive func(Value) bool) bool {
		e.forget(v)
		e.withdraw(v)
		if e.Key == v {
			e.drop()
		}
		if e.absent() || e.Key == e.Marker {
			handOver(e, grace, alive)
		}
		return true
	}
}

func handToOne(e *entry, grace int64, alive func(Value) bool) {
	for len(e.Waiting) > 0 && e.absent() {
		rest := slices.Clone(e.Waiting[1:])
		e.Waiting = e.Waiting[:1]
		e.handOver(grace, alive)
		e.Waiting = append(e.Waiting, rest...)
	}
}

func handToAllReaders(e *entry, grace int64, alive func(Value) bool) {
	for _, w := range slices.Clone(e.Waiting) {
		if w.Reads && alive(w.Value) {
			e.forget(w.Value)
			e.purge()
			e.put(w.Value, e.Now+grace)
			e.mark()
		}
	}
	e.handOver(grace, alive)
}

// handShort gives every reader the grace, also one that has more.
func handShort(e *entry, grace int64, alive func(Value) bool) {
	first := slices.IndexFunc(e.Waiting, func(w Waiter[Value]) bool { return !w.Reads })
	if first < 0 {
		first = len(e.Waiting)
	}
	readers := slices.Clone(e.Waiting[:first])
	e.handOver(grace, alive)
	for _, w := range readers {
		if alive(w.Value) && e.Key == e.Marker {
			e.put(w.Value, e.Now+grace)
			e.mark()
		}
	}
}

// leaveSilently ends a writer's wait, and tells nobody.
func leaveSilently(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	if e.Key == v {
		return e.ReleaseWrite(v, grace, alive)
	}
	e.forget(v)
	e.withdraw(v)
	return false
}

// leaveAnnounced ends a writer's wait, and leaves its intent.
func leaveAnnounced(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	intent := e.Intent
	released := e.ReleaseWrite(v, grace, alive)
	e.Intent = intent
	return released
}

// leaveHanded leaves the intent of a writer that was handed the key, or whose intent was late.
func leaveHanded(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	if e.Key == v {
		return leaveAnnounced(e, v, grace, alive)
	}
	return e.ReleaseWrite(v, grace, alive)
}

// leaveUncompared takes everybody's intent back.
func leaveUncompared(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	e.Intent = nobody
	return e.ReleaseWrite(v, grace, alive)
}

func raiseStrictly(e *entry, v Value, t int64) bool { return e.Fence < t && e.RaiseRead(v, t) }

func raiseAnyones(e *entry, _ Value, t int64) bool {
	e.Fence = max(e.Fence, t)
	return true
}

// deleteMarker is another library's release with the marker for its value.
func deleteMarker(e *entry, v Value) bool {
	if e.Key == e.Marker {
		e.drop()
		return true
	}
	return e.ReleaseForeign(v)
}
