package shared

import "slices"

// AcquireWrite is the acquisition of a mutex: SET NX, which knows nothing of readers.
func (e *Entry[V]) AcquireWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	if !e.absent() {
		return 0, false
	}
	return e.admitWrite(value, ttl, ts), true
}

// admitWrite gives the key to value. The counter rises by one at least, so that the number is new.
func (e *Entry[V]) admitWrite(value V, ttl, ts int64) int64 {
	e.Key, e.Until = value, e.Now+ttl
	e.Fence = max(ts, e.Fence+1)
	return e.Fence
}

// AnnounceWrite is AcquireWrite of an attempt that waits. A key that was handed to value is as good
// as an absent one. If it is not granted, it keeps new readers out.
func (e *Entry[V]) AnnounceWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	if !e.absent() && e.Key != value {
		e.Intent = value
		return 0, false
	}
	e.forget(value)
	e.withdraw(value)
	return e.admitWrite(value, ttl, ts), true
}

// WaitWrite is AnnounceWrite at the pilot. If it is not granted, value waits.
func (e *Entry[V]) WaitWrite(value V, ttl, ts int64) (fence int64, granted bool) {
	if fence, granted = e.AnnounceWrite(value, ttl, ts); !granted {
		e.join(value, false)
	}
	return fence, granted
}

// Intend is the announcement alone, for the nodes that value does not ask for their votes yet: a
// plain SET. It looks at nothing, so it may also come when value has the key, or has left.
func (e *Entry[V]) Intend(value V) { e.Intent = value }

// ExtendWrite is the extension of a mutex.
func (e *Entry[V]) ExtendWrite(value V, ttl int64) Answer {
	switch {
	case e.Key == value:
		e.Until = e.Now + ttl
		return Extended
	case e.absent():
		e.Key, e.Until = value, e.Now+ttl
		return Healed
	default:
		return Refused
	}
}

// ReleaseWrite is the release of a mutex, and ends a wait. A waiting writer that leaves lets the
// readers in that waited only for it: nobody else would tell them. A writer that has the key took
// its intent back when it was granted it, but not if it was only handed the key, or if an intent
// was late.
func (e *Entry[V]) ReleaseWrite(value V, grace int64, alive func(V) bool) bool {
	e.forget(value)
	e.withdraw(value)
	released := e.Key == value
	if released {
		e.drop()
	}
	if released || e.Key == e.Marker {
		e.handOver(grace, alive)
	}
	return released
}

// RaiseWrite brings the counter up to t if value has the key and the counter is below t, never at
// it: internal/proof/search/fence says why.
func (e *Entry[V]) RaiseWrite(value V, t int64) bool {
	if e.Key != value || e.Fence >= t {
		return false
	}
	e.Fence = t
	return true
}

// AcquireForeign is another library's SET NX PX, without a counter.
func (e *Entry[V]) AcquireForeign(value V, ttl int64) bool {
	if !e.absent() {
		return false
	}
	e.Key, e.Until = value, e.Now+ttl
	return true
}

// ExtendForeign is another library's compare and PEXPIRE.
func (e *Entry[V]) ExtendForeign(value V, ttl int64) bool {
	if e.Key != value {
		return false
	}
	e.Until = e.Now + ttl
	return true
}

// ReleaseForeign is another library's compare and delete.
func (e *Entry[V]) ReleaseForeign(value V) bool {
	if e.Key != value {
		return false
	}
	e.drop()
	return true
}

// handOver serves the oldest waiters of a key that is free or held by readers: one writer if it is
// free, or all readers up to the next writer. Waiters that are not alive are dropped. What a waiter
// is handed counts only once it asks for it: so its counter is read, and its time to live begins,
// after its attempt did.
func (e *Entry[V]) handOver(grace int64, alive func(V) bool) {
	for len(e.Waiting) > 0 {
		oldest := e.Waiting[0]
		if alive(oldest.Value) {
			if !oldest.Reads {
				if e.absent() {
					e.Waiting = slices.Delete(e.Waiting, 0, 1)
					e.Key, e.Until = oldest.Value, e.Now+grace
				}
				return
			}
			e.purge()
			e.prolong(oldest.Value, e.Now+grace)
			e.mark()
		}
		e.Waiting = slices.Delete(e.Waiting, 0, 1)
	}
}

// prolong is put, if that is later. A reader that was healed here while its place on the list was
// forgotten has more time than the grace.
func (e *Entry[V]) prolong(value V, until int64) {
	for _, m := range e.Members {
		if m.Value == value {
			until = max(until, m.Until)
		}
	}
	e.put(value, until)
}

func (e *Entry[V]) join(value V, reads bool) {
	w := Waiter[V]{value, reads}
	if !slices.Contains(e.Waiting, w) {
		e.Waiting = append(e.Waiting, w)
	}
}

func (e *Entry[V]) forget(value V) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(w Waiter[V]) bool { return w.Value == value })
}

func (e *Entry[V]) withdraw(value V) {
	if e.Intent == value {
		var none V
		e.Intent = none
	}
}
