package shared

import "slices"

// Wrong releases and hand-overs. Each has one mistake.

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
