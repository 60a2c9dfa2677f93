package permit

// tried ends the round of a client that asked for any slot. Without a quorum for one, it collects
// one that it can have from a quorum.
func (x *calm) tried(w *world, c int, e event, visit mover) {
	one := &w.clients[c]
	for slot := int8(1); slot <= permits; slot++ {
		if one.count(slot) >= quorum {
			x.holds(w, c, slot, e, visit)
			return
		}
	}
	slot := one.available(0)
	if slot == 0 {
		x.turns(w, c, x.full(one), e, visit)
		return
	}
	one.phase, one.slot, one.free = collecting, slot, [nodes]uint8{}
	for n := range one.votes {
		if one.votes[n] != slot {
			one.votes[n] = unknown
		}
	}
	visit(w, move{e, false})
}

// available returns a slot that a quorum has given to the client, or said to be free; 0 if there is
// none.
func (c *client) available(except int8) int8 {
	for slot := int8(1); slot <= permits; slot++ {
		count := 0
		for n := range c.votes {
			if c.votes[n] == slot || c.free[n]&bitOf(int(slot)-1) != 0 {
				count++
			}
		}
		if count >= quorum && slot != except {
			return slot
		}
	}
	return 0
}

// full returns a node that refused and has no free slot. There the waiter is on a list until a slot
// is released. If there is none, it returns the pilot, which may grant.
func (x *calm) full(c *client) int {
	for n := range c.votes {
		if c.votes[n] == refused && (c.free[n] == 0 || x.AnyRefusing) && !x.StaysAtPilot {
			return n
		}
	}
	return pilot
}

// collected ends the round of a client that asked for one slot. Refused, it tries the next slot
// that it can have from a quorum.
func (x *calm) collected(w *world, c int, e event, visit mover) {
	one := &w.clients[c]
	if one.count(one.slot) >= quorum {
		x.holds(w, c, one.slot, e, visit)
		return
	}
	e.broken = x.Prompt
	to, slot := x.full(one), one.available(one.slot)
	one.first = one.slot%int8(x.Permits) + 1
	if slot == 0 || x.StaysAtPilot || x.AnyRefusing {
		x.turns(w, c, to, e, visit)
		return
	}
	first, ahead := one.first, one.ahead
	if !x.KeepsMinority {
		w.end(c, goneOf(c))
	}
	w.clients[c] = client{phase: collecting, slot: slot, first: first, ahead: ahead}
	visit(w, move{e, false})
}

// turns gives up an attempt. A waiter asks a node next.
func (x *calm) turns(w *world, c, to int, e event, visit mover) {
	one := &w.clients[c]
	first, ahead := one.first, one.ahead
	if c >= x.Clients-x.Spinners {
		w.end(c, goneOf(c))
		visit(w, move{e, false})
		return
	}
	if !x.KeepsMinority {
		w.end(c, goneOf(c))
	}
	*one = client{phase: waiting, at: int8(to) + 1, first: first, ahead: ahead}
	visit(w, move{e, false})
}

func (x *calm) holds(w *world, c int, slot int8, e event, visit mover) {
	one := &w.clients[c]
	e.kind, e.slot = Holds, slot
	for other := range x.Clients {
		o := &w.clients[other]
		e.broken = e.broken || o.phase == holding && o.slot == slot || one.ahead&bitOf(other) != 0 && o.phase == queued
	}
	*one = client{phase: holding, slot: slot}
	w.passed(c)
	for n := range w.nodes { // what it has besides, it releases
		for i := range permits {
			if w.nodes[n].Slots[i] == valueOf(c) && int8(i)+1 != slot {
				w.nodes[n].Slots[i] = goneOf(c)
			}
		}
	}
	visit(w, move{e, false})
}
