package shared

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
