package shared

import (
	"slices"

	"github.com/redquorum/redquorum/internal/proof/spec"
)

// The scripts of this file are wrong. Each has one mistake.

// purgeExpired is a purge that does not look at the key.
func purgeExpired(e *entry) {
	e.Members = slices.DeleteFunc(e.Members, func(m spec.Member[Value]) bool { return m.Until <= e.Now })
}

func hasWriter(e *entry) bool { return !e.Absent() && e.Key != e.Marker }

func extendUnpurged(e *entry, v Value, ttl int64) spec.Answer {
	if hasWriter(e) {
		return spec.Refused
	}
	answer := spec.Lacking
	if e.HasReader(v) {
		answer = spec.Extended
	}
	e.Put(v, e.Now+ttl)
	e.Mark()
	return answer
}

// releaseUnpurged counts members that have expired, and leaves them the key.
func releaseUnpurged(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	e.Forget(v)
	if e.Key != e.Marker || !e.HasReader(v) {
		return false
	}
	until := e.Until
	e.Remove(v)
	if e.Mark(); len(e.Members) > 0 {
		e.Key, e.Until = e.Marker, max(e.Until, until)
	} else {
		e.HandOver(grace, alive)
	}
	return true
}

// These do one thing more than the right script when it has granted, extended or released.
var (
	acquireOneTime = acquireThen(oneTime)
	extendOneTime  = extendThen(oneTime)
	acquireShort   = acquireThen(short)
	extendShort    = extendThen(short)
	acquireRounded = acquireThen(func(e *entry, _ int64) {
		e.Until-- // the marker is a tick too short
		e.Expire()
	})

	// The marker is as long as it was; the key that other readers have is deleted.
	releaseLong = releaseThen(func(e *entry, until int64) { e.Until = max(e.Until, until) })
	releaseAll  = releaseThen(func(e *entry, _ int64) { e.Drop() })
)

// oneTime gives all members the time to live of the latest.
func oneTime(e *entry, _ int64) {
	for i := range e.Members {
		e.Members[i].Until = e.Until
	}
}

// short makes the marker as long as the latest member.
func short(e *entry, ttl int64) { e.Until = e.Now + ttl }

func acquireThen(spoil func(e *entry, ttl int64)) acquiring {
	return func(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
		fence, granted := e.AcquireRead(v, ttl, ts, turn)
		if granted {
			spoil(e, ttl)
		}
		return fence, granted
	}
}

func extendThen(spoil func(e *entry, ttl int64)) extending {
	return func(e *entry, v Value, ttl int64) spec.Answer {
		answer := e.HealRead(v, ttl)
		if answer != spec.Refused {
			spoil(e, ttl)
		}
		return answer
	}
}

func releaseThen(spoil func(e *entry, until int64)) releasing {
	return func(e *entry, v Value, grace int64, alive func(Value) bool) bool {
		until := e.Until
		released := e.ReleaseRead(v, grace, alive)
		if released && e.Key == e.Marker {
			spoil(e, until)
		}
		return released
	}
}

func acquireBesideWriter(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	if hasWriter(e) {
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
	writes := slices.ContainsFunc(e.Waiting, func(w spec.Waiter[Value]) bool { return !w.Reads })
	if !turn && !e.HasReader(v) && writes {
		return 0, false
	}
	return e.AcquireRead(v, ttl, ts, turn)
}

func extendUnlessIntent(e *entry, v Value, ttl int64) spec.Answer {
	if e.Intent != nobody {
		return spec.Refused
	}
	return e.HealRead(v, ttl)
}

func extendAnyKey(e *entry, v Value, ttl int64) spec.Answer {
	if hasWriter(e) {
		e.Drop()
	}
	return e.HealRead(v, ttl)
}

// acquireRevived and extendRevived leave the members of a key that was deleted.
func acquireRevived(e *entry, v Value, ttl, ts int64, turn bool) (int64, bool) {
	if hasWriter(e) {
		return 0, false
	}
	purgeExpired(e)
	if !turn && e.Intent != nobody && !e.HasReader(v) {
		return 0, false
	}
	return e.AdmitRead(v, ttl, ts), true
}

func extendRevived(e *entry, v Value, ttl int64) spec.Answer {
	if hasWriter(e) {
		return spec.Refused
	}
	purgeExpired(e)
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
		e.Drop()
		return true
	}
	return e.ReleaseForeign(v)
}

// Wrong releases and hand-overs. Each has one mistake.

// releaseUncompared deletes whatever key is there when the last member goes.
func releaseUncompared(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	e.Forget(v)
	purgeExpired(e)
	if !e.HasReader(v) {
		return false
	}
	e.Remove(v)
	if len(e.Members) > 0 {
		e.Mark()
		return true
	}
	e.Drop()
	e.HandOver(grace, alive)
	return true
}

// releaseTo is a release of the last reader with another hand-over.
func releaseTo(handOver func(e *entry, grace int64, alive func(Value) bool)) releasing {
	return func(e *entry, v Value, grace int64, alive func(Value) bool) bool {
		waiting := slices.Clone(e.Waiting)
		e.Waiting = e.Waiting[:0]
		released := e.ReleaseRead(v, grace, alive)
		e.Waiting = waiting
		e.Forget(v)
		if released && e.Absent() {
			handOver(e, grace, alive)
		}
		return released
	}
}

// writeTo is a release of a writer with another hand-over.
func writeTo(handOver func(e *entry, grace int64, alive func(Value) bool)) releasing {
	return func(e *entry, v Value, grace int64, alive func(Value) bool) bool {
		e.Forget(v)
		e.Withdraw(v)
		if e.Key == v {
			e.Drop()
		}
		if e.Absent() || e.Key == e.Marker {
			handOver(e, grace, alive)
		}
		return true
	}
}

func handToOne(e *entry, grace int64, alive func(Value) bool) {
	for len(e.Waiting) > 0 && e.Absent() {
		rest := slices.Clone(e.Waiting[1:])
		e.Waiting = e.Waiting[:1]
		e.HandOver(grace, alive)
		e.Waiting = append(e.Waiting, rest...)
	}
}

func handToAllReaders(e *entry, grace int64, alive func(Value) bool) {
	for _, w := range slices.Clone(e.Waiting) {
		if w.Reads && alive(w.Value) {
			e.Forget(w.Value)
			e.Purge()
			e.Put(w.Value, e.Now+grace)
			e.Mark()
		}
	}
	e.HandOver(grace, alive)
}

// handShort gives every reader the grace, also one that has more.
func handShort(e *entry, grace int64, alive func(Value) bool) {
	first := slices.IndexFunc(e.Waiting, func(w spec.Waiter[Value]) bool { return !w.Reads })
	if first < 0 {
		first = len(e.Waiting)
	}
	readers := slices.Clone(e.Waiting[:first])
	e.HandOver(grace, alive)
	for _, w := range readers {
		if alive(w.Value) && e.Key == e.Marker {
			e.Put(w.Value, e.Now+grace)
			e.Mark()
		}
	}
}

// leaveSilently ends a writer's wait, and tells nobody.
func leaveSilently(e *entry, v Value, grace int64, alive func(Value) bool) bool {
	if e.Key == v {
		return e.ReleaseWrite(v, grace, alive)
	}
	e.Forget(v)
	e.Withdraw(v)
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
