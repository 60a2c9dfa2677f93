package spec

// Limits of a [Semaphore].
const (
	MaxPermits = 4
	MaxWaiting = 4
)

// Semaphore is what one node keeps for one semaphore. The zero Semaphore is that of one that was
// never used. No client uses the zero V.
//
// The methods are the node's part of the protocol: one for each script, and two for those of
// extensions and expiry. Slots count from 1.
type Semaphore[V comparable] struct {
	Permits int           // the number of permits that the node knows; 0 if none
	Slots   [MaxPermits]V `search:"others"` // the values of the slots' keys; the zero V if a slot is free
	Waiting [MaxWaiting]V // the values that waiters will use, the oldest first, then zero Vs
}

// A SlotAnswer is what a node answers to a request for a permit.
type SlotAnswer struct {
	Slot  int   // the slot that the caller now has here, or 0
	Other int   // how many permits the node knows if that differs from the caller's, otherwise 0
	Free  uint8 // the slots that are free now, a bit each
	Waits bool  // the caller is on the wait list
}

// Given says which value each slot was handed over to.
type Given[V comparable] [MaxPermits]V

// Free reports whether nobody has a slot.
func (e *Semaphore[V]) Free(slot int) bool {
	var none V
	return e.Slots[slot-1] == none
}

// FreeSlots returns the slots that are free, a bit each.
func (e *Semaphore[V]) FreeSlots(permits int) (free uint8) {
	for slot := 1; slot <= permits; slot++ {
		if e.Free(slot) {
			free |= 1 << (slot - 1)
		}
	}
	return free
}

// admit reports whether the node takes requests for this many permits, which it does not while a
// slot of another number is taken. So as long as the key of a slot lives that was granted under a
// number, the node knows that number. Those that wait under another number are forgotten: the next
// poll tells them.
func (e *Semaphore[V]) admit(permits int) bool {
	if e.Permits == permits {
		return true
	}
	for slot := 1; slot <= e.Permits; slot++ {
		if !e.Free(slot) {
			return false
		}
	}
	e.Permits = permits
	clear(e.Waiting[:])
	return true
}

// own returns the first slot that the value has, or 0.
func (e *Semaphore[V]) own(value V, permits int) int {
	for slot := 1; slot <= permits; slot++ {
		if e.Slots[slot-1] == value {
			return slot
		}
	}
	return 0
}

// Take takes the first free slot, beginning with a given one. A caller that has a slot here keeps
// it, and gets no second one: the request may arrive twice, or behind one of [Semaphore.TakeSlot].
func (e *Semaphore[V]) Take(value V, permits, first int) (a SlotAnswer) {
	if !e.admit(permits) {
		return SlotAnswer{Other: e.Permits}
	}
	if a.Slot = e.own(value, permits); a.Slot == 0 {
		for i := range permits {
			if slot := (first-1+i)%permits + 1; e.Free(slot) {
				a.Slot = slot
				e.Slots[slot-1] = value
				break
			}
		}
	}
	a.Free = e.FreeSlots(permits)
	return a
}

// TakeSlot takes one slot, and gives up any other that the caller has here. This also confirms a
// slot that was handed over.
func (e *Semaphore[V]) TakeSlot(value V, permits, slot int, alive func(V) bool) (a SlotAnswer, given Given[V]) {
	if !e.admit(permits) {
		return SlotAnswer{Other: e.Permits}, given
	}
	given = e.Release(value, permits, slot, alive)
	if e.Free(slot) || e.Slots[slot-1] == value {
		e.Slots[slot-1] = value
		a.Slot = slot
	}
	a.Free = e.FreeSlots(permits)
	return a, given
}

// Wait is Take for a waiter: if no slot is free, the value waits. Otherwise it leaves the list.
func (e *Semaphore[V]) Wait(value V, permits, first int) (a SlotAnswer) {
	if a = e.Take(value, permits, first); a.Slot != 0 {
		e.Leave(value)
	}
	if a.Slot != 0 || a.Other != 0 {
		return a
	}
	var none V
	for i, waiting := range e.Waiting {
		if waiting == none {
			e.Waiting[i] = value
			a.Waits = true
		} else if waiting == value {
			a.Waits = true
		}
		if a.Waits {
			break
		}
	}
	return a
}

// Release releases every slot that the value has, except for one (0: none). Each goes to the oldest
// waiter that is alive.
func (e *Semaphore[V]) Release(value V, permits, except int, alive func(V) bool) (given Given[V]) {
	for slot := 1; slot <= permits; slot++ {
		if slot != except && e.Slots[slot-1] == value {
			given[slot-1] = e.HandOver(slot, alive)
		}
	}
	return given
}

// GiveBack is Release for a client that leaves: the number goes with the last slot that is taken.
func (e *Semaphore[V]) GiveBack(value V, permits, except int, alive func(V) bool) (given Given[V]) {
	before := e.Slots
	given = e.Release(value, permits, except, alive)
	if e.Slots != before && e.Permits == permits && e.FreeSlots(permits) == 1<<permits-1 {
		e.Permits = 0
	}
	return given
}

// HandOver gives a slot to the oldest waiter that is alive. Waiters that are not are dropped. If
// nobody is left, the slot is free.
func (e *Semaphore[V]) HandOver(slot int, alive func(V) bool) (to V) {
	var none V
	for e.Waiting[0] != none && to == none {
		oldest := e.Waiting[0]
		e.Leave(oldest)
		if alive(oldest) {
			to = oldest
		}
	}
	e.Slots[slot-1] = to
	return to
}

// Leave takes a value off the wait list.
func (e *Semaphore[V]) Leave(value V) {
	var none V
	kept := 0
	for _, waiting := range e.Waiting {
		if waiting != value && waiting != none {
			e.Waiting[kept] = waiting
			kept++
		}
	}
	clear(e.Waiting[kept:])
}

// Extend extends a slot that the value has. Under another number nothing changes.
func (e *Semaphore[V]) Extend(value V, permits, slot int) Answer {
	if e.Free(slot) {
		return Lacking
	}
	return e.Heal(value, permits, slot)
}

// Heal is Extend. If the slot is free and the number can be the caller's, it also sets both again,
// which is no vote.
func (e *Semaphore[V]) Heal(value V, permits, slot int) Answer {
	switch {
	case e.Free(slot) && e.admit(permits):
		e.Slots[slot-1] = value
		return Lacking
	case e.Free(slot) || e.Slots[slot-1] != value || e.Permits != 0 && e.Permits != permits:
		return Refused
	}
	e.Permits = permits // others deleted it: while a slot is taken, it does not end
	return Extended
}

// Expire deletes the key of a slot. Nobody is woken.
func (e *Semaphore[V]) Expire(slot int) {
	var none V
	e.Slots[slot-1] = none
}
