package permit

import "slices"

// waits executes a request of a waiter.
func (x *calm) waits(w *world, c int, visit mover) {
	next := *w
	one := &next.clients[c]
	n := int(one.at) - 1
	m := &next.nodes[n]
	if m.has(goneOf(c)) {
		return
	}
	switch a := m.Wait(valueOf(c), x.Permits, int(one.first)); {
	case a.Slot != 0:
		one.phase, one.slot = collecting, int8(a.Slot)
		one.votes[n] = one.slot
		visit(&next, move{at(Takes, c, n, one.slot), false})
	case a.Waits:
		one.phase = queued
		visit(&next, move{at(Joins, c, n, 0), false})
	default: // the list is full
	}
}

// wakes is the message about a hand-over. A slot that was given to a waiter by another node than
// the pilot is given back: two nodes that hand over would split the votes of two waiters.
func (x *calm) wakes(w *world, c int, visit mover) {
	next := *w
	one := &next.clients[c]
	n := int(one.at) - 1
	if n != pilot {
		one.first = one.slot
		x.turns(&next, c, pilot, at(GoesBack, c, n, one.slot), visit)
		return
	}
	one.phase = collecting
	visit(&next, move{at(HearsHandOver, c, n, one.slot), false})
}

// settles is what arrives of attempts that are over.
func (x *calm) settles(w *world, n int, visit mover) {
	for slot := 1; slot <= x.Permits; slot++ {
		if !w.nodes[n].Slots[slot-1].isGone() {
			continue
		}
		next := *w
		m := &next.nodes[n]
		to := nobody
		switch {
		case x.ForgetsList:
			m.Expire(slot)
		case x.Newest:
			to = m.newest(slot)
		default:
			to = m.handOver(slot, alive)
		}
		kind := Releases
		if to != nobody {
			kind = HandsOver
		}
		if to.isGone() && x.LeaveDrops {
			m.Slots[slot-1] = dead
		}
		next.wake(n, slot, to)
		visit(&next, move{at(kind, nowhere, n, int8(slot)), false})
	}
	for c := range x.Clients {
		next := *w
		next.nodes[n].Leave(goneOf(c))
		if next.nodes[n] != w.nodes[n] {
			visit(&next, move{at(Leaves, nowhere, n, 0), false})
		}
	}
}

// has reports whether a value has a slot or waits.
func (m *nodeState) has(v value) bool {
	return slices.Contains(m.Slots[:], v) || slices.Contains(m.Waiting[:], v)
}

func (m *nodeState) newest(slot int) (to value) {
	for _, waiting := range m.Waiting {
		if waiting != nobody {
			to = waiting
		}
	}
	m.Leave(to)
	m.Slots[slot-1] = to
	return to
}

// wake tells a waiter that it was given a slot.
func (w *world) wake(n, slot int, to value) {
	if !to.isClient() {
		return
	}
	if one := &w.clients[to-firstClient]; one.phase == queued && int(one.at) == n+1 {
		one.phase, one.slot = woken, int8(slot)
	}
}
