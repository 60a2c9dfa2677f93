package permit

// Calm is a world without faults: no message is lost or comes twice, each node executes what a
// client sends in its order, no key expires, and nobody polls. Messages of different clients, and
// to different nodes, overtake each other. A client has all answers of a round before it goes on.
type Calm struct {
	Permits    int  // 1..2
	Clients    int  // 1..3
	Spinners   int  // how many of them never wait: TryAcquire
	AnyFirst   bool // a client may ask for any slot first, not only for the first one
	PilotFirst bool // a client asks the pilot first, not all nodes
	Cancels    bool // waiters may give up
	Calls      int  // how often clients ask for a permit, 1..7; 0: without end

	// Crashes is how many clients crash. What they leave behind expires later than a search looks.
	// So it then looks only for circles in which one client goes on for ever until that time.
	Crashes int

	// Prompt lets a release arrive everywhere before a request of a waiter that it woke. Then a
	// client that has the pilot's vote must win, and nobody may get a permit while a client is
	// still on the pilot's list that was there before it came. It takes PilotFirst.
	Prompt bool
}

// CalmRules are the protocol. The zero CalmRules are the right ones; anything set is a mistake.
type CalmRules struct {
	KeepsMinority bool // a refused client keeps what it got elsewhere, and tries the next slot
	ForgetsList   bool // a release hands nothing over
	LeaveDrops    bool // a waiter that leaves does not give back what it was given
	StaysAtPilot  bool // a client that was refused waits at the pilot, whoever refused
	AnyRefusing   bool // a refused client asks any node that refused, whatever is free there
	Newest        bool // a release hands over to the newest waiter
}

type calm struct {
	Calm
	CalmRules
}

// A move is a step, and whether it is one that a caller decides on.
type move struct {
	event
	calls bool
}

type mover func(next *world, m move)

func (x *calm) each(w *world, visit mover) {
	for c := range x.Clients {
		one := &w.clients[c]
		if w.losses > 0 && one.phase != idle {
			next := *w
			next.losses--
			next.end(c, dead)
			next.passed(c)
			visit(&next, move{event{kind: Crashes, client: int8(c), node: nowhere}, true})
		}
		switch one.phase {
		case idle:
			x.begins(w, c, visit)
		case holding:
			next := *w
			next.end(c, goneOf(c))
			visit(&next, move{event{kind: Unlocks, client: int8(c), node: nowhere}, true})
		case waiting:
			x.waits(w, c, visit)
			x.cancels(w, c, visit)
		case queued:
			x.cancels(w, c, visit)
		case woken:
			x.wakes(w, c, visit)
			x.cancels(w, c, visit)
		case trying, collecting:
			for n := range w.nodes {
				if one.votes[n] == unknown {
					x.asks(w, c, n, visit)
				}
			}
		}
	}
	for n := range w.nodes {
		x.settles(w, n, visit)
	}
}

func (x *calm) begins(w *world, c int, visit mover) {
	for first := range x.Permits {
		if first > 0 && !x.AnyFirst {
			break
		}
		next := *w
		if x.Calls > 0 && w.calls == 0 {
			break
		} else if x.Calls > 0 {
			next.calls--
		}
		one := &next.clients[c]
		one.phase, one.first = trying, int8(first)+1
		if x.PilotFirst {
			one.phase, one.at = waiting, pilot+1
		}
		for other := range x.Clients {
			if x.Prompt && w.clients[other].phase == queued {
				one.ahead |= bitOf(other)
			}
		}
		visit(&next, move{event{kind: Begins, client: int8(c), node: nowhere, slot: one.first}, true})
	}
}

func (x *calm) cancels(w *world, c int, visit mover) {
	if !x.Cancels {
		return
	}
	next := *w
	if x.LeaveDrops {
		next.drop(c)
	}
	next.end(c, goneOf(c))
	next.passed(c)
	visit(&next, move{event{kind: Cancels, client: int8(c), node: nowhere}, true})
}

// drop leaves the slots that a client was given to nobody.
func (w *world) drop(c int) {
	for n := range w.nodes {
		for i := range permits {
			if w.nodes[n].Slots[i] == valueOf(c) {
				w.nodes[n].Slots[i] = dead
			}
		}
	}
}

// passed notes that a client does not wait any more.
func (w *world) passed(c int) {
	for other := range w.clients {
		w.clients[other].ahead &^= bitOf(c)
	}
}

// asks executes a request of a round.
func (x *calm) asks(w *world, c, n int, visit mover) {
	if w.nodes[n].has(goneOf(c)) {
		return // its release comes first
	}
	next := *w
	one, m := &next.clients[c], &next.nodes[n]
	if one.phase == trying {
		a := m.Take(valueOf(c), x.Permits, int(one.first))
		one.votes[n], one.free[n] = vote(a.Slot), a.Free
	} else {
		if x.Prompt && m.Slots[one.slot-1].isGone() {
			return // the release is under way
		}
		one.votes[n] = x.takeSlot(&next, c, n)
	}
	e := at(Takes, c, n, one.votes[n])
	if one.votes[n] == unknown {
		one.votes[n], e.kind = refused, IsRefused
	}
	switch {
	case one.count(unknown) > 0:
		visit(&next, move{e, false})
	case one.phase == trying:
		x.tried(&next, c, e, visit)
	default:
		x.collected(&next, c, e, visit)
	}
}

func (x *calm) takeSlot(next *world, c, n int) vote {
	one, m := &next.clients[c], &next.nodes[n]
	slot := int(one.slot)
	if x.KeepsMinority {
		if m.free(slot) || m.Slots[slot-1] == valueOf(c) {
			m.Slots[slot-1] = valueOf(c)
			return one.slot
		}
		one.free[n] = m.freeSlots(x.Permits)
		return unknown
	}
	a, given := m.TakeSlot(valueOf(c), x.Permits, slot, alive)
	for i, to := range given {
		next.wake(n, i+1, to)
	}
	one.free[n] = a.Free
	return vote(a.Slot)
}
